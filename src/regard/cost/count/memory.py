"""Memory that lasts beyond a step: weights, key-value cache, gradients and optimiser states."""

from __future__ import annotations

from typing import Literal

from regard.cost.count.flops import layer_groups
from regard.cost.count.parameters import parameter_total
from regard.cost.count.weights import Symbols
from regard.cost.quantity import Quantity, smallest, symbol, total
from regard.cost.workload import OPTIMISERS, Workload, dtype_bytes
from regard.models.published.architecture import Architecture

CacheKind = Literal["transformers", "ring"]


def cache_per_token(a: Architecture) -> Quantity:
    """Return how many numbers a layer caches per token: keys and values of the key-value heads, or the latent they are projected from.

    >>> print(cache_per_token(Architecture("tiny", layers=2, width=8, heads=4, kv_heads=2, vocabulary=5)))
    2 · d_head · kv_heads = 2 · 2 · 2 = 8
    """
    s = Symbols(a)
    if a.kv_rank:
        return symbol("kv_rank", a.kv_rank) + symbol("d_rope", a.rope_dim)
    return s.head_dim * s.kv_heads + s.value_dim * s.kv_heads


def cached_tokens(window: int | None, tokens: Quantity, kind: CacheKind) -> Quantity:
    """Return how many tokens a layer caches: with a window w, transformers keeps the w − 1 before the newest, a ring buffer w."""
    if window is None:
        return tokens
    width = symbol("window", window)
    return smallest(tokens, width - 1 if kind == "transformers" else width)


def cache_bytes(a: Architecture, work: Workload, kind: CacheKind = "transformers") -> dict[str, Quantity]:
    """Return the bytes of the key-value cache at the full context, by kind of layer.

    >>> tiny = Architecture("tiny", layers=2, width=8, heads=4, kv_heads=2, vocabulary=5, windows=(3, None))
    >>> {layers: count.value for layers, count in cache_bytes(tiny, Workload(context=10, dtype="fp32")).items()}
    {'sliding-window layers (3)': 64, 'full-attention layers': 320}
    """
    if not a.causal:
        return {}
    tokens = symbol("N", work.tokens(a))
    per_token = symbol("batch", work.batch) * cache_per_token(a) * symbol("bytes", dtype_bytes(work.cache_dtype or work.dtype))
    parts = {}
    for window, layers in layer_groups(a):
        name = "full-attention layers" if window is None else f"sliding-window layers ({window:,})"
        parts[name] = layers * cached_tokens(window, tokens, kind) * per_token
    if a.encoder_layers:
        parts["cross-attention"] = symbol("layers", a.layers) * symbol("source", work.source or work.tokens(a)) * per_token
    return parts


def weight_bytes(a: Architecture, dtype: str) -> Quantity:
    """Return the bytes of all parameters."""
    return parameter_total(a).named("parameters") * symbol("bytes", dtype_bytes(dtype))


def training_bytes(a: Architecture, work: Workload) -> dict[str, Quantity]:
    """Return the bytes of weights, gradients and optimiser states, all in the master dtype, as torch.optim keeps them.

    With a smaller compute dtype (autocast), its copy of the weights is counted too.
    """
    parameters, master = parameter_total(a).named("parameters"), symbol("bytes", dtype_bytes(work.master))
    parts = {"weights": parameters * master, "gradients": parameters * master}
    states = OPTIMISERS[work.optimiser]
    if states:
        parts[f"{work.optimiser} states"] = states * parameters * master
    if dtype_bytes(work.dtype) < dtype_bytes(work.master):
        parts[f"{work.dtype} copy of the weights"] = weight_bytes(a, work.dtype)
    return parts


def summed(parts: dict[str, Quantity]) -> Quantity:
    """Sum parts into a quantity whose formula is the names of the parts."""
    return total(count.named(name) for name, count in parts.items())
