"""Fill in hidden tokens: an encoder that reads both ways, from lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...text.batches import bucketed, order_of, padded
from ...text.pairs import read_lines
from ...text.vocabulary import BOS, EOS, MASK, PAD, SPECIALS, Kind, Vocabulary
from ..loop.sharding import Sharding
from ..metrics import perplexity
from ..opened import TokenModel
from ..runs import run_config
from ..tables import TEXT_VOCABULARY, TextConfig, TransformerTable, VocabularyTable, load_text_run
from . import Evaluation, Task

_HELD_OUT = 1_000_000_000  # the "epoch" whose masks held-out text gets: always the same, never a training epoch's


@dataclass(frozen=True)
class Data:
    """The `[data]` table: one example a line."""

    train: str
    valid: str
    batch_tokens: int = 2000
    rate: float = 0.15

    def files(self) -> list[str]:
        return [self.train, self.valid]


@dataclass(frozen=True)
class Words(VocabularyTable):
    """The `[vocabulary]` table."""

    kind: Kind = "bpe"


@dataclass(frozen=True)
class BertModel(TransformerTable):
    """The `[model]` table: the options of `regard.models.BertConfig`."""

    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"
    placement: Literal["pre", "post"] = "post"
    dropout: float = 0.1

    def build(self, vocabulary: int, *, pooled: bool = False, masked: bool = True) -> Any:
        from ...models.bert import Bert, BertConfig

        return Bert(BertConfig(vocabulary=vocabulary, types=0, pooled=pooled, masked=masked, **vars(self)))


@dataclass(frozen=True)
class MaskedConfig(TextConfig):
    """A whole masked-token config."""

    data: Data
    model: BertModel
    vocabulary: Words = Words()


@dataclass(frozen=True, eq=False)
class Batch:
    """ids (B, L) with some hidden, targets (B, L) with −100 where nothing was hidden, lengths (B,)."""

    ids: Tensor
    targets: Tensor
    lengths: Tensor


class MaskedBatches(Sequence[Batch]):
    """The batches of an epoch; what is hidden in each is a function of (seed, epoch, i)."""

    def __init__(self, rows: list[list[int]], texts: list[list[int]], *, words: int, rate: float, seed: int, epoch: int) -> None:
        self.rows, self.texts, self.words, self.rate, self.key = rows, texts, words, rate, (seed, epoch)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        from ...models.bert import hide_tokens

        ids, lengths = padded([self.texts[row] for row in self.rows[i]])
        generator = torch.Generator().manual_seed(int(order_of(*self.key, i).integers(2**62)))
        inputs, targets = hide_tokens(
            ids, mask_id=MASK, vocabulary=self.words, lengths=lengths, special=(PAD, BOS, EOS), rate=self.rate, generator=generator
        )
        if bool((targets == -100).all()):  # a batch must ask something
            targets[0, 1] = ids[0, 1]
            inputs[0, 1] = MASK
        return Batch(inputs, targets, lengths)


class TrainableMaskedModel:
    """Trains a `Bert` to fill hidden tokens and measures how many held-out ones it gets right."""

    def __init__(self, config: MaskedConfig, model: nn.Module, vocabulary: Vocabulary, train: Sequence[str], valid: Sequence[str]) -> None:
        self.config, self.model, self.vocabulary = config, model, vocabulary
        self.train, self.valid = (framed(vocabulary, lines, config.model.context) for lines in (train, valid))

    @classmethod
    def build(cls, config: MaskedConfig, root: Path, folder: Path) -> TrainableMaskedModel:
        """Read the lines, learn the vocabulary (or take the run's), make the model."""
        train, valid = ([line for line in read_lines(root / name) if line.strip()] for name in (config.data.train, config.data.valid))
        if not train or not valid:
            raise ValueError(f"{config.data.train if not train else config.data.valid}: no text in it")
        vocabulary = config.vocabulary.load_or_learn(folder / TEXT_VOCABULARY, train)
        torch.manual_seed(config.training.seed)
        return cls(config, config.model.build(len(vocabulary)), vocabulary, train, valid)

    def batches(self, epoch: int) -> MaskedBatches:
        return masked_batches(self.config, self.train, words=len(self.vocabulary), epoch=epoch)

    def loss(self, model: nn.Module, batch: Batch, *, sharding: Sharding | None = None) -> tuple[Tensor, int]:
        logits, wanted = _filled(model, batch, sharding)
        loss = F.cross_entropy(logits.float(), wanted, reduction="sum", label_smoothing=self.config.training.smoothing)
        return loss, len(wanted)

    def sharded_loss(self, model: nn.Module, batch: Batch, sharding: Sharding) -> tuple[Tensor, int]:
        return self.loss(model, batch, sharding=sharding)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Loss, perplexity and accuracy (percent) on held-out tokens, hidden the same way every time."""
        return masked_scores(model, self.held_out())

    def held_out(self) -> MaskedBatches:
        return masked_batches(self.config, self.valid, words=len(self.vocabulary), epoch=_HELD_OUT)

    def samples(self, model: nn.Module) -> str:
        """The first held-out batch's first line: with its gaps, and as the model fills them."""
        batch = self.held_out()[0]
        logits, _ = _filled(model, batch)
        filled = batch.ids.clone()
        filled[batch.targets != -100] = logits.argmax(-1).to(filled.device)
        length = int(batch.lengths[0])
        asked = "".join(self.vocabulary.piece(int(id)) for id in batch.ids[0, 1 : length - 1])
        return f"in    {asked.replace('▁', ' ').strip()}\ngot   {self.vocabulary.decode(filled[0, :length].tolist())}"


def framed(vocabulary: Vocabulary, lines: Sequence[str], context: int) -> list[list[int]]:
    """Each line as <s> … </s>, cut to the context."""
    return [[BOS, *ids[: context - 2], EOS] for ids in vocabulary.encode_all(lines)]


def masked_batches(config: MaskedConfig, texts: list[list[int]], *, words: int, epoch: int) -> MaskedBatches:
    """The batches of an epoch over texts as ids, `words` the size of the vocabulary."""
    data, seed = config.data, config.training.seed
    rows = bucketed([len(row) for row in texts], tokens=data.batch_tokens, seed=seed, epoch=epoch)
    return MaskedBatches(rows, texts, words=words, rate=data.rate, seed=seed, epoch=epoch)


@torch.no_grad()
def masked_scores(model: nn.Module, batches: Sequence[Batch]) -> dict[str, float]:
    """Loss, perplexity and accuracy (percent) on the hidden tokens of batches."""
    total, right, count = 0.0, 0, 0
    for batch in batches:
        logits, wanted = _filled(model, batch)
        total += float(F.cross_entropy(logits.float(), wanted, reduction="sum"))
        right += int((logits.argmax(-1) == wanted).sum())
        count += len(wanted)
    loss = total / max(count, 1)
    return {"loss": loss, "perplexity": perplexity(loss), "accuracy": 100.0 * right / max(count, 1)}


def _filled(model: nn.Module, batch: Batch, sharding: Sharding | None = None) -> tuple[Tensor, Tensor]:
    """Logits (n, V) and the right answers (n,) of the hidden tokens alone; with `sharding`, of those in this rank's part."""
    device = next(model.parameters()).device
    ids, lengths, targets = batch.ids.to(device), batch.lengths.to(device), batch.targets.to(device)
    hidden = model(ids, lengths) if sharding is None else sharding.run(model, ids, lengths)
    targets = targets if sharding is None else sharding.part(targets)
    keep = targets != -100
    bare: Any = getattr(model, "module", model)  # a distributed wrapper has only the call
    return bare.unmask(hidden[keep]), targets[keep]


@dataclass(frozen=True)
class Candidate:
    """A token that may stand in a gap, and its probability."""

    text: str
    probability: float


class FramedModel(TokenModel):
    """An encoder with its vocabulary, which reads a text as <s> … </s>, cut to its context."""

    def __init__(self, model: Any, vocabulary: Vocabulary, context: int) -> None:
        super().__init__(model)
        self.vocabulary, self.context = vocabulary, context

    def encode(self, text: str) -> list[int]:
        """<s>, the ids of a text cut to what the model reads, </s>; each "<mask>" in the text is a gap."""
        return framed(self.vocabulary, [text], self.context)[0]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self.vocabulary.piece(id) for id in ids]


