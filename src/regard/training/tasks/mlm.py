"""Masked-token modelling: an encoder trained to predict masked tokens in lines of text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...files import read_json, write_text
from ...readings import Rows
from ...text.batches import bucketed, order_of, padded
from ...text.pairs import read_lines
from ...text.vocabulary import BOS, EOS, MASK, PAD, Kind, Vocabulary
from ..config import from_dict
from ..encoder_text import MASK_NAMES, EncoderText, VocabularyText
from ..loop.settings import Training
from ..loop.sharding import Sharding
from ..metrics import perplexity
from ..opened import TokenModel
from ..results import Candidate, Filled
from ..runs import build_best, load_best, read_run, run_config
from ..tables import TEXT_VOCABULARY, TransformerTable, VocabularyTable
from . import Evaluation, Task

MODEL_FILE = "model.json"  # the [model] table of the run
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
class MaskedConfig:
    """A masked-token config. `start` is the folder (on the command line also the name) of an `mlm` run whose weights are the first."""

    out: str
    data: Data
    training: Training
    model: BertModel | None = None
    vocabulary: Words | None = None
    start: str | None = None

    def __post_init__(self) -> None:
        if self.start is None and self.model is None:
            raise ValueError("the table [model] is missing; add it, or `start`")
        if self.start is not None and (self.model is not None or self.vocabulary is not None):
            raise ValueError("start uses the model and vocabulary of another run; remove [model] and [vocabulary], or start")

    def files(self) -> list[str]:
        return self.data.files()


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
        text, context = VocabularyText(vocabulary), int(getattr(model, "config").context)  # noqa: B009
        self.train, self.valid = (text.encode_all(lines, context) for lines in (train, valid))

    @classmethod
    def build(cls, config: MaskedConfig, root: Path, folder: Path) -> TrainableMaskedModel:
        """Read the lines, train the vocabulary (or load that of the run), build the model."""
        train, valid = ([line for line in read_lines(root / name) if line.strip()] for name in (config.data.train, config.data.valid))
        if not train or not valid:
            raise ValueError(f"{config.data.train if not train else config.data.valid}: it has no text; expected one example per line")
        file = folder / TEXT_VOCABULARY
        if config.start is not None and not file.exists():
            Vocabulary.load(root / config.start / TEXT_VOCABULARY).save(file)
        vocabulary = (config.vocabulary or Words()).load_or_learn(file, train)
        torch.manual_seed(config.training.seed)
        shape = config.model or masked_shape(root / str(config.start))
        write_text(folder / MODEL_FILE, json.dumps(vars(shape)))
        model = shape.build(len(vocabulary))
        if config.start is not None:
            load_best(model, root / config.start)
            model.train()
        return cls(config, model, vocabulary, train, valid)

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
        return held_out_batches(self.config, self.valid, words=len(self.vocabulary))

    def samples(self, model: nn.Module) -> str:
        """Return the first line of the first held-out batch, masked and as the model completes it."""
        batch = self.held_out()[0]
        logits, _ = _masked_logits(model, batch)
        filled = batch.ids.clone()
        filled[batch.targets != -100] = logits.argmax(-1).to(filled.device)
        length = int(batch.lengths[0])
        masked = "".join(self.vocabulary.piece(int(id)) for id in batch.ids[0, 1 : length - 1])
        return f"in    {masked.replace('▁', ' ').strip()}\ngot   {self.vocabulary.decode(filled[0, :length].tolist())}"


def masked_shape(run: Path) -> BertModel:
    """Return the [model] table of an `mlm` run; a run that began with another has it in a file of its own."""
    file = run / MODEL_FILE
    if file.is_file():
        return from_dict(read_json(file), BertModel, origin=file)
    shape = run_config(run, "mlm", MaskedConfig).model
    if shape is None:
        raise ValueError(f"{run} has no {MODEL_FILE}; give the folder of a complete run")
    return shape


def masked_batches(config: MaskedConfig, texts: list[list[int]], *, words: int, epoch: int) -> MaskedBatches:
    """Return the batches of an epoch over texts as ids; `words` is the size of the vocabulary."""
    data, seed = config.data, config.training.seed
    rows = bucketed([len(row) for row in texts], tokens=data.batch_tokens, seed=seed, epoch=epoch)
    return MaskedBatches(rows, texts, words=words, rate=data.rate, seed=seed, epoch=epoch)


def held_out_batches(config: MaskedConfig, texts: list[list[int]], *, words: int) -> MaskedBatches:
    """Return the batches of held-out texts, with the same masks every time."""
    return masked_batches(config, texts, words=words, epoch=_HELD_OUT)


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


class EncoderModel(TokenModel):
    """An encoder with its tokenizer; a text is encoded with its beginning and end tokens, truncated to the context."""

    def __init__(self, model: Any, text: EncoderText, context: int) -> None:
        super().__init__(model)
        self.text, self.context = text, context
        self.vocabulary = getattr(text, "vocabulary", None)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; "[MASK]" and "<mask>" in the text are the mask token."""
        return self.text.encode_all([text], self.context)[0]

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        return [self.text.piece(id) for id in ids]

    @torch.no_grad()
    def looked_at(self, bert: Any, inputs: Tensor, rows: Sequence[int] | None = None) -> list[list[tuple[str, float]]]:
        """Return the words of inputs (1, L) with their share of the last layer's attention, averaged over its heads, for each of `rows`.

        rows: token positions; None: one list, averaged over all positions. Weight on the beginning and end tokens is left out.
        """
        ids = inputs[0].tolist()
        _, attended = bert.observe(inputs, readings=[Rows(list(range(len(ids)) if rows is None else rows))])
        weights = attended[-1].readings["rows"][0].float().mean(0)  # (rows, L)
        weights = weights.mean(0, keepdim=True) if rows is None else weights
        words = self.text.words(ids)
        return [[(word.text, float(row[word.start : word.stop].sum())) for word in words] for row in weights]


