"""Masked-token modelling: an encoder trained to predict masked tokens in lines of text."""

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

_HELD_OUT = 1_000_000_000  # the epoch number used for the masks of held-out text, so that they are the same every time


@dataclass(frozen=True)
class Data:
    """The `[data]` table: text files with one example per line."""

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
    """A masked-token config."""

    data: Data
    model: BertModel
    vocabulary: Words = Words()


@dataclass(frozen=True, eq=False)
class Batch:
    """ids (B, L) with some masked, targets (B, L) that are −100 where nothing was masked, lengths (B,)."""

    ids: Tensor
    targets: Tensor
    lengths: Tensor


class MaskedBatches(Sequence[Batch]):
    """The batches of an epoch; the masks of batch i depend only on (seed, epoch, i)."""

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
        if bool((targets == -100).all()):  # the loss needs at least one masked token
            targets[0, 1] = ids[0, 1]
            inputs[0, 1] = MASK
        return Batch(inputs, targets, lengths)


class TrainableMaskedModel:
    """Trains a `Bert` to predict masked tokens and measures it on held-out text."""

    def __init__(self, config: MaskedConfig, model: nn.Module, vocabulary: Vocabulary, train: Sequence[str], valid: Sequence[str]) -> None:
        self.config, self.model, self.vocabulary = config, model, vocabulary
        self.train, self.valid = (with_boundaries(vocabulary, lines, config.model.context) for lines in (train, valid))

    @classmethod
    def build(cls, config: MaskedConfig, root: Path, folder: Path) -> TrainableMaskedModel:
        """Read the lines, train the vocabulary (or load that of the run), build the model."""
        train, valid = ([line for line in read_lines(root / name) if line.strip()] for name in (config.data.train, config.data.valid))
        if not train or not valid:
            raise ValueError(f"{config.data.train if not train else config.data.valid}: it has no text; expected one example per line")
        vocabulary = config.vocabulary.load_or_learn(folder / TEXT_VOCABULARY, train)
        torch.manual_seed(config.training.seed)
        return cls(config, config.model.build(len(vocabulary)), vocabulary, train, valid)

    def batches(self, epoch: int) -> MaskedBatches:
        return masked_batches(self.config, self.train, words=len(self.vocabulary), epoch=epoch)

    def loss(self, model: nn.Module, batch: Batch, *, sharding: Sharding | None = None) -> tuple[Tensor, int]:
        logits, targets = _masked_logits(model, batch, sharding)
        loss = F.cross_entropy(logits.float(), targets, reduction="sum", label_smoothing=self.config.training.smoothing)
        return loss, len(targets)

    def sharded_loss(self, model: nn.Module, batch: Batch, sharding: Sharding) -> tuple[Tensor, int]:
        return self.loss(model, batch, sharding=sharding)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Compute loss, perplexity and accuracy (percent) on held-out text, with the same masks every time."""
        return masked_scores(model, self.held_out())

    def held_out(self) -> MaskedBatches:
        """Return the batches of the held-out text."""
        return masked_batches(self.config, self.valid, words=len(self.vocabulary), epoch=_HELD_OUT)

    def samples(self, model: nn.Module) -> str:
        """Return the first line of the first held-out batch, masked and as the model completes it."""
        batch = self.held_out()[0]
        logits, _ = _masked_logits(model, batch)
        filled = batch.ids.clone()
        filled[batch.targets != -100] = logits.argmax(-1).to(filled.device)
        length = int(batch.lengths[0])
        masked = "".join(self.vocabulary.piece(int(id)) for id in batch.ids[0, 1 : length - 1])
        return f"in    {masked.replace('▁', ' ').strip()}\ngot   {self.vocabulary.decode(filled[0, :length].tolist())}"


def with_boundaries(vocabulary: Vocabulary, lines: Sequence[str], context: int) -> list[list[int]]:
    """Return the ids of each line between <s> and </s>, truncated to the context."""
    return [[BOS, *ids[: context - 2], EOS] for ids in vocabulary.encode_all(lines)]


def masked_batches(config: MaskedConfig, texts: list[list[int]], *, words: int, epoch: int) -> MaskedBatches:
    """Return the batches of an epoch over texts as ids; `words` is the size of the vocabulary."""
    data, seed = config.data, config.training.seed
    rows = bucketed([len(row) for row in texts], tokens=data.batch_tokens, seed=seed, epoch=epoch)
    return MaskedBatches(rows, texts, words=words, rate=data.rate, seed=seed, epoch=epoch)


@torch.no_grad()
def masked_scores(model: nn.Module, batches: Sequence[Batch]) -> dict[str, float]:
    """Compute loss, perplexity and accuracy (percent) on the masked tokens of batches."""
    total, correct, count = 0.0, 0, 0
    for batch in batches:
        logits, targets = _masked_logits(model, batch)
        total += float(F.cross_entropy(logits.float(), targets, reduction="sum"))
        correct += int((logits.argmax(-1) == targets).sum())
        count += len(targets)
    loss = total / max(count, 1)
    return {"loss": loss, "perplexity": perplexity(loss), "accuracy": 100.0 * correct / max(count, 1)}


def _masked_logits(model: nn.Module, batch: Batch, sharding: Sharding | None = None) -> tuple[Tensor, Tensor]:
    """Compute logits (n, V) and targets (n,) of the masked tokens only; with `sharding`, of those in this rank's part."""
    device = next(model.parameters()).device
    ids, lengths, targets = batch.ids.to(device), batch.lengths.to(device), batch.targets.to(device)
    hidden = model(ids, lengths) if sharding is None else sharding.run(model, ids, lengths)
    targets = targets if sharding is None else sharding.part(targets)
    keep = targets != -100
    bare: Any = getattr(model, "module", model)  # a distributed wrapper has no method but its call
    return bare.unmask(hidden[keep]), targets[keep]


