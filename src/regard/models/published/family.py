"""The description of one published family: the fields of its config.json, and how `Gpt` or `Bert` loads its weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from regard.models.published.architecture import Architecture, ConfigError
from regard.models.published.fields import Fields
from regard.models.published.tensors import TensorMap

if TYPE_CHECKING:  # their modules import torch, and `regard plan` works without it
    from regard.models.bert import BertConfig
    from regard.models.gpt import GptConfig

__all__ = ["Family", "Loader", "Shape", "activation", "sizes", "sliding_window"]

Shape = dict[str, Any]  # fields of Architecture
Config = TypeVar("Config", "GptConfig", "BertConfig")


@dataclass(frozen=True)
class Loader(Generic[Config]):
    """Functions that turn a family's folder into one of this library's models.

    config   (fields of config.json, architecture, names of the tensors in the folder) → GptConfig or BertConfig
    tensors  (that config, those names) → which published tensors make each tensor of the model
    """

    config: Callable[[Fields, Architecture, Collection[str]], Config]
    tensors: Callable[[Config, Collection[str]], TensorMap]


@dataclass(frozen=True)
class Family:
    """One `model_type` of config.json.

    shape      fields of config.json → fields of Architecture
    defaults   every field that is read, with the default of transformers
    aliases    other names of a field
    encoder    an encoder: without a head in `architectures` it is the bare model, as AutoModel builds it
    pooler     that bare model has a pooler
    gpt, bert  how `Gpt` or `Bert` loads its weights; None where it cannot
    """

    shape: Callable[[Fields], Shape]
    defaults: Mapping[str, Any]
    aliases: Mapping[str, str] = field(default_factory=dict)
    encoder: bool = False
    pooler: bool = False
    gpt: Loader[GptConfig] | None = None
    bert: Loader[BertConfig] | None = None


_ACTIVATIONS: dict[str, Literal["gelu", "gelu_tanh", "relu"]] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


def sizes(a: Architecture) -> dict[str, Any]:
    """Return the sizes that GptConfig and BertConfig have in common."""
    return {"vocabulary": a.vocabulary, "d_model": a.width, "heads": a.heads, "layers": a.layers, "hidden": a.mlp_width}


def activation(c: Fields, key: str) -> Literal["gelu", "gelu_tanh", "relu"]:
    """Return this library's name of an activation."""
    name = c.text(key)
    if name not in _ACTIVATIONS:
        raise ConfigError(f"config.json has {key} {name!r}; expected one of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def sliding_window(a: Architecture) -> tuple[int | None, tuple[int, ...] | None]:
    """Return the sliding window and the layers that have it (None: all), as BlockConfig stores them.

    >>> sliding_window(Architecture("tiny", layers=3, width=8, heads=2, vocabulary=11, windows=(None, 5, 5)))
    (5, (1, 2))
    """
    sliding = {layer: window for layer, window in enumerate(a.windows) if window is not None}
    if not sliding:
        return None, None
    return next(iter(sliding.values())), None if len(sliding) == a.layers else tuple(sliding)
