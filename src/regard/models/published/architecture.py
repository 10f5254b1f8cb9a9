"""The shape of a transformer in one vocabulary, whatever family it comes from."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

BIASES = frozenset(
    {"query", "key", "value", "output", "up", "down", "head", "decoder", "router", "experts", "query_key_norm", "projection", "compressed"}
)
ATTENTION_BIASES = frozenset({"query", "key", "value", "output"})
MLP_BIASES = frozenset({"up", "down"})


class ConfigError(ValueError):
    """A config that cannot be read: which field, what was given, what was expected."""


@dataclass(frozen=True)
class Architecture:
    """Everything a cost depends on. Only the first five have no default; the rest are the plainest decoder.

    >>> tiny = Architecture("tiny", layers=2, width=8, heads=2, vocabulary=11)
    >>> tiny.head_dim, tiny.kv_heads, tiny.mlp_width, tiny.windows
    (4, 2, 32, (None, None))
    >>> Architecture("odd", layers=2, width=9, heads=2, vocabulary=11)
    Traceback (most recent call last):
        ...
    regard.models.published.architecture.ConfigError: width 9 does not divide into 2 heads; give head_dim
    """

    name: str
    layers: int  # of the only stack, or of the decoder when there is an encoder too
    width: int
    heads: int
    vocabulary: int

    family: str = "plain"
    kv_heads: int = 0  # 0: as many as heads
    head_dim: int = 0  # of queries and keys; 0: width / heads
    value_dim: int = 0  # of values; 0: head_dim
    mlp_width: int = 0  # 0: 4 · width
    gated: bool = False  # gate and up side by side, multiplied
    activation: str = "gelu"
    biases: frozenset[str] = frozenset()

    norm: Literal["layer", "gain", "none"] = "layer"  # gain and bias · gain alone (RMSNorm) · nothing learned
    norms: int = 2  # in each layer, each of the model's width
    norm_place: Literal["before", "after", "branch", "both"] = "before"  # a part · the sum · what a part adds · a part and what it adds
    final_norm: bool = True
    embedding_norm: bool = False
    query_key_norm: Literal["none", "head", "width"] = "none"  # one vector for all heads · one that spans the heads

    position: Literal["learned", "rotary", "alibi", "relative", "sinusoidal", "none"] = "learned"
    positions: int = 0  # rows of a learned table
    relative_buckets: int = 0  # rows of a learned bias table, one column a head, one table a stack
    token_types: int = 0
    embedding_width: int = 0  # 0: width
    # A matrix between the two widths: before the layers, or (OPT) before and after them with the positions added between.
    embedding_projection: Literal["none", "in", "both"] = "none"
    tied: bool = True  # the unembedding is the embedding's transpose
    head: Literal["language", "masked", "none"] = "language"
    pooler: bool = False
    causal: bool = True

    shared_layers: int = 0  # how many layers own weights, the others borrowing them; 0: all
    windows: tuple[int | None, ...] = ()  # a layer: how many tokens a token sees, itself included; (): all see all
    sinks: bool = False  # one learned logit a head that takes weight and gives nothing

    experts: int = 0
    active_experts: int = 0
    expert_width: int = 0
    shared_width: int = 0  # of the MLP every token passes beside its experts
    shared_gate: bool = False
    dense_layers: int = 0  # layers with a plain MLP in a model of experts

    kv_rank: int = 0  # latent attention: keys and values are made from this many numbers a token
    query_rank: int = 0
    rope_dim: int = 0  # part of head_dim that carries the position; one for all heads

    encoder_layers: int = 0  # then every decoder layer also attends to the encoder
    source_vocabulary: int = 0  # 0: the encoder and the decoder share one table

    # How it is computed: of no matter for parameters and FLOPs, only for what stands in memory meanwhile.
    joined_projection: bool = False  # one matrix makes query, key and value, and its output is kept whole
    wide_softmax: bool = False  # dense attention takes its softmax in float32 whatever the dtype
    softcap: bool = False  # the scores pass a tanh
    held_embeddings: int = 0  # sums of embeddings that stay alive to the end

    notes: tuple[str, ...] = ()  # what a reader of the counts should know

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise ConfigError(f"{field.name} is {value!r}; expected a whole number, 0 or more")
        for name in ("layers", "width", "heads", "vocabulary"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)!r}; expected a whole number, 1 or more")
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
            raise ConfigError(f"windows names {len(self.windows)} layers, the model has {self.layers}")
        if self.experts and not (0 < self.active_experts <= self.experts and self.expert_width):
            raise ConfigError(f"{self.experts} experts need active_experts (1 to {self.experts}) and expert_width")
        if self.dense_layers > self.layers:
            raise ConfigError(f"dense_layers is {self.dense_layers}; the model has only {self.layers} layers")
        if unknown := self.biases - BIASES:
            raise ConfigError(f"biases names {', '.join(sorted(unknown))}; expected some of {', '.join(sorted(BIASES))}")

    def _default(self, name: str, value: object) -> None:
        if not getattr(self, name):
            object.__setattr__(self, name, value)

    @property
    def nope_dim(self) -> int:
        """The part of a latent head's key that does not carry the position."""
        return self.head_dim - self.rope_dim

    def textbook(self) -> Architecture:
        """The same model as the textbooks count it: weight matrices only, embedding and unembedding apart."""
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
        """From any mapping or object with these field names; fields it does not have keep their defaults.

        >>> Architecture.of({"layers": 2, "width": 8, "heads": 2, "vocabulary": 11}).layers
        2
        """
        fields = {field.name for field in dataclasses.fields(cls)}
        if isinstance(config, Mapping):
            given: dict[str, Any] = dict(config)
            for key in given:
                if key not in fields:
                    raise ConfigError(f"unknown field {key!r}{nearest(key, fields)}")
        else:
            given = {field: getattr(config, field) for field in fields if hasattr(config, field)}
        missing = [field for field in ("layers", "width", "heads", "vocabulary") if field not in given]
        if missing:
            raise ConfigError(f"missing {', '.join(missing)}; expected at least layers, width, heads and vocabulary")
        for field in ("biases", "windows"):
            if field in given:
                given[field] = (frozenset if field == "biases" else tuple)(given[field])
        return cls(**{"name": name, **given})


def nearest(word: str, known: object) -> str:
    """The end of an error message: "; did you mean …?" when something known is close."""
    assert isinstance(known, (set, frozenset, list, tuple, dict))
    close = difflib.get_close_matches(word, [str(k) for k in known], n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