class MaskedModel(FramedModel):
    """A trained masked-token model with its vocabulary: a text with gaps in, what may fill them out."""

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> MaskedModel:
        """The best model of a finished or running training."""
        config, vocabulary, model = load_text_run(folder, "mlm", MaskedConfig)
        return cls(model.to(device), vocabulary, config.model.context)

    @torch.no_grad()
    def fill(self, text: str, *, top: int = 5) -> list[list[Candidate]]:
        """The `top` likeliest tokens for each "<mask>" of a text, the first gap first, the likeliest token first."""
        inputs = self.inputs(text)
        gaps = (inputs[0] == MASK).nonzero()[:, 0]
        wanted = text.count(SPECIALS[MASK])
        if not wanted:
            raise ValueError(f"the text has no gap to fill; write {SPECIALS[MASK]} where a token is missing")
        if len(gaps) < wanted:
            raise ValueError(f"{wanted - len(gaps)} of {wanted} gaps are beyond the {self.context} tokens the model reads")
        logits = self.model.unmask(self.run(inputs)[0, gaps]).float()  # (gaps, V)
        logits[:, : len(SPECIALS)] = -torch.inf  # a mark is not a word
        best = logits.softmax(-1).topk(min(top, logits.shape[-1] - len(SPECIALS)))
        return [
            [Candidate(self.vocabulary.decode([id]), p) for id, p in zip(ids, probabilities, strict=True)]
            for ids, probabilities in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]


def evaluate(asked: Evaluation) -> dict[str, Any]:
    """Loss, perplexity and accuracy on the lines of the test files, a share of whose tokens is hidden the same way every time."""
    opened, config = MaskedModel.open(asked.run, device=asked.device), run_config(asked.run, "mlm", MaskedConfig)
    lines = [line for file in asked.test for line in read_lines(file) if line.strip()]
    if not lines:
        raise ValueError(f"{', '.join(map(str, asked.test))}: no text in it")
    texts = framed(opened.vocabulary, lines, opened.context)
    return {
        "lines": len(lines),
        "tokens": sum(map(len, texts)) - 2 * len(texts),
        **masked_scores(opened.model, masked_batches(config, texts, words=len(opened.vocabulary), epoch=_HELD_OUT)),
    }


TASK = Task(
    name="mlm",
    config=MaskedConfig,
    build=TrainableMaskedModel.build,
    open=MaskedModel.open,
    evaluate=evaluate,
    sharded_loss=TrainableMaskedModel.sharded_loss,
)