class MaskedModel(EncoderModel):
    """A masked-token model with its tokenizer; predicts the tokens at each "[MASK]" (or "<mask>") of a text.

    model: a `Bert` with its masked-token head.
    text: how it reads a text.
    context: the longest text, in tokens.

    >>> from regard.models import Bert, BertConfig
    >>> vocabulary = Vocabulary.train(["the cat sat", "the dog sat"], kind="word")
    >>> bert = Bert(BertConfig(vocabulary=len(vocabulary), d_model=16, heads=2, layers=1, context=16)).eval()
    >>> len(MaskedModel(bert, VocabularyText(vocabulary), 16).fill("the [MASK] sat", top=2)[0])
    2
    """

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> MaskedModel:
        """Load the best model of a finished or running training.

        folder: of the run.
        device: where the weights are loaded.
        """
        folder = Path(folder)
        read_run(folder, "mlm")
        vocabulary, shape = Vocabulary.load(folder / TEXT_VOCABULARY), masked_shape(folder)
        model = build_best(lambda: shape.build(len(vocabulary)), folder)
        return cls(model.to(device), VocabularyText(vocabulary), shape.context)

    def masks(self, inputs: Tensor, text: str) -> list[int]:
        """Return the positions of the mask tokens among `inputs`, the ids of `text`.

        Raises ValueError if it has none, or some are beyond the context.
        """
        if self.text.mask is None or self.model.head is None:
            raise ValueError("this model has no masked-token head or no mask token; use a model trained with masked tokens")
        positions: list[int] = (inputs[0] == self.text.mask).nonzero()[:, 0].tolist()
        masks = sum(text.count(name) for name in MASK_NAMES)
        if not masks:
            raise ValueError("the text has no mask; write [MASK] where a token is missing")
        if len(positions) < masks:
            raise ValueError(
                f"{masks - len(positions)} of {masks} masks are beyond the {self.context} tokens of the context; shorten the text"
            )
        return positions

    @torch.no_grad()
    def fill(self, text: str, *, top: int = 5) -> Filled:
        """Return the `top` most likely tokens for each mask of a text, in the order of the text, the most likely first.

        text: with [MASK] or <mask> where tokens are missing; top: how many candidates. Raises ValueError if there is no mask.
        """
        inputs = self.inputs(text)
        logits = self.model.unmask(self.run(inputs)[0, self.masks(inputs, text)]).float()  # (masks, V)
        special = sorted(self.text.special)
        logits[:, special] = -torch.inf  # special tokens are not candidates
        best = logits.softmax(-1).topk(min(top, logits.shape[-1] - len(special)))
        candidates = [
            [Candidate(self.text.decode([id]) or self.text.piece(id), p) for id, p in zip(ids, probabilities, strict=True)]
            for ids, probabilities in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        return Filled(text, candidates)

    def mask_looked_at(self, text: str) -> list[list[tuple[str, float]]]:
        """Return for each mask of a text the words its last layer's attention is on, with their weights."""
        inputs = self.inputs(text)
        return self.looked_at(self.model, inputs, self.masks(inputs, text))


def evaluate(request: Evaluation) -> dict[str, Any]:
    """Compute loss, perplexity and accuracy on the lines of the test files, with the same masks every time."""
    opened, config = MaskedModel.open(request.run, device=request.device), run_config(request.run, "mlm", MaskedConfig)
    lines = [line for file in request.test for line in read_lines(file) if line.strip()]
    if not lines:
        raise ValueError(f"{', '.join(map(str, request.test))}: no text; expected one example per line")
    texts = opened.text.encode_all(lines, opened.context)
    words = opened.model.config.vocabulary
    return {
        "lines": len(lines),
        "tokens": sum(map(len, texts)) - 2 * len(texts),
        **masked_scores(opened.model, held_out_batches(config, texts, words=words)),
    }


TASK = Task(
    name="mlm",
    config=MaskedConfig,
    build=TrainableMaskedModel.build,
    open=MaskedModel.open,
    evaluate=evaluate,
    sharded_loss=TrainableMaskedModel.sharded_loss,
)
