"""Count the parameters of a model by part: all of them, and those that one token uses."""

from __future__ import annotations

from regard.cost.count.weights import Symbols, weights
from regard.cost.quantity import Quantity, total
from regard.models.published.architecture import Architecture

GROUPS: dict[str, tuple[str, ...]] = {
    "embeddings": ("token embedding", "position embedding", "token types", "relative positions", "embedding projection"),
    "attention": ("query", "key", "value", "output", "latent", "sinks"),
    "cross-attention": ("cross query", "cross key", "cross value", "cross output"),
    "mlp": ("mlp",),
    "experts": ("router", "experts", "shared experts"),
    "norms": ("norms",),
    "head": ("head", "unembedding", "pooler"),
}


def parameters(a: Architecture) -> dict[str, Quantity]:
    """Return the parameters by part, summed over all layers.

    >>> tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5, positions=3)
    >>> print(parameters(tiny)["mlp"])
    2 · d_model · d_mlp · layers = 2 · 4 · 16 · 1 = 128
    """
    counts: dict[str, Quantity] = {}
    for weight in weights(a):
        counts[weight.part] = counts.get(weight.part, Quantity()) + weight.stored
    return {part: count for part, count in counts.items() if count.value}


def grouped(parts: dict[str, Quantity]) -> dict[str, Quantity]:
    """Sum parts into groups: embeddings, attention, MLP, norms and so on."""
    sums = {group: total(parts[part] for part in members if part in parts) for group, members in GROUPS.items()}
    return {group: count for group, count in sums.items() if count.value}


def parameter_total(a: Architecture) -> Quantity:
    """Return the number of parameters, as the sum of its groups."""
    return total(count.named(group) for group, count in grouped(parameters(a)).items())


def active_total(a: Architecture) -> Quantity:
    """Return the parameters that one token uses: in a mixture of experts, only the experts it is routed to."""
    counts: dict[str, Quantity] = {}
    for weight in weights(a):
        counts[weight.part] = counts.get(weight.part, Quantity()) + weight.used_per_token
    return total(count.named(group) for group, count in grouped(counts).items())


def attention_pieces(a: Architecture) -> dict[str, Quantity]:
    """Return the weight counts of one head and one layer: each matrix, and the value map as one matrix and as its two factors.

    A head's value map d_model → d_model is stored as two factors: Value↓ (a part of `value`) and Value↑ (a part of `output`).
    """
    s = Symbols(a)
    if a.kv_rank:
        return {}
    query, value = s.d * s.head_dim, s.d * s.value_dim
    pieces = {
        "one query matrix": query,
        "one key matrix": query,
        "one value map, whole": s.d * s.d,
        "one value map, factored (Value↓ + Value↑)": 2 * value,
        "one head": 2 * query + 2 * value,
        "one layer's attention": s.d * s.head_dim * (s.heads + s.kv_heads) + s.d * s.value_dim * (s.heads + s.kv_heads),
    }
    return pieces