@dataclass(frozen=True)
class Candidate:
    """A predicted token for a <mask>, and its probability."""

    text: str
    probability: float


class EncoderModel(TokenModel):
    """An encoder with its vocabulary; a text is encoded as <s> … </s>, truncated to its context."""

    def __init__(self, model: Any, vocabulary: Vocabulary, context: int) -> None:
        super().__init__(model)
        self.vocabulary, self.context = vocabulary, context

    def encode(self, text: str) -> list[int]:
        """Return <s>, the ids of a text truncated to the context, and </s>; "<mask>" in the text is the mask token."""
        return with_boundaries(self.vocabulary, [text], self.context)[0]

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        return [self.vocabulary.piece(id) for id in ids]


class MaskedModel(EncoderModel):
    """A trained masked-token model with its vocabulary; predicts the tokens at each "<mask>" of a text."""

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> MaskedModel:
        """Load the best model of a finished or running training."""
        config, vocabulary, model = load_text_run(folder, "mlm", MaskedConfig)
        return cls(model.to(device), vocabulary, config.model.context)

    @torch.no_grad()
    def fill(self, text: str, *, top: int = 5) -> list[list[Candidate]]:
        """Return the `top` most likely tokens for each "<mask>" of a text, in the order of the text, the most likely first."""
        inputs = self.inputs(text)
        positions = (inputs[0] == MASK).nonzero()[:, 0]
        masks = text.count(SPECIALS[MASK])
        if not masks:
            raise ValueError(f"the text has no mask; write {SPECIALS[MASK]} where a token is missing")
        if len(positions) < masks:
            raise ValueError(
                f"{masks - len(positions)} of {masks} masks are beyond the {self.context} tokens of the context; shorten the text"
            )
        logits = self.model.unmask(self.run(inputs)[0, positions]).float()  # (masks, V)
        logits[:, : len(SPECIALS)] = -torch.inf  # special tokens are not candidates
        best = logits.softmax(-1).topk(min(top, logits.shape[-1] - len(SPECIALS)))
        return [
            [Candidate(self.vocabulary.decode([id]), p) for id, p in zip(ids, probabilities, strict=True)]
            for ids, probabilities in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]


def evaluate(request: Evaluation) -> dict[str, Any]:
    """Compute loss, perplexity and accuracy on the lines of the test files, with the same masks every time."""
    opened, config = MaskedModel.open(request.run, device=request.device), run_config(request.run, "mlm", MaskedConfig)
    lines = [line for file in request.test for line in read_lines(file) if line.strip()]
    if not lines:
        raise ValueError(f"{', '.join(map(str, request.test))}: no text; expected one example per line")
    texts = with_boundaries(opened.vocabulary, lines, opened.context)
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
