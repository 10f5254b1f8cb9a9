"""The tables of a translation config, and the settings chosen for a file of pairs."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torch import nn

from ....text.pairs import Pair, hold_out, read_pairs
from ....text.script import script_of
from ....text.vocabulary import Kind
from ...config_from_data import set_key
from ...loop.settings import Training
from ...tables import VocabularyTable

if TYPE_CHECKING:
    from ....models.seq2seq import Bahdanau, FixedContext


@dataclass(frozen=True)
class Data:
    """The `[data]` table: one file (TSV or .jsonl) or two parallel ones. Without `valid`, a share of `train` is held out."""

    train: str | tuple[str, ...]
    valid: str | tuple[str, ...] | None = None
    held_out: float = 0.02
    columns: tuple[int, int] = (0, 1)
    keys: tuple[str, str] = ("source", "target")
    batch_tokens: int = 2000
    max_length: int = 100

    def files(self) -> list[str]:
        return [name for part in (self.train, self.valid or ()) for name in ((part,) if isinstance(part, str) else part)]

    def read(self, root: Path) -> tuple[list[Pair], list[Pair]]:
        """Read the training pairs and the held-out pairs; paths are relative to `root`."""

        def pairs(part: str | tuple[str, ...]) -> list[Pair]:
            return read_pairs(root / part if isinstance(part, str) else [root / p for p in part], columns=self.columns, keys=self.keys)

        return (pairs(self.train), pairs(self.valid)) if self.valid else hold_out(pairs(self.train), self.held_out)


@dataclass(frozen=True)
class Words(VocabularyTable):
    """A `[source]` or `[target]` table: how a vocabulary is trained. kind "shared" (target only): one vocabulary trained on both sides."""

    kind: Kind | Literal["shared"] = "bpe"


@dataclass(frozen=True)
class RecurrentModel:
    """Options of both recurrent translators."""

    embedding: int = 256
    state: int = 512
    dropout: float = 0.3
    tied: bool = True

    def build(self, source: int, target: int, *, shared: bool) -> nn.Module:
        """Build the model for vocabularies of `source` and `target` words; `shared`: one embedding for both."""
        model = self.build_separate(source, target)
        if shared:
            model.encoder.embedding.weight = model.embedding.weight
        return model

    def build_separate(self, source: int, target: int) -> Bahdanau | FixedContext:
        """Build the model with an embedding for each side."""
        raise NotImplementedError


@dataclass(frozen=True)
class BahdanauModel(RecurrentModel):
    """`[model]` kind "bahdanau": recurrent, with attention."""

    kind: Literal["bahdanau"] = "bahdanau"
    alignment: int = 256
    score: Literal["additive", "dot", "scaled-dot", "bilinear"] = "additive"
    query: Literal["previous", "current"] = "previous"
    copy: bool = False

    def build_separate(self, source: int, target: int) -> Bahdanau:
        from ....models.seq2seq import Bahdanau
        from ....scores import Bilinear, Dot, ScaledDot

        width = 2 * (self.state // 2)
        score = {"additive": None, "dot": Dot(), "scaled-dot": ScaledDot(), "bilinear": Bilinear(self.state, width)}[self.score]
        sizes = {"embedding": self.embedding, "state": self.state, "alignment": self.alignment}
        options = {"dropout": self.dropout, "tied": self.tied, "copy": self.copy}
        return Bahdanau(source, target, **sizes, score=score, query=self.query, **options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class FixedModel(RecurrentModel):
    """`[model]` kind "fixed": recurrent, with one context vector for the whole source."""

    kind: Literal["fixed"] = "fixed"

    def build_separate(self, source: int, target: int) -> FixedContext:
        from ....models.seq2seq import FixedContext

        return FixedContext(source, target, embedding=self.embedding, state=self.state, dropout=self.dropout, tied=self.tied)


@dataclass(frozen=True)
class TransformerModel:
    """`[model]` kind "transformer"."""

    kind: Literal["transformer"] = "transformer"
    d_model: int = 256
    heads: int = 4
    kv_heads: int | None = None
    hidden: int | None = None
    encoder_layers: int = 3
    decoder_layers: int = 3
    norm: Literal["layer", "rms"] = "layer"
    placement: Literal["pre", "post"] = "pre"
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = "relu"
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "sinusoidal"
    dropout: float = 0.3
    attention_dropout: float = 0.0
    context: int = 512
    tied: bool = True
    causal: bool = True
    scaled: bool = True
    copy: bool = False

    def build(self, source: int, target: int, *, shared: bool) -> nn.Module:
        from ....models.transformer import Transformer, TransformerConfig

        options = {name: value for name, value in vars(self).items() if name != "kind"}
        return Transformer(TransformerConfig(source_vocabulary=source, target_vocabulary=target, shared=shared, **options))


@dataclass(frozen=True)
class Decoding:
    """The `[decoding]` table: how translations are decoded when the model is evaluated and used."""

    beam: int = 5
    length_penalty: float = 1.0
    max_length: int = 100
    lowercase: bool = False
    tokenize: Literal["13a", "zh", "char", "intl", "none"] = "13a"
    valid_sentences: int = 1000


@dataclass(frozen=True)
class TranslationConfig:
    """A translation config. `start` is the folder of another run: training begins with its vocabularies and best weights."""

    out: str
    data: Data
    source: Words
    target: Words
    model: BahdanauModel | FixedModel | TransformerModel
    training: Training
    decoding: Decoding = field(default_factory=Decoding)
    start: str | None = None

    def __post_init__(self) -> None:
        if self.source.kind == "shared":
            raise ValueError('source.kind is "shared"; only the target can share the source\'s vocabulary')
        if self.target.kind == "shared" and self.target != Words(kind="shared"):
            raise ValueError('target.kind is "shared", so its vocabulary is the source\'s; remove the other keys of [target]')
        if getattr(self.model, "copy", False) and self.target.kind != "shared":
            raise ValueError('model.copy copies source words into the target and needs one vocabulary of both; set target.kind = "shared"')

    def files(self) -> list[str]:
        return self.data.files()


def adapt(manual: str, data: Path, models: Collection[str] = ()) -> str:
    """Return the manual with settings chosen for a file of pairs: characters for Chinese, steps and sizes by the number of pairs."""
    pairs = read_pairs(data)
    text = re.sub(r"^valid = ", "# valid = ", manual, flags=re.M)
    for side, texts in (("source", [p.source for p in pairs]), ("target", [p.target for p in pairs])):
        if script_of(" ".join(texts[:1000])) == "CJK":
            text = set_key(text, "kind", "char", after=f"\n[{side}]")
            text = set_key(text, "tokenize", "zh") if side == "target" else text
    if len(pairs) >= FEW_PAIRS:
        return set_key(text, "steps", min(20000, max(1500, len(pairs) // 5)))  # fewer epochs for large files
    for key, value in SMALL.items():
        text = re.sub(rf"^({key} = (\d+) +#.*)$", r"\1 (default \2)", text, count=1, flags=re.M)
        text = set_key(text, key, value)
    return set_key(set_key(text, "warmup", 50), "steps", max(500, len(pairs) // 3))


# A file of few pairs trains a model a quarter as large, in small batches: a few minutes on a processor instead of a quarter of an hour.
FEW_PAIRS = 5000
SMALL = {"batch_tokens": 1000, "embedding": 128, "state": 256, "alignment": 128, "evaluate_every": 100, "checkpoint_every": 100}
