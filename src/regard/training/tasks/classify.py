"""Text classification: an encoder with a classification head, trained from scratch or from a masked-token run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...files import write_text
from ...text.batches import bucketed, padded
from ...text.pairs import read_pairs
from ...text.vocabulary import Vocabulary
from ..config import from_dict
from ..loop.settings import Training
from ..runs import load_best, read_run, run_config
from ..tables import TEXT_VOCABULARY
from . import Evaluation, Task
from .mlm import BertModel, EncoderModel, MaskedConfig, Words, with_boundaries


@dataclass(frozen=True)
class Data:
    """The `[data]` table: TSV or JSONL, a text and its label."""

    train: str
    valid: str
    columns: tuple[int, int] = (0, 1)
    keys: tuple[str, str] = ("text", "label")
    batch_tokens: int = 2000


@dataclass(frozen=True)
class ClassifyConfig:
    """A classification config. `start` is the folder of an `mlm` run whose encoder and vocabulary are used."""

    out: str
    data: Data
    training: Training
    start: str | None = None
    model: BertModel | None = None
    vocabulary: Words | None = None

    def __post_init__(self) -> None:
        if self.start is not None and (self.model is not None or self.vocabulary is not None):
            raise ValueError("start uses the model and vocabulary of another run; remove [model] and [vocabulary], or start")

    def files(self) -> list[str]:
        return [self.data.train, self.data.valid]


@dataclass(frozen=True, eq=False)
class Batch:
    """ids (B, L), lengths (B,), labels (B,)."""

    ids: Tensor
    lengths: Tensor
    labels: Tensor


class TrainableClassifier:
    """Trains a `BertClassifier` and measures its accuracy on held-out texts."""

    def __init__(
        self, config: ClassifyConfig, model: nn.Module, vocabulary: Vocabulary, labels: list[str], train: Any, valid: Any, context: int
    ) -> None:
        self.config, self.model, self.labels = config, model, labels
        self.classifier = Classifier(model, vocabulary, labels, context)
        label_ids = {label: i for i, label in enumerate(labels)}
        unknown = sorted({pair.target for pair in valid} - label_ids.keys())
        if unknown:
            raise ValueError(f"{config.data.valid}: the label {unknown[0]!r} is not among the training labels ({', '.join(labels[:8])})")
        self.train, self.valid = (
            (with_boundaries(vocabulary, [p.source for p in pairs], context), [label_ids[p.target] for p in pairs])
            for pairs in (train, valid)
        )
        self.texts = [p.source for p in valid]

    @classmethod
    def build(cls, config: ClassifyConfig, root: Path, folder: Path) -> TrainableClassifier:
        """Read texts and labels; build the encoder, or load it from the run `start`."""
        train, valid = (
            read_pairs(root / name, columns=config.data.columns, keys=config.data.keys) for name in (config.data.train, config.data.valid)
        )
        labels = sorted({pair.target for pair in train})
        shape = config.model or BertModel()
        file = folder / TEXT_VOCABULARY
        if config.start is not None:
            shape = run_config(root / config.start, "mlm", MaskedConfig).model
            if not file.exists():
                Vocabulary.load(root / config.start / TEXT_VOCABULARY).save(file)
        vocabulary = (config.vocabulary or Words()).load_or_learn(file, [pair.source for pair in train])
        write_text(folder / "labels.json", json.dumps({"labels": labels, "model": vars(shape)}, ensure_ascii=False))
        torch.manual_seed(config.training.seed)
        model = _model(shape, len(vocabulary), len(labels))
        if config.start is not None:
            pretrained = shape.build(len(vocabulary))
            load_best(pretrained, root / config.start)
            # Without the masked-token head; the pooling layer and the classifier keep their new weights.
            model.bert.load_state_dict({**model.bert.state_dict(), **_common_weights(pretrained, model.bert)})
        return cls(config, model, vocabulary, labels, train, valid, shape.context)

    def batches(self, epoch: int) -> Sequence[Batch]:
        ids, labels = self.train
        rows = bucketed([len(row) for row in ids], tokens=self.config.data.batch_tokens, seed=self.config.training.seed, epoch=epoch)
        return [_batch(ids, labels, row) for row in rows]

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        device = next(model.parameters()).device
        logits = model(batch.ids.to(device), batch.lengths.to(device))
        smoothing = self.config.training.smoothing
        return F.cross_entropy(logits.float(), batch.labels.to(device), reduction="sum", label_smoothing=smoothing), len(batch.labels)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Compute loss and accuracy (percent) on the held-out texts."""
        ids, labels = self.valid
        total, correct = 0.0, 0
        device = next(model.parameters()).device
        for row in bucketed([len(row) for row in ids], tokens=self.config.data.batch_tokens, seed=0, epoch=0):
            batch = _batch(ids, labels, row)
            logits, targets = model(batch.ids.to(device), batch.lengths.to(device)), batch.labels.to(device)
            total += float(F.cross_entropy(logits.float(), targets, reduction="sum"))
            correct += int((logits.argmax(-1) == targets).sum())
        return {"loss": total / len(labels), "accuracy": 100.0 * correct / len(labels)}

    def samples(self, model: nn.Module) -> str:
        texts = self.texts[:3]
        predictions = self.classifier.classify(texts)
        return "\n".join(f"{text}  →  {label} ({p:.2f})" for text, (label, p) in zip(texts, predictions, strict=True))


