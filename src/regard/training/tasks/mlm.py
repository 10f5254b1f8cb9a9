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
from ...text.vocabulary import BOS, EOS, MASK, PAD, Kind, Vocabulary
from ..metrics import perplexity
from ..settings import Training

_HELD_OUT = 1_000_000_000  # the "epoch" whose masks held-out text gets: always the same, never a training epoch's


@dataclass(frozen=True)
class Data:
    """The `[data]` table: one example a line."""

    train: str
    valid: str
    batch_tokens: int = 2000
    rate: float = 0.15


@dataclass(frozen=True)
class Words:
    """The `[vocabulary]` table."""

    kind: Kind = "bpe"
    size: int = 8000
    lowercase: bool = False
    simplify: bool = False
    min_count: int = 1


@dataclass(frozen=True)
class BertModel:
    """The `[model]` table: the options of `regard.models.BertConfig`."""

    d_model: int = 128
    heads: int = 4
    layers: int = 4
    context: int = 128
    hidden: int | None = None
    norm: Literal["layer", "rms"] = "layer"
    placement: Literal["pre", "post"] = "post"
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    dropout: float = 0.1
    attention_dropout: float = 0.0

    def build(self, vocabulary: int, *, pooled: bool = False, masked: bool = True) -> Any:
        from ...models.bert import Bert, BertConfig

        return Bert(BertConfig(vocabulary=vocabulary, types=0, pooled=pooled, masked=masked, **vars(self)))


@dataclass(frozen=True)
class MaskedConfig:
    """A whole masked-token config."""

    out: str
    data: Data
    model: BertModel
    training: Training
    vocabulary: Words = Words()

    def files(self) -> list[str]:
        return [self.data.train, self.data.valid]


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


class MaskedTask:
    """Trains a `Bert` to fill hidden tokens and measures how many held-out ones it gets right."""

    Config = MaskedConfig

    def __init__(self, config: MaskedConfig, model: nn.Module, vocabulary: Vocabulary, train: Sequence[str], valid: Sequence[str]) -> None:
        self.config, self.model, self.vocabulary = config, model, vocabulary
        self.train, self.valid = (framed(vocabulary, lines, config.model.context) for lines in (train, valid))

    @classmethod
    def build(cls, config: MaskedConfig, root: Path, folder: Path) -> MaskedTask:
        """Read the lines, learn the vocabulary (or take the run's), make the model."""
        train, valid = ([line for line in read_lines(root / name) if line.strip()] for name in (config.data.train, config.data.valid))
        if not train or not valid:
            raise ValueError(f"{config.data.train if not train else config.data.valid}: no text in it")
        file = folder / "text.vocabulary.json"
        if not file.exists():
            Vocabulary.train(train, **vars(config.vocabulary)).save(file)
        vocabulary = Vocabulary.load(file)
        torch.manual_seed(config.training.seed)
        return cls(config, config.model.build(len(vocabulary)), vocabulary, train, valid)

    def _batches(self, texts: list[list[int]], epoch: int) -> MaskedBatches:
        data, seed = self.config.data, self.config.training.seed
        rows = bucketed([len(row) for row in texts], tokens=data.batch_tokens, seed=seed, epoch=epoch)
        return MaskedBatches(rows, texts, words=len(self.vocabulary), rate=data.rate, seed=seed, epoch=epoch)

    def batches(self, epoch: int) -> MaskedBatches:
        return self._batches(self.train, epoch)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        logits, wanted = _filled(model, batch)
        loss = F.cross_entropy(logits.float(), wanted, reduction="sum", label_smoothing=self.config.training.smoothing)
        return loss, len(wanted)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Loss, perplexity and accuracy (percent) on held-out tokens, hidden the same way every time."""
        total, right, count = 0.0, 0, 0
        for batch in self._batches(self.valid, _HELD_OUT):
            logits, wanted = _filled(model, batch)
            total += float(F.cross_entropy(logits.float(), wanted, reduction="sum"))
            right += int((logits.argmax(-1) == wanted).sum())
            count += len(wanted)
        loss = total / max(count, 1)
        return {"loss": loss, "perplexity": perplexity(loss), "accuracy": 100.0 * right / max(count, 1)}

    def samples(self, model: nn.Module) -> str:
        """The first held-out batch's first line: with its gaps, and as the model fills them."""
        batch = self._batches(self.valid, _HELD_OUT)[0]
        logits, _ = _filled(model, batch)
        filled = batch.ids.clone()
        filled[batch.targets != -100] = logits.argmax(-1).to(filled.device)
        length = int(batch.lengths[0])
        asked = "".join(self.vocabulary.piece(int(id)) for id in batch.ids[0, 1 : length - 1])
        return f"in    {asked.replace('▁', ' ').strip()}\ngot   {self.vocabulary.decode(filled[0, :length].tolist())}"


def framed(vocabulary: Vocabulary, lines: Sequence[str], context: int) -> list[list[int]]:
    """Each line as <s> … </s>, cut to the context."""
    return [[BOS, *ids[: context - 2], EOS] for ids in vocabulary.encode_all(lines)]


def _filled(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits (n, V) and the right answers (n,) of the hidden tokens alone."""
    device = next(model.parameters()).device
    targets = batch.targets.to(device)
    hidden = model(batch.ids.to(device), batch.lengths.to(device))
    keep = targets != -100
    bare: Any = getattr(model, "module", model)  # a distributed wrapper has only the call
    return bare.unmask(hidden[keep]), targets[keep]
