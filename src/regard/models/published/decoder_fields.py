"""Fields of config.json that most decoder families have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.models.published.architecture import ATTENTION_BIASES, ConfigError
from regard.models.published.family import Shape
from regard.models.published.fields import Fields

__all__ = ["QKV", "SLIDING", "biased", "defaults", "modern", "windows"]

QKV = frozenset({"query", "key", "value"})
SLIDING: dict[str, Any] = {"sliding_window": None, "layer_types": None}


def defaults(
    vocab_size: int, hidden_size: int, intermediate_size: int, num_hidden_layers: int, num_attention_heads: int, **others: Any
) -> dict[str, Any]:
    """Return the fields that all families since Llama have, with the defaults of one family."""
    return {
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": num_attention_heads,
        "num_key_value_heads": None,
        "head_dim": None,
        "tie_word_embeddings": False,
        **others,
    }


def modern(c: Fields, **changes: Any) -> Shape:
    """Return the shape of a decoder with rotary positions, grouped heads, a gated MLP and RMSNorm; `changes` override it."""
    shape: Shape = {
        "layers": c.count("num_hidden_layers"),
        "width": c.count("hidden_size"),
        "heads": c.count("num_attention_heads"),
        "kv_heads": c.size("num_key_value_heads"),
        "head_dim": c.size("head_dim"),
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.count("intermediate_size"),
        "gated": True,
        "activation": "silu",
        "norm": "gain",
        "position": "rotary",
        "tied": c.flag("tie_word_embeddings"),
        "wide_softmax": True,
    }
    if "attention_bias" in c:
        shape["biases"] = biased(c.flag("attention_bias"), ATTENTION_BIASES)
    if "sliding_window" in c:
        shape["windows"] = windows(c, shape["layers"])
    return {**shape, **changes}


def windows(c: Fields, layers: int, sliding: Callable[[int], bool] = lambda layer: True) -> tuple[int | None, ...]:
    """Return the sliding window of each layer, from layer_types if the config has it, else by the family's rule `sliding`."""
    window = c.size("sliding_window") or None
    kinds = c.any("layer_types")
    if kinds is not None:
        if not isinstance(kinds, (list, tuple)) or len(kinds) != layers:
            raise ConfigError(f"field 'layer_types' is {kinds!r}; expected a list with one entry for each of the {layers} layers")
        if unknown := set(kinds) - {"full_attention", "sliding_attention"}:
            raise ConfigError(f"field 'layer_types' has {sorted(map(str, unknown))[0]!r}; expected full_attention or sliding_attention")
        sliding = [kind == "sliding_attention" for kind in kinds].__getitem__
    return tuple(window if sliding(layer) else None for layer in range(layers))


def biased(condition: bool, biases: frozenset[str]) -> frozenset[str]:
    """Return the biases if the condition holds, else an empty set."""
    return biases if condition else frozenset()
