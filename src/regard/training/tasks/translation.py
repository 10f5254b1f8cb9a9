"""Text in, text out: translating, summarising, answering; anything that comes as pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...models.translator import Translator
from ...text.alignment import draw, word_alignment
from ...text.batches import bucketed, padded
from ...text.pairs import Pair, hold_out, read_pairs
from ...text.vocabulary import BOS, EOS, PAD, Kind, Vocabulary
from .. import metrics
from ..config import from_dict
from ..decoding import Hypothesis, beam, sample
from ..runs import load_best, read_run
from ..settings import Training


@dataclass(frozen=True)
class Data:
    """The `[data]` table: files are one path (TSV or .jsonl) or two (parallel). Without `valid`, a share of `train` is held out."""

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
        """The pairs to train on and those to measure on; paths are relative to `root`."""

        def pairs(part: str | tuple[str, ...]) -> list[Pair]:
            return read_pairs(root / part if isinstance(part, str) else [root / p for p in part], columns=self.columns, keys=self.keys)

        return (pairs(self.train), pairs(self.valid)) if self.valid else hold_out(pairs(self.train), self.held_out)


@dataclass(frozen=True)
class Words:
    """A `[source]` or `[target]` table: how one side's vocabulary is learnt. kind "shared" (target): the source's, learnt from both."""

    kind: Kind | Literal["shared"] = "bpe"
    size: int = 8000
    lowercase: bool = False
    simplify: bool = False
    min_count: int = 1


@dataclass(frozen=True)
class BahdanauModel:
    """`[model]` kind "bahdanau": recurrent, with attention."""

    kind: Literal["bahdanau"] = "bahdanau"
    embedding: int = 256
    state: int = 512
    alignment: int = 256
    score: Literal["additive", "dot", "scaled-dot", "bilinear"] = "additive"
    query: Literal["previous", "current"] = "previous"
    dropout: float = 0.3
    tied: bool = True

    def build(self, source: int, target: int, *, shared: bool) -> nn.Module:
        from ...models.seq2seq import Bahdanau
        from ...scores import Bilinear, Dot, ScaledDot

        width = 2 * (self.state // 2)
        score = {"additive": None, "dot": Dot(), "scaled-dot": ScaledDot(), "bilinear": Bilinear(self.state, width)}[self.score]
        model = Bahdanau(
            source,
            target,
            embedding=self.embedding,
            state=self.state,
            alignment=self.alignment,
            score=score,
            query=self.query,
            dropout=self.dropout,
            tied=self.tied,
        )
        if shared:
            model.encoder.embedding.weight = model.embedding.weight
        return model


@dataclass(frozen=True)
class FixedModel:
    """`[model]` kind "fixed": recurrent, with one context vector for the whole source."""

    kind: Literal["fixed"] = "fixed"
    embedding: int = 256
    state: int = 512
    dropout: float = 0.3
    tied: bool = True

    def build(self, source: int, target: int, *, shared: bool) -> nn.Module:
        from ...models.seq2seq import FixedContext

        model = FixedContext(source, target, embedding=self.embedding, state=self.state, dropout=self.dropout, tied=self.tied)
        if shared:
            model.encoder.embedding.weight = model.embedding.weight
        return model


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

    def build(self, source: int, target: int, *, shared: bool) -> nn.Module:
        from ...models.transformer import Transformer, TransformerConfig

        options = {name: value for name, value in vars(self).items() if name != "kind"}
        return Transformer(TransformerConfig(source_vocabulary=source, target_vocabulary=target, shared=shared, **options))


@dataclass(frozen=True)
class Decoding:
    """The `[decoding]` table: how translations are searched for when the model is measured and used."""

    beam: int = 5
    length_penalty: float = 1.0
    max_length: int = 100
    lowercase: bool = False
    tokenize: Literal["13a", "zh", "char", "intl", "none"] = "13a"
    valid_sentences: int = 1000


@dataclass(frozen=True)
class TranslationConfig:
    """A whole translation config. `start` is the folder of another run: its vocabularies and best weights are where this one begins."""

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

    def files(self) -> list[str]:
        return self.data.files()


@dataclass(frozen=True, eq=False)
class Batch:
    """source (B, S) with lengths (B,), target (B, T+1) from <s> to </s>."""

    source: Tensor
    lengths: Tensor
    target: Tensor


class Batches(Sequence[Batch]):
    """The batches of an epoch, each made when it is asked for."""

    def __init__(self, rows: list[list[int]], source: list[list[int]], target: list[list[int]]) -> None:
        self.rows, self.source, self.target = rows, source, target

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        source, lengths = padded([self.source[row] for row in self.rows[i]])
        target, _ = padded([[BOS, *self.target[row], EOS] for row in self.rows[i]])
        return Batch(source, lengths, target)


class TranslationTask:
    """Trains a translator on pairs and measures it on held-out pairs."""

    Config = TranslationConfig

    def __init__(
        self, config: TranslationConfig, model: nn.Module, vocabularies: tuple[Vocabulary, Vocabulary], train: list[Pair], valid: list[Pair]
    ) -> None:
        self.config = config
        self.model = model
        self.translations = Translations(model, *vocabularies, config.decoding, limit=config.data.max_length)
        self.valid = valid
        most = config.data.max_length
        source, target = self.translations.encode([p.source for p in train]), vocabularies[1].encode_all([p.target for p in train])
        kept = [i for i in range(len(train)) if len(source[i]) <= most and len(target[i]) < most]
        if not kept:
            raise ValueError(f"no training pair is within data.max_length = {most} tokens")
        self.source, self.target = [source[i] for i in kept], [target[i] for i in kept]
        self.dropped = len(train) - len(kept)

    @classmethod
    def build(cls, config: TranslationConfig, root: Path, folder: Path) -> TranslationTask:
        """Read the data, learn the vocabularies (or take those the run's folder has), make the model."""
        train, valid = config.data.read(root)
        begun = None if config.start is None else root / config.start
        if begun is not None:
            other = from_dict(read_run(begun, "translation"), TranslationConfig, origin=begun / "run.json")
            if (other.model, other.source, other.target) != (config.model, config.source, config.target):
                raise ValueError(f"start: {begun} has another [model], [source] or [target]; copy the three tables from its config")
        shared = config.target.kind == "shared"
        vocabularies: list[Vocabulary] = []
        for side, words in (("source", config.source), ("target", config.target)):
            file = folder / f"{side}.vocabulary.json"
            if not file.exists() and begun is not None:
                Vocabulary.load(begun / file.name).save(file)
            elif not file.exists():
                both = shared and side == "source"
                lines = [text for pair in train for text in (pair if both else (getattr(pair, side),))]
                vocabulary = vocabularies[0] if words.kind == "shared" else learn(words, lines)
                vocabulary.save(file)
            vocabularies.append(Vocabulary.load(file))
        torch.manual_seed(config.training.seed)
        model = config.model.build(len(vocabularies[0]), len(vocabularies[1]), shared=shared)
        if begun is not None:
            load_best(model, begun)
            model.train()
        return cls(config, model, (vocabularies[0], vocabularies[1]), train, valid)

    def batches(self, epoch: int) -> Batches:
        lengths = [max(len(s), len(t) + 1) for s, t in zip(self.source, self.target, strict=True)]
        rows = bucketed(lengths, tokens=self.config.data.batch_tokens, seed=self.config.training.seed, epoch=epoch)
        return Batches(rows, self.source, self.target)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        return _loss(model, batch, smoothing=self.config.training.smoothing)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Loss and perplexity on the whole held-out set; BLEU, chrF and exact matches on its first `valid_sentences`, greedily."""
        scores = {"loss": self.held_out_loss(model)}
        scores["perplexity"] = metrics.perplexity(scores["loss"])
        few = self.valid[: self.config.decoding.valid_sentences]
        if few:
            outputs = [found[0].text for found in self.translations.translate([p.source for p in few], width=1)]
            references = [p.target for p in few]
            options = {"lowercase": self.config.decoding.lowercase, "tokenize": self.config.decoding.tokenize}
            scores["bleu"] = metrics.bleu(outputs, references, **options).value  # type: ignore[arg-type]
            scores["chrf"] = metrics.chrf(outputs, references).value
            scores["exact"] = metrics.exact(outputs, references)
        return scores

    def held_out_loss(self, model: nn.Module) -> float:
        source, target = self.translations.source, self.translations.target
        rows = [(source.encode(p.source) or [EOS], target.encode(p.target)) for p in self.valid]
        order = bucketed([max(len(s), len(t) + 1) for s, t in rows], tokens=self.config.data.batch_tokens, seed=0, epoch=0)
        total, count = 0.0, 0
        for batch in Batches(order, [s for s, _ in rows], [t for _, t in rows]):
            loss, n = _loss(model, batch)
            total, count = total + float(loss), count + n
        return total / max(count, 1)

    def samples(self, model: nn.Module) -> str:
        """Three held-out sentences, what was wanted, what came out, and the alignment of the first."""
        few = self.valid[:3]
        lines = []
        for pair, found in zip(few, self.translations.translate([p.source for p in few], width=1, align=True), strict=True):
            lines += [f"in    {pair.source}", f"want  {pair.target}", f"got   {found[0].text}"]
            if pair is few[0] and found[0].alignment is not None:
                lines.append(found[0].picture())
        return "\n".join(lines)


def learn(words: Words, lines: Sequence[str]) -> Vocabulary:
    """The vocabulary a table describes."""
    return Vocabulary.train(
        lines, kind=cast(Kind, words.kind), size=words.size, lowercase=words.lowercase, simplify=words.simplify, min_count=words.min_count
    )


def _loss(model: nn.Module, batch: Batch, *, smoothing: float = 0.0) -> tuple[Tensor, int]:
    device = next(model.parameters()).device
    target = batch.target.to(device, non_blocking=True)
    keep = target[:, 1:] != PAD  # padding is not even read out
    wanted = target[:, 1:][keep]
    logits = model(batch.source.to(device, non_blocking=True), batch.lengths.to(device, non_blocking=True), target[:, :-1], keep=keep)
    return F.cross_entropy(logits.float(), wanted, reduction="sum", label_smoothing=smoothing), len(wanted)


@dataclass(frozen=True, eq=False)
class Translated:
    """One translation: its text, score, and the alignment (target words × source words) with the words it is between."""

    text: str
    score: float
    log_prob: float
    source_words: list[str]
    target_words: list[str]
    alignment: Tensor | None

    def picture(self, *, colour: bool = False, dark: bool = True) -> str:
        """The alignment drawn with characters, or "" when there is none."""
        if self.alignment is None:
            return ""
        return draw(self.alignment, self.target_words, self.source_words, colour=colour, dark=dark)


class Translations:
    """A trained translator with its vocabularies: text in, text out. `limit` is the longest source, in tokens, it was trained on."""

    def __init__(self, model: nn.Module, source: Vocabulary, target: Vocabulary, decoding: Decoding, *, limit: int = 100) -> None:
        self.model, self.source, self.target, self.decoding, self.limit = model, source, target, decoding, limit

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> Translations:
        """The best model of a finished or running training."""
        folder = Path(folder)
        config = from_dict(read_run(folder, "translation"), TranslationConfig, origin=folder / "run.json")
        source, target = (Vocabulary.load(folder / f"{side}.vocabulary.json") for side in ("source", "target"))
        model = config.model.build(len(source), len(target), shared=config.target.kind == "shared")
        load_best(model, folder)
        return cls(model.to(device), source, target, config.decoding, limit=config.data.max_length)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Source ids; a text with nothing in it is an end mark alone, since a model needs something to look at."""
        return [ids or [EOS] for ids in self.source.encode_all(texts)]

    def fits(self, text: str) -> bool:
        """Whether a text is no longer than what the model was trained on."""
        return len(self.source.encode(text)) <= self.limit

    def translate(
        self,
        texts: Sequence[str],
        *,
        width: int | None = None,
        n_best: int = 1,
        align: bool = False,
        temperature: float | None = None,
        generator: torch.Generator | None = None,
        batch_tokens: int = 4000,
    ) -> list[list[Translated]]:
        """The `n_best` translations of each text, best first.

        width 1 is greedy, more is a beam (default: the config's); a temperature samples instead.
        """
        width = self.decoding.beam if width is None else max(width, n_best)
        ids = self.encode(texts)
        result: list[list[Translated]] = [[] for _ in texts]
        was_training = self.model.training
        self.model.eval()
        try:
            for rows in bucketed([len(row) for row in ids], tokens=max(batch_tokens // width, 1), seed=0, epoch=0):
                found = self._decode([ids[i] for i in rows], width, n_best, align, temperature, generator)
                for i, hypotheses in zip(rows, found, strict=True):
                    result[i] = [self._shown(ids[i], hypothesis) for hypothesis in hypotheses]
        finally:
            self.model.train(was_training)
        return result

    def _decode(
        self, rows: list[list[int]], width: int, n_best: int, align: bool, temperature: float | None, generator: torch.Generator | None
    ) -> Iterator[list[Hypothesis]]:
        device = next(self.model.parameters()).device
        source, lengths = (tensor.to(device) for tensor in padded(rows))
        model, most = cast(Translator, self.model), self.decoding.max_length
        if temperature is not None or width == 1:
            heat = 0.0 if temperature is None else temperature
            draws = [
                sample(model, source, lengths, max_length=most, temperature=heat, generator=generator, align=align) for _ in range(n_best)
            ]
            return (list(row) for row in zip(*draws, strict=True))
        penalty, hoped = self.decoding.length_penalty, [2 * len(row) + 10 for row in rows]
        found = beam(model, source, lengths, width=width, n_best=n_best, length_penalty=penalty, max_length=most, hoped=hoped, align=align)
        return iter(found)

    def _shown(self, ids: list[int], hypothesis: Hypothesis) -> Translated:
        source, target = self.source.words(ids), self.target.words(hypothesis.tokens)
        alignment = None if hypothesis.alignment is None else word_alignment(hypothesis.alignment, target, source)
        text = self.target.decode(hypothesis.tokens)
        words = [w.text for w in source], [w.text for w in target]
        return Translated(text, hypothesis.score, hypothesis.log_prob, *words, alignment)
