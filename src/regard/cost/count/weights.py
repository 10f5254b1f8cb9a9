"""List every weight of a model: the list that parameters, FLOPs and memory traffic are counted from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from regard.cost.quantity import Quantity, quantity, symbol
from regard.models.published.architecture import Architecture

Rows = Literal["tokens", "source", "cache", "logits", "first", "none"]


@dataclass(frozen=True)
class Weight:
    """The size of a matrix with its bias, or of a vector alone, and how often it is stored and applied.

    rows: which rows the matrix is applied to: new tokens, source tokens, all cached tokens, positions whose logits are computed, the
    first token, or none (an embedding look-up).
    """

    part: str
    matrix: Quantity  # entries of the matrix
    vector: Quantity = field(default_factory=Quantity)  # entries of bias and gain
    copies: Quantity = field(default_factory=lambda: quantity(1))  # how often it is stored
    runs: Quantity = field(default_factory=lambda: quantity(1))  # how often it is applied; more than copies where layers share weights
    rows: Rows = "tokens"
    active: Quantity | None = None  # entries of the matrix that one row uses, in a mixture of experts
    active_vector: Quantity | None = None
    last: bool = False  # the last projection of its layer

    @property
    def stored(self) -> Quantity:
        """Parameters in the whole model."""
        return (self.matrix + self.vector) * self.copies

    @property
    def used_per_token(self) -> Quantity:
        """Parameters that one token uses."""
        matrix = self.matrix if self.active is None else self.active
        vector = self.vector if self.active_vector is None else self.active_vector
        return (matrix + vector) * self.copies


class Symbols:
    """The symbols of the formulas, with the numbers of an architecture."""

    def __init__(self, a: Architecture) -> None:
        self.d = symbol("d_model", a.width)
        self.heads = symbol("heads", a.heads)
        self.kv_heads = self.heads if a.kv_heads == a.heads else symbol("kv_heads", a.kv_heads)
        self.head_dim = symbol("d_head", a.head_dim)
        self.value_dim = self.head_dim if a.value_dim == a.head_dim else symbol("d_value", a.value_dim)
        self.mlp = symbol("d_mlp", a.mlp_width)
        self.vocabulary = symbol("vocabulary", a.vocabulary)
        self.embedding = self.d if a.embedding_width == a.width else symbol("d_embedding", a.embedding_width)
        self.layers = symbol("layers", a.layers)
        self.shared = self.layers if a.shared_layers == a.layers else symbol("shared_layers", a.shared_layers)
        self.encoder_layers = symbol("encoder_layers", a.encoder_layers)
        self.stacks = 2 if a.encoder_layers else 1
        self.gain = {"layer": 2, "gain": 1, "none": 0}[a.norm]


def weights(a: Architecture) -> list[Weight]:
    """Return all weights of an architecture.

    >>> tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5, positions=3)
    >>> [(w.part, w.stored.value) for w in weights(tiny)][:4]
    [('token embedding', 20), ('position embedding', 12), ('query', 16), ('key', 16)]
    """
    s = Symbols(a)
    result = [*_embeddings(a, s)]
    if a.encoder_layers:
        result += _attention(a, s, s.encoder_layers, s.encoder_layers, "source", "")
        result += _mlp(a, s, s.encoder_layers, s.encoder_layers, "source")
        result += _norms(a, s, s.encoder_layers, a.norms)
    result += _attention(a, s, s.shared, s.layers, "tokens", "")
    if a.encoder_layers:
        result += _attention(a, s, s.layers, s.layers, "tokens", "cross ")
    result += _experts(a, s) if a.experts else _mlp(a, s, s.shared, s.layers, "tokens")
    result += _norms(a, s, s.shared, a.norms + (1 if a.encoder_layers else 0))
    return [w for w in (*result, *_after_layers(a, s)) if w.stored.value or w.rows != "none"]


def _embeddings(a: Architecture, s: Symbols) -> Iterator[Weight]:
    yield Weight("token embedding", s.vocabulary * s.embedding, rows="none")
    if a.source_vocabulary:
        yield Weight("token embedding", symbol("source_vocabulary", a.source_vocabulary) * s.embedding, rows="none")
    width = s.d if a.embedding_projection == "both" else s.embedding
    yield Weight("position embedding", symbol("positions", a.positions) * width, copies=quantity(s.stacks), rows="none")
    yield Weight("token types", symbol("token_types", a.token_types) * s.embedding, rows="none")
    buckets = symbol("buckets", a.relative_buckets) * s.heads
    yield Weight("relative positions", buckets, copies=quantity(s.stacks), rows="none")
    if a.embedding_norm:
        yield Weight("norms", Quantity(), s.gain * s.embedding, copies=quantity(s.stacks), rows="none")
    if a.embedding_projection != "none":
        yield Weight("embedding projection", s.embedding * s.d, s.d if "projection" in a.biases else Quantity())


def _attention(a: Architecture, s: Symbols, copies: Quantity, runs: Quantity, rows: Rows, prefix: str) -> Iterator[Weight]:
    """Iterate over the four projections of a layer; `value` holds every head's Value↓, `output` every head's Value↑."""

    def bias(part: str, size: Quantity) -> Quantity:
        return size if part in a.biases else Quantity()

    query, key, value = s.head_dim * s.heads, s.head_dim * s.kv_heads, s.value_dim * s.kv_heads
    if a.kv_rank:
        yield from _latent(a, s, copies, runs)
    else:
        memory: Rows = "source" if prefix else rows
        yield Weight(f"{prefix}query", s.d * query, bias("query", query), copies, runs, rows)
        yield Weight(f"{prefix}key", s.d * key, bias("key", key), copies, runs, memory)
        yield Weight(f"{prefix}value", s.d * value, bias("value", value), copies, runs, memory)
    yield Weight(f"{prefix}output", s.d * s.value_dim * s.heads, bias("output", s.d), copies, runs, rows)
    if a.query_key_norm != "none":
        gain = 2 if "query_key_norm" in a.biases else 1
        sizes = 2 * s.head_dim if a.query_key_norm == "head" else query + key
        yield Weight("norms", Quantity(), gain * sizes, copies, runs, "none")
    if a.sinks:
        yield Weight("sinks", Quantity(), s.heads, copies, runs, "none")


def _latent(a: Architecture, s: Symbols, copies: Quantity, runs: Quantity) -> Iterator[Weight]:
    """Iterate over the weights of latent attention (DeepSeek): keys and values are projected from a short latent, which alone is cached."""
    rank, rope = symbol("kv_rank", a.kv_rank), symbol("d_rope", a.rope_dim)
    compressed = "compressed" in a.biases
    if a.query_rank:
        short = symbol("query_rank", a.query_rank)
        yield Weight("query", s.d * short, short if compressed else Quantity(), copies, runs)
        yield Weight("query", short * s.head_dim * s.heads, Quantity(), copies, runs)
        yield Weight("norms", Quantity(), s.gain * short, copies, runs, "none")
    else:
        yield Weight("query", s.d * s.head_dim * s.heads, Quantity(), copies, runs)
    yield Weight("latent", s.d * rank + s.d * rope, rank + rope if compressed else Quantity(), copies, runs)
    yield Weight("norms", Quantity(), s.gain * rank, copies, runs, "none")
    yield Weight("key", rank * symbol("d_nope", a.nope_dim) * s.heads, Quantity(), copies, runs, "cache")
    yield Weight("value", rank * s.value_dim * s.heads, Quantity(), copies, runs, "cache")


def _mlp(a: Architecture, s: Symbols, copies: Quantity, runs: Quantity, rows: Rows) -> Iterator[Weight]:
    ups = 2 if a.gated else 1
    yield Weight("mlp", ups * s.d * s.mlp, ups * s.mlp if "up" in a.biases else Quantity(), copies, runs, rows)
    yield Weight("mlp", s.d * s.mlp, s.d if "down" in a.biases else Quantity(), copies, runs, rows, last=True)


def _experts(a: Architecture, s: Symbols) -> Iterator[Weight]:
    layers = s.layers if not a.dense_layers else symbol("expert_layers", a.layers - a.dense_layers)
    experts, active = symbol("experts", a.experts), symbol("active_experts", a.active_experts)
    inner = symbol("d_expert", a.expert_width)
    matrices = 3 if a.gated else 2
    biases = (matrices - 1) * inner + s.d if "experts" in a.biases else Quantity()
    if a.dense_layers:
        dense_layers = symbol("dense_layers", a.dense_layers)
        yield from _mlp(a, s, dense_layers, dense_layers, "tokens")
    yield Weight("router", s.d * experts, experts if "router" in a.biases else Quantity(), layers, layers)
    expert = matrices * s.d * inner
    yield Weight("experts", expert * experts, biases * experts, layers, layers, active=expert * active, active_vector=biases * active)
    if a.shared_width:
        shared = s.d * symbol("d_shared", a.shared_width)
        yield Weight("shared experts", (matrices - 1) * shared, Quantity(), layers, layers)
        yield Weight("shared experts", shared, Quantity(), layers, layers, last=not a.shared_gate)
    if a.shared_gate:
        yield Weight("router", s.d, Quantity(), layers, layers)


def _norms(a: Architecture, s: Symbols, copies: Quantity, count: int) -> Iterator[Weight]:
    yield Weight("norms", Quantity(), s.gain * count * s.d, copies, copies, "none")


def _after_layers(a: Architecture, s: Symbols) -> Iterator[Weight]:
    """Iterate over the weights after the last layer."""
    if a.final_norm:
        yield Weight("norms", Quantity(), s.gain * s.d, copies=quantity(s.stacks), rows="none")
    if a.head == "masked":
        yield Weight("head", s.d * s.embedding, s.embedding + s.gain * s.embedding, rows="logits")
    if a.embedding_projection == "both":
        yield Weight("embedding projection", s.d * s.embedding)
    if a.head != "none":
        yield Weight("unembedding", s.vocabulary * s.embedding, copies=quantity(0 if a.tied else 1), rows="logits")
        for _ in {"head", "decoder"} & a.biases:
            yield Weight("unembedding", Quantity(), s.vocabulary, rows="none")
    if a.pooler:
        yield Weight("pooler", s.d * s.d, s.d, rows="first")
