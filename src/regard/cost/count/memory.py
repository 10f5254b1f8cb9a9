"""Bytes that stay: weights, key-value cache, gradients and optimiser states."""

from __future__ import annotations

from typing import Literal

from regard.cost.count.flops import layer_groups
from regard.cost.count.parameters import parameter_total
from regard.cost.count.weights import Symbols
from regard.cost.quantity import Quantity, smallest, symbol, total
from regard.cost.workload import OPTIMISERS, Workload, dtype_bytes
from regard.models.published.architecture import Architecture

Holder = Literal["transformers", "ring"]


def cache_per_token(a: Architecture) -> Quantity:
    """Numbers a layer caches for one token: keys and values of the key-value heads, or the latent they are made from.

    >>> print(cache_per_token(Architecture("tiny", layers=2, width=8, heads=4, kv_heads=2, vocabulary=5)))
    2 · d_head · kv_heads = 2 · 2 · 2 = 8
    """
    s = Symbols(a)
    if a.kv_rank:
        return symbol("kv_rank", a.kv_rank) + symbol("d_rope", a.rope_dim)
    return s.head_dim * s.kv_heads + s.value_dim * s.kv_heads


def cached_tokens(window: int | None, tokens: Quantity, holder: Holder) -> Quantity:
    """How many tokens a layer holds: a window of w needs the w − 1 before the newest, and a ring buffer has room for w."""
    if window is None:
        return tokens
    width = symbol("window", window)
    return smallest(tokens, width - 1 if holder == "transformers" else width)


def cache_bytes(a: Architecture, work: Workload, holder: Holder = "transformers") -> dict[str, Quantity]:
    """The key-value cache once all the context's tokens are in it, by kind of layer.

    >>> tiny = Architecture("tiny", layers=2, width=8, heads=4, kv_heads=2, vocabulary=5, windows=(3, None))
    >>> {kind: count.value for kind, count in cache_bytes(tiny, Workload(context=10, dtype="fp32")).items()}
    {'layers of window 3': 64, 'layers that see all': 320}
    """
    if not a.causal:
        return {}
    tokens = symbol("N", work.tokens(a))
    one = symbol("batch", work.batch) * cache_per_token(a) * symbol("bytes", dtype_bytes(work.cache_dtype or work.dtype))
    found = {
        "layers that see all" if window is None else f"layers of window {window:,}": layers * cached_tokens(window, tokens, holder) * one
        for window, layers in layer_groups(a)
    }
    if a.encoder_layers:
        found["cross-attention"] = symbol("layers", a.layers) * symbol("source", work.source or work.tokens(a)) * one
    return found


def weight_bytes(a: Architecture, dtype: str) -> Quantity:
    """The parameters in memory."""
    return parameter_total(a).named("parameters") * symbol("bytes", dtype_bytes(dtype))


def training_bytes(a: Architecture, work: Workload) -> dict[str, Quantity]:
    """Weights, gradients and optimiser states of a training run, all in the master dtype, as torch.optim keeps them.

    When the arithmetic is in a smaller dtype (autocast), its copy of the weights is counted too.
    """
    parameters, master = parameter_total(a).named("parameters"), symbol("bytes", dtype_bytes(work.master))
    found = {"weights": parameters * master, "gradients": parameters * master}
    states = OPTIMISERS[work.optimiser]
    if states:
        found[f"{work.optimiser} states"] = states * parameters * master
    if dtype_bytes(work.dtype) < dtype_bytes(work.master):
        found[f"{work.dtype} copy of the weights"] = weight_bytes(a, work.dtype)
    return found


def summed(parts: dict[str, Quantity]) -> Quantity:
    """A sum that reads as the names of its parts."""
    return total(count.named(name) for name, count in parts.items())