class Classifier(EncoderModel):
    """A trained classifier with its vocabulary and labels; predicts a label and its probability."""

    def __init__(self, model: Any, vocabulary: Vocabulary, labels: list[str], context: int) -> None:
        super().__init__(model, vocabulary, context)
        self.labels = labels

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> Classifier:
        """Load the best model of a finished or running training."""
        folder = Path(folder)
        read_run(folder, "classify")
        saved = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
        vocabulary = Vocabulary.load(folder / TEXT_VOCABULARY)
        shape = from_dict(saved["model"], BertModel, origin=folder / "labels.json")
        model = _model(shape, len(vocabulary), len(saved["labels"]))
        load_best(model, folder)
        return cls(model.to(device), vocabulary, saved["labels"], shape.context)

    @torch.no_grad()
    def classify(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Return the most likely label of each text and its probability."""
        result = []
        for text in texts:
            ids, lengths = padded([self.encode(text)])
            p, best = self.model(ids.to(self.device), lengths.to(self.device)).softmax(-1)[0].max(-1)
            result.append((self.labels[int(best)], float(p)))
        return result


def evaluate(request: Evaluation) -> dict[str, Any]:
    """Compute accuracy (percent) on the texts and labels of the test files."""
    data = run_config(request.run, "classify", ClassifyConfig).data
    pairs = [pair for file in request.test for pair in read_pairs(file, columns=data.columns, keys=data.keys)]
    predictions = Classifier.open(request.run, device=request.device).classify([p.source for p in pairs])
    correct = sum(label == p.target for (label, _), p in zip(predictions, pairs, strict=True))
    return {"texts": len(pairs), "accuracy": 100.0 * correct / len(pairs)}


def _model(shape: BertModel, words: int, classes: int) -> Any:
    from ...models.bert import BertClassifier

    return BertClassifier(shape.build(words, pooled=True, masked=False), classes)


def _batch(ids: list[list[int]], labels: list[int], row: list[int]) -> Batch:
    grid, lengths = padded([ids[i] for i in row])
    return Batch(grid, lengths, torch.tensor([labels[i] for i in row]))


def _common_weights(source: nn.Module, target: nn.Module) -> dict[str, Tensor]:
    """Return the weights of `source` that `target` has too."""
    names = target.state_dict().keys()
    return {name: tensor for name, tensor in source.state_dict().items() if name in names}


TASK = Task(
    name="classify",
    config=ClassifyConfig,
    build=TrainableClassifier.build,
    open=Classifier.open,
    evaluate=evaluate,
)
