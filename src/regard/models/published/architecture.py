"""`Architecture`: the sizes and options of a transformer, in the same terms for every family."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from regard.limits import check_count

BIASES = frozenset(
    {"query", "key", "value", "output", "up", "down", "head", "decoder", "router", "experts", "query_key_norm", "projection", "compressed"}
)
ATTENTION_BIASES = frozenset({"query", "key", "value", "output"})
MLP_BIASES = frozenset({"up", "down"})


class ConfigError(ValueError):
    """An invalid config; the message names the field, its value and what was expected."""


@dataclass(frozen=True, repr=False)
class Architecture:
    """The sizes and options of a transformer that its costs depend on. The defaults describe a plain decoder.

    Raises ConfigError for sizes that do not fit together.

    >>> tiny = Architecture("tiny", layers=2, width=8, heads=2, vocabulary=11)
    >>> tiny.head_dim, tiny.kv_heads, tiny.mlp_width, tiny.windows
    (4, 2, 32, (None, None))
    >>> Architecture("odd", layers=2, width=9, heads=2, vocabulary=11)
    Traceback (most recent call last):
        ...
    regard.models.published.architecture.ConfigError: width 9 does not divide into 2 heads; give head_dim
    """

    name: str  # what tables call it
    layers: int  # of the decoder, if there is an encoder too
    width: int  # d_model
    heads: int  # query heads
    vocabulary: int  # tokens

    family: str = "plain"  # the model_type of its config
    kv_heads: int = 0  # 0: as many as heads
    head_dim: int = 0  # of queries and keys; 0: width / heads
    value_dim: int = 0  # of values; 0: head_dim
    mlp_width: int = 0  # 0: 4 · width
    gated: bool = False  # two up-projections, multiplied (SwiGLU)
    activation: str = "gelu"  # of the MLP
    biases: frozenset[str] = frozenset()  # which linear layers have one

    norm: Literal["layer", "gain", "none"] = "layer"  # LayerNorm · RMSNorm (gain only) · without parameters
    norms: int = 2  # per layer
    # Before a sublayer (pre-norm) · after the residual sum (post-norm) · on a sublayer's output · before it and on its output.
    norm_place: Literal["before", "after", "branch", "both"] = "before"
    final_norm: bool = True  # after the last layer
    embedding_norm: bool = False  # after the embedding
    query_key_norm: Literal["none", "head", "width"] = "none"  # one gain of head_dim for all heads · one of heads · head_dim

    position: Literal["learned", "rotary", "alibi", "relative", "sinusoidal", "none"] = "learned"  # how positions enter
    positions: int = 0  # rows of a learned table
    relative_buckets: int = 0  # rows of the learned bias table (a column per head); one table per stack
    token_types: int = 0  # rows of the segment embedding
    embedding_width: int = 0  # 0: width
    # A projection between the two widths: before the layers, or (OPT) before and after them.
    embedding_projection: Literal["none", "in", "both"] = "none"
    tied: bool = True  # the output projection shares the embedding's weights
    head: Literal["language", "masked", "none"] = "language"  # what is computed of the last layer
    pooler: bool = False  # BERT's layer on the first token
    causal: bool = True  # whether a token sees only those before it

    shared_layers: int = 0  # number of layers with weights of their own, which the others share (ALBERT); 0: all
    windows: tuple[int | None, ...] = ()  # per layer: the sliding window, the token itself included, or None; (): no windows
    sinks: bool = False  # a learned logit per head in the softmax denominator

    experts: int = 0  # per layer; 0: a plain MLP
    active_experts: int = 0  # that one token uses
    expert_width: int = 0  # MLP width of one
    shared_width: int = 0  # width of the MLP every token passes in addition to its experts
    shared_gate: bool = False  # whether a learned gate scales that MLP
    dense_layers: int = 0  # layers with a plain MLP in a mixture of experts

    kv_rank: int = 0  # latent attention: width of the vector keys and values are computed from
    query_rank: int = 0  # the same for queries; 0: a plain projection
    rope_dim: int = 0  # the part of head_dim with rotary positions; shared by all heads

    encoder_layers: int = 0  # if > 0, every decoder layer has cross-attention
    source_vocabulary: int = 0  # 0: the encoder and the decoder share one table

    # How it is computed, which matters for the peak of memory only, not for parameters and FLOPs.
    joined_projection: bool = False  # one matrix for query, key and value, whose output is kept in one piece
    wide_softmax: bool = False  # dense attention computes its softmax in float32 in any dtype
    softcap: bool = False  # the scores pass a tanh
    held_embeddings: int = 0  # sums of embeddings kept in memory until the end

    notes: tuple[str, ...] = ()  # remarks shown with the counts

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                try:
                    check_count(field.name, value, 1 if field.name in ("layers", "width", "heads", "vocabulary") else 0)
                except ValueError as error:
                    raise ConfigError(str(error)) from error
        if not self.head_dim and self.width % self.heads:
            raise ConfigError(f"width {self.width} does not divide into {self.heads} heads; give head_dim")
        self._default("kv_heads", self.heads)
        self._default("head_dim", self.width // self.heads)
        self._default("value_dim", self.head_dim)
        self._default("mlp_width", 4 * self.width)
        self._default("embedding_width", self.width)
        self._default("shared_layers", self.layers)
        self._default("windows", (None,) * self.layers)
        if self.embedding_width != self.width and self.embedding_projection == "none":
            object.__setattr__(self, "embedding_projection", "in")
        if self.heads % self.kv_heads:
            raise ConfigError(f"{self.heads} heads cannot share {self.kv_heads} key-value heads; expected a divisor of {self.heads}")
        if len(self.windows) != self.layers:
            raise ConfigError(f"windows has {len(self.windows)} entries; expected one for each of the {self.layers} layers")
        if self.experts and not (0 < self.active_experts <= self.experts and self.expert_width):
            raise ConfigError(f"{self.experts} experts need active_experts (1 to {self.experts}) and expert_width")
        if self.dense_layers > self.layers:
            raise ConfigError(f"dense_layers is {self.dense_layers}; the model has only {self.layers} layers")
        if unknown := self.biases - BIASES:
            raise ConfigError(f"biases has {', '.join(sorted(unknown))}; expected some of {', '.join(sorted(BIASES))}")

    def shape_text(self) -> str:
        """Return layers, width, heads and vocabulary as a short text."""
        layers = f"{self.encoder_layers} + {self.layers} layers" if self.encoder_layers else f"{self.layers} layers"
        key_value = "" if self.kv_heads == self.heads else f", {self.kv_heads} key-value head" + ("s" if self.kv_heads > 1 else "")
        return f"{layers}, width {self.width:,}, {self.heads} heads of {self.head_dim}{key_value}, vocabulary {self.vocabulary:,}"

    def __repr__(self) -> str:
        return f"Architecture({self.name}: {self.shape_text()})"

    def _default(self, name: str, value: object) -> None:
        if not getattr(self, name):
            object.__setattr__(self, name, value)

    @property
    def nope_dim(self) -> int:
        """The part of head_dim without rotary positions, in latent attention."""
        return self.head_dim - self.rope_dim

    def textbook(self) -> Architecture:
        """Return the model as textbooks count it: weight matrices only, with embedding and output projection untied."""
        return dataclasses.replace(
            self,
            biases=frozenset(),
            norm="none",
            query_key_norm="none",
            position="none",
            positions=0,
            relative_buckets=0,
            token_types=0,
            tied=False,
            sinks=False,
        )

    @classmethod
    def of(cls, config: object, name: str = "model") -> Architecture:
        """Build it from a mapping or object with these field names; fields it does not have keep their defaults.

        config: the mapping or object.
        name: what tables call it.

        >>> Architecture.of({"layers": 2, "width": 8, "heads": 2, "vocabulary": 11}).layers
        2
        """
        fields = {field.name for field in dataclasses.fields(cls)}
        if isinstance(config, Mapping):
            options: dict[str, Any] = dict(config)
            for key in options:
                if key not in fields:
                    raise ConfigError(f"unknown field {key!r}{nearest(key, fields)}")
        else:
            options = {field: getattr(config, field) for field in fields if hasattr(config, field)}
        missing = [field for field in ("layers", "width", "heads", "vocabulary") if field not in options]
        if missing:
            raise ConfigError(f"missing {', '.join(missing)}; expected at least layers, width, heads and vocabulary")
        for field in ("biases", "windows"):
            if field in options:
                options[field] = (frozenset if field == "biases" else tuple)(options[field])
        return cls(**{"name": name, **options})


def nearest(word: str, known: object) -> str:
    """Return the end of an error message: "; did you mean …?" if a known word is similar, else ""."""
    assert isinstance(known, (set, frozenset, list, tuple, dict))
    close = difflib.get_close_matches(word, [str(k) for k in known], n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
