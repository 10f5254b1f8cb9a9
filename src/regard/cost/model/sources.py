"""Find the architecture of a model given as a name, a path, a config or the model itself."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.cost.model.own_models import from_ours, from_saved, is_ours
from regard.cost.model.presets import ALIASES, PRESETS, preset
from regard.cost.model.weight_headers import StoredWeights, read_stored_weights
from regard.models.published.architecture import Architecture, ConfigError, nearest
from regard.models.published.families import architecture_from_config
from regard.models.published.fields import read_json


def architecture(source: object) -> Architecture:
    """Return the architecture of a preset's name, a path, a mapping (config.json or fields of `Architecture`), a config or a model.

    >>> architecture("gpt2").layers, architecture({"model_type": "llama"}).width
    (12, 4096)
    """
    if isinstance(source, Architecture):
        return source
    if isinstance(source, (str, Path)):
        return find(source)[0]
    if isinstance(source, Mapping):
        return _from_mapping(source, "")
    if is_ours(source):
        return from_ours(source)
    config = getattr(source, "config", source)
    if hasattr(config, "to_dict"):
        fields = config.to_dict()
        if source is not config:  # the model's own class: its config may still name the class of the checkpoint it was loaded from
            fields = {**fields, "architectures": [type(source).__name__]}
        return _from_mapping(fields, "")
    return Architecture.of(config)


def _from_mapping(config: Mapping[str, Any], name: str) -> Architecture:
    if "regard" in config and isinstance(config.get("config"), Mapping):
        return from_saved(config, name)
    if "model_type" in config or "text_config" in config:
        return architecture_from_config(config, name)
    if "layers" in config or "width" in config:
        return Architecture.of(config, name or "model")
    raise ConfigError("field 'model_type' is missing; expected a Hugging Face config.json, or at least layers, width, heads and vocabulary")


def find(source: str | Path) -> tuple[Architecture, StoredWeights | None]:
    """Return the architecture of a preset or a path, and with a path to weights the tensors that the files hold."""
    path = Path(source)
    name = str(source).lower().replace("_", "-")
    if name in PRESETS or name in ALIASES:
        return preset(str(source)), None
    if not os.path.exists(path):
        if path.suffix in (".json", ".safetensors", ".gguf") or len(path.parts) > 1:
            raise ConfigError(f"{source} does not exist")
        hint = nearest(name, [*PRESETS, *ALIASES]) or "; give a preset's name (`regard plan list`) or a path"
        raise ConfigError(f"no model is called {str(source)!r}{hint}")
    if path.is_file() and path.suffix == ".json":
        return _from_mapping(read_json(path), path.parent.name if path.name == "config.json" else path.stem), None
    if path.suffix == ".gguf":
        return _gguf_architecture(path), read_stored_weights(path)
    folder = path if path.is_dir() else path.parent
    config = folder / "config.json"
    if not config.is_file():
        raise ConfigError(f"{folder} has no config.json, which describes the model; put it beside the weights")
    stored = read_stored_weights(path)
    return _from_mapping(read_json(config), folder.resolve().name), stored if stored.tensors else None


def _gguf_architecture(path: Path) -> Architecture:
    from regard.models.published.gguf_file import read_gguf

    try:
        config = read_gguf(path)[0]
    except (ValueError, ImportError, OSError) as error:
        raise ConfigError(str(error)) from error
    return dataclasses.replace(from_ours(config), name=path.stem)
