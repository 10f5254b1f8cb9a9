"""From a Hugging Face config.json to an Architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from regard.cost.model.architecture import Architecture, ConfigError, nearest
from regard.cost.model.classics import CLASSICS
from regard.cost.model.decoders import DECODERS
from regard.cost.model.encoders import ENCODERS
from regard.cost.model.fields import Family, Fields

FAMILIES: dict[str, Family] = {**CLASSICS, **DECODERS, **ENCODERS}


def from_config(config: Mapping[str, Any], name: str = "") -> Architecture:
    """The architecture a Hugging Face config.json describes.

    >>> from_config({"model_type": "gpt2"}).width
    768
    >>> from_config({"model_type": "lama"})
    Traceback (most recent call last):
        ...
    regard.cost.model.architecture.ConfigError: unknown model_type 'lama'; did you mean llama?
    """
    kind = config.get("model_type")
    notes: tuple[str, ...] = ()
    if isinstance(config.get("text_config"), Mapping) and kind not in FAMILIES:
        notes = (f"the text part of a {kind} model; its other parts are not counted",)
        config = {"architectures": ["ForCausalLM"], **config["text_config"]}
        kind = config.get("model_type")
    if kind is None:
        raise ConfigError(f"field 'model_type' is missing; expected one of {', '.join(sorted(FAMILIES))}")
    if kind not in FAMILIES:
        close = nearest(str(kind), sorted(FAMILIES)) or f"; known are {', '.join(sorted(FAMILIES))}"
        raise ConfigError(f"unknown model_type {kind!r}{close}")
    known = FAMILIES[kind]
    for field in ("add_cross_attention", "is_decoder") if known.encoder else ("add_cross_attention",):
        if config.get(field):
            raise ConfigError(f"field {field!r} is true; expected false: this family is counted without it")
    shape = known.build(Fields(config, known.defaults, known.aliases))
    head, pooler, remark = _head(config, known)
    about = {"name": name or kind, "family": kind, "head": head, "pooler": pooler, "notes": notes + remark}
    # transformers' decoders keep what they add up at the start alive to the end.
    held = 0 if known.encoder else 2 if shape.get("position", "learned") == "learned" else 1
    return Architecture(**{**about, "held_embeddings": held, **shape})


def _head(config: Mapping[str, Any], known: Family) -> tuple[Literal["language", "masked", "none"], bool, tuple[str, ...]]:
    """Which head the named class carries, whether it pools, and a remark where it has one that is not counted."""
    named = str((config.get("architectures") or [""])[0])
    if not known.encoder and (not named or named.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration"))):
        return "language", False, ()
    if known.encoder and named.endswith("ForMaskedLM"):
        return "masked", False, ()
    remark = () if named == "" or named.endswith("Model") else (f"the head of {named} is not counted",)
    return "none", known.pooler, remark
