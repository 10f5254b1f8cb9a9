"""What describes one published family: the fields of its config.json, and how its weights become one of this library's models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from regard.models.bert import BertConfig
from regard.models.gpt import GptConfig
from regard.models.published.architecture import Architecture, ConfigError
from regard.models.published.fields import Fields
from regard.models.published.tensors import Recipes

__all__ = ["Family", "Loader", "Shape", "activation", "sizes", "sliding_window"]

Shape = dict[str, Any]  # fields of Architecture
Config = TypeVar("Config", GptConfig, BertConfig)


@dataclass(frozen=True)
class Loader(Generic[Config]):
    """How a family's folder becomes one of this library's models.

    config: our config, from the checked fields, the architecture they make, and the names of the tensors in the folder.
    tensors: which of their tensors make each of ours, from our config and those names.
    """

    config: Callable[[Fields, Architecture, Collection[str]], Config]
    tensors: Callable[[Config, Collection[str]], Recipes]


@dataclass(frozen=True)
class Family:
    """One `model_type` of config.json.

    shape: the checked fields as fields of Architecture. defaults: every field that is read, with what transformers assumes where
    the file leaves it out. aliases: other spellings of a field.
    encoder: without a named head it is the bare model, as AutoModel builds it. pooler: that bare model pools.
    gpt, bert: how `Gpt` or `Bert` reads its weights, where one of them can.
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
    """The sizes every config of ours has, under our names."""
    return {"vocabulary": a.vocabulary, "d_model": a.width, "heads": a.heads, "layers": a.layers, "hidden": a.mlp_width}


def activation(c: Fields, key: str) -> Literal["gelu", "gelu_tanh", "relu"]:
    """This library's name of an activation."""
    name = c.text(key)
    if name not in _ACTIVATIONS:
        raise ConfigError(f"config.json has {key} {name!r}; {', '.join(_ACTIVATIONS)} are read")
    return _ACTIVATIONS[name]


def sliding_window(a: Architecture) -> tuple[int | None, tuple[int, ...] | None]:
    """The window and the layers that have it (None: all), as BlockConfig keeps them.

    >>> sliding_window(Architecture("tiny", layers=3, width=8, heads=2, vocabulary=11, windows=(None, 5, 5)))
    (5, (1, 2))
    """
    sliding = {layer: window for layer, window in enumerate(a.windows) if window is not None}
    if not sliding:
        return None, None
    return next(iter(sliding.values())), None if len(sliding) == a.layers else tuple(sliding)
