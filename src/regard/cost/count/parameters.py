"""How many parameters a model has, by part, in each way of counting."""

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
    """Parameters by part, over all layers.

    >>> tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5, positions=3)
    >>> print(parameters(tiny)["mlp"])
    2 · d_model · d_mlp · layers = 2 · 4 · 16 · 1 = 128
    """
    found: dict[str, Quantity] = {}
    for weight in weights(a):
        found[weight.part] = found.get(weight.part, Quantity()) + weight.stored
    return {part: count for part, count in found.items() if count.value}


def grouped(parts: dict[str, Quantity]) -> dict[str, Quantity]:
    """The same, gathered into attention, MLP, norms and so on; like terms merge."""
    sums = {group: total(parts[part] for part in members if part in parts) for group, members in GROUPS.items()}
    return {group: count for group, count in sums.items() if count.value}


def parameter_total(a: Architecture) -> Quantity:
    """The whole count, as the sum of its groups."""
    return total(count.named(group) for group, count in grouped(parameters(a)).items())


def active_total(a: Architecture) -> Quantity:
    """The parameters one token meets: of a mixture only the experts it is sent to."""
    found: dict[str, Quantity] = {}
    for weight in weights(a):
        found[weight.part] = found.get(weight.part, Quantity()) + weight.met
    return total(count.named(group) for group, count in grouped(found).items())


def attention_pieces(a: Architecture) -> dict[str, Quantity]:
    """One head and one layer taken apart, weights only: each map, and the value map whole against its two factors.

    The value map of a head, d_model → d_model, is never stored: Value↓ (in `value`) and Value↑ (in `output`) are.
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
