"""Text classification: an encoder with a classification head, trained from scratch or from a pre-trained encoder."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...files import read_json, write_text
from ...text.batches import bucketed, padded
from ...text.pairs import Pair, hold_out, read_lines, read_pairs
from ...text.script import script_of
from ...text.vocabulary import Vocabulary
from ..config import from_dict
from ..config_from_data import set_key
from ..encoder_text import EncoderText, VocabularyText, read_encoder_text
from ..loop.settings import Training
from ..results import Classified
from ..runs import build_best, read_run, run_config
from ..tables import TEXT_VOCABULARY
from . import Evaluation, Task
from .mlm import BertModel, EncoderModel, Words, masked_shape

LABELS = "labels.json"  # the labels, and the shape of the encoder
MOST_LABELS = 100  # a column with more different values is not one of labels


@dataclass(frozen=True)
class Data:
    """The `[data]` table: TSV or JSONL, a text and its label. Without `valid`, a share of `train` is held out."""

    train: str
    valid: str | None = None
    held_out: float = 0.1
    columns: tuple[int, int] = (0, 1)
    keys: tuple[str, str] = ("text", "label")
    batch_tokens: int = 2000

    def read(self, root: Path) -> tuple[list[Pair], list[Pair]]:
        """Read the training and held-out texts with their labels; paths are relative to `root`."""
        train = read_pairs(root / self.train, columns=self.columns, keys=self.keys)
        if self.valid is not None:
            return train, read_pairs(root / self.valid, columns=self.columns, keys=self.keys)
        return _hold_out(train, self.held_out)


@dataclass(frozen=True)
class ClassifyConfig:
    """A classification config.

    start    the folder of an `mlm` run or of published BERT weights, or on the command line the name of a model: its encoder and
             vocabulary are used
    pooling  the vector that is classified: of the first token, or the mean of all
    context  longer texts are truncated (None: the longest the encoder reads)
    dropout  of the encoder while it is trained (None: its own)
    """

    out: str
    data: Data
    training: Training
    start: str | None = None
    model: BertModel | None = None
    vocabulary: Words | None = None
    pooling: Literal["first", "mean"] = "first"
    context: int | None = None
    dropout: float | None = None

    def __post_init__(self) -> None:
        if self.start is not None and (self.model is not None or self.vocabulary is not None):
            raise ValueError("start uses the model and vocabulary of another run; remove [model] and [vocabulary], or start")
        if self.dropout is not None and self.start is None:
            raise ValueError("dropout changes that of the encoder in start; without start, set it in [model]")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; expected a number in [0, 1)")

    def files(self) -> list[str]:
        return [self.data.train, *([self.data.valid] if self.data.valid else [])]


@dataclass(frozen=True, eq=False)
class Batch:
    """ids (B, L), lengths (B,), labels (B,)."""

    ids: Tensor
    lengths: Tensor
    labels: Tensor


class TrainableClassifier:
    """Trains a `BertClassifier` and measures its accuracy on held-out texts."""

    def __init__(self, config: ClassifyConfig, classifier: Classifier, train: list[Pair], valid: list[Pair]) -> None:
        self.config, self.model, self.classifier = config, classifier.model, classifier
        label_ids = {label: i for i, label in enumerate(classifier.labels)}
        unknown = sorted({pair.target for pair in valid} - label_ids.keys())
        if unknown:
            known = ", ".join(classifier.labels[:8])
            raise ValueError(f"{config.data.valid}: the label {unknown[0]!r} is not among the training labels ({known})")
        self.train, self.valid = (
            (classifier.text.encode_all([p.source for p in pairs], classifier.context), [label_ids[p.target] for p in pairs])
            for pairs in (train, valid)
        )
        self.texts = [p.source for p in valid]

    @classmethod
    def build(cls, config: ClassifyConfig, root: Path, folder: Path) -> TrainableClassifier:
        """Read texts and labels; build the encoder, or load it from `start`."""
        train, valid = config.data.read(root)
        labels = sorted({pair.target for pair in train})
        if len(labels) < 2:
            raise ValueError(f"{config.data.train}: all texts have the label {labels[0]!r}; expected two labels or more")
        torch.manual_seed(config.training.seed)
        if config.start is None:
            words = (config.vocabulary or Words()).load_or_learn(folder / TEXT_VOCABULARY, [pair.source for pair in train])
            text: EncoderText = VocabularyText(words)
            bert = (config.model or BertModel()).build(len(words), pooled=config.pooling == "first", masked=False)
        else:
            bert, text = load_encoder(root / config.start, pooled=config.pooling == "first", dropout=config.dropout)
            text.save(folder)
        context = min(config.context or bert.config.context, bert.config.context)
        saved = {"labels": labels, "bert": dataclasses.asdict(bert.config), "pooling": config.pooling, "context": context}
        write_text(folder / LABELS, json.dumps(saved, ensure_ascii=False))
        from ...models.bert import BertClassifier

        model = BertClassifier(bert, len(labels), dropout=0.1, pooling=config.pooling)
        return cls(config, Classifier(model, text, labels, context), train, valid)

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
    """A trained classifier with its tokenizer and labels; predicts the probabilities of the labels.

    model: a `BertClassifier`.
    text: how it reads a text.
    labels: the names of its classes.
    context: the longest text, in tokens.

    >>> from regard.models import Bert, BertClassifier, BertConfig
    >>> from regard.training.encoder_text import VocabularyText
    >>> vocabulary = Vocabulary.train(["good room", "bad room"], kind="word")
    >>> bert = Bert(BertConfig(vocabulary=len(vocabulary), d_model=16, heads=2, layers=1, context=16, masked=False)).eval()
    >>> classifier = Classifier(BertClassifier(bert, 2).eval(), VocabularyText(vocabulary), ["good", "bad"], 16)
    >>> classifier.classify("good room").label in ("good", "bad")
    True
    """

    def __init__(self, model: Any, text: EncoderText, labels: list[str], context: int) -> None:
        super().__init__(model, text, context)
        self.labels = labels

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> Classifier:
        """Load the best model of a finished or running training.

        folder: of the run.
        device: where the weights are loaded.
        """
        from ...models.bert import Bert, BertClassifier, BertConfig
        from ...models.model_folder import config_from_dict

        folder = Path(folder)
        read_run(folder, "classify")
        saved = read_json(folder / LABELS)
        if not isinstance(saved.get("labels"), list) or not isinstance(saved.get("bert", saved.get("model")), dict):
            raise ValueError(f"{folder / LABELS} is damaged: expected a list `labels` and an object `bert`; restore it from a copy")
        text, labels = read_encoder_text(folder), saved["labels"]
        pooling, context = saved.get("pooling", "first"), saved.get("context")
        if pooling not in ("first", "mean") or not isinstance(context, int | None):
            raise ValueError(f"{folder / LABELS} is damaged: pooling is {pooling!r} and context {context!r}; restore it from a copy")

        def build() -> Any:
            if "bert" in saved:
                bert = Bert(config_from_dict(BertConfig, saved["bert"]))
            else:  # a run of version 0.1
                words = len(Vocabulary.load(folder / TEXT_VOCABULARY))
                bert = from_dict(saved["model"], BertModel, origin=folder / LABELS).build(words, pooled=True, masked=False)
            return BertClassifier(bert, len(labels), pooling=pooling)

        model = build_best(build, folder)
        return cls(model.to(device), text, labels, context or model.bert.config.context)

    @torch.no_grad()
    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """Return the probability of each label for each text, (texts, labels)."""
        ids = self.text.encode_all(texts, self.context)
        result = torch.zeros(len(texts), len(self.labels))
        for rows in bucketed([len(row) for row in ids], tokens=4000, seed=0, epoch=0):
            grid, lengths = padded([ids[i] for i in rows])
            result[rows] = self.model(grid.to(self.device), lengths.to(self.device)).float().softmax(-1).cpu()
        return result

    @overload
    def classify(self, texts: str) -> Classified: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str] too
    @overload
    def classify(self, texts: Sequence[str]) -> list[Classified]: ...
    def classify(self, texts: str | Sequence[str]) -> Classified | list[Classified]:
        """Return the most likely label and its probability, of one text or of each of a list; a pair that also has all `labels`."""
        rows = [texts] if isinstance(texts, str) else list(texts)
        probabilities = self.probabilities(rows).tolist()
        results = [Classified(text, dict(zip(self.labels, row, strict=True))) for text, row in zip(rows, probabilities, strict=True)]
        return results[0] if isinstance(texts, str) else results

    def words_looked_at(self, text: str) -> list[tuple[str, float]]:
        """Return the words of a text with their share of the last layer's attention: of the first token, or averaged over all tokens."""
        rows = [0] if self.model.pooling == "first" else None
        return self.looked_at(self.model.bert, self.inputs(text), rows)[0]


def load_encoder(path: Path, *, pooled: bool = False, dropout: float | None = None) -> tuple[Any, EncoderText]:
    """Load the encoder of an `mlm` or `classify` run or of published BERT weights, without its masked-token head, and its tokenizer.

    pooled: with a pooling layer; a new one if the weights have none.
    dropout: in training; None: the one it was trained with.
    """
    from ...models.bert import Bert

    text = read_encoder_text(path)
    if (path / "run.json").is_file():
        task = read_json(path / "run.json").get("task")
        if task == "classify":
            source: Any = Classifier.open(path).model.bert
        else:
            read_run(path, "mlm")  # an error names any other task
            shape, words = masked_shape(path), len(Vocabulary.load(path / TEXT_VOCABULARY))
            source = build_best(lambda: shape.build(words), path)
    else:
        source = Bert.from_folder(path)
    rate = source.config.dropout if dropout is None else dropout
    bert = Bert(dataclasses.replace(source.config, pooled=pooled, masked=False, dropout=rate))
    weights = bert.state_dict()
    bert.load_state_dict({**weights, **{name: tensor for name, tensor in source.state_dict().items() if name in weights}})
    return bert, text


def evaluate(request: Evaluation) -> dict[str, Any]:
    """Compute accuracy (percent) on the texts and labels of the test files."""
    data = run_config(request.run, "classify", ClassifyConfig).data
    pairs = [pair for file in request.test for pair in read_pairs(file, columns=data.columns, keys=data.keys)]
    predictions = Classifier.open(request.run, device=request.device).classify([p.source for p in pairs])
    correct = sum(label == p.target for (label, _), p in zip(predictions, pairs, strict=True))
    return {"texts": len(pairs), "accuracy": 100.0 * correct / len(pairs)}


def adapt(manual: str, data: Path, models: Collection[str] = ()) -> str:
    """Return the manual with settings chosen for texts and labels: their columns, the encoder to start from, and how long to train."""
    manual = re.sub(r"^valid = ", "# valid = ", manual, flags=re.M)
    lines = [line for line in read_lines(data) if line.strip()]
    if data.suffix != ".jsonl":
        text, label = text_and_label_columns(data)
        manual = re.sub(r"^columns = \[0, 1\]  ", f"columns = [{text}, {label}]  ", manual, flags=re.M)
    known = ("bert-small",) if script_of(" ".join(lines[:1000])) == "CJK" else ("minilm", "bert-small")  # minilm reads English only
    encoder = next((name for name in known if name in models), None)
    if encoder is not None:
        manual = set_key(manual, "start", encoder)
    else:  # no encoder is installed: a new one, trained on these texts alone
        manual = re.sub(r"^(start|dropout) = ", r"# \1 = ", manual, flags=re.M)
        manual = manual.replace("\n[training]", _NEW_ENCODER + "\n[training]", 1)
    return set_key(manual, "epochs", 3 if len(lines) > 20_000 else 5)


_NEW_ENCODER = """
[vocabulary]
kind = "mixed"                # Chinese characters, and BPE tokens of everything else
size = 8000
lowercase = true
min_count = 2

[model]
d_model = 128
heads = 4
layers = 2
context = 160
placement = "pre"
positions = "rotary"
"""


def text_and_label_columns(path: Path) -> tuple[int, int]:
    """Return which columns of a TSV file hold the texts (the longest ones) and the labels (the fewest different values)."""
    rows = [line.split("\t") for line in read_lines(path) if line.strip()]
    if not rows:
        raise ValueError(f"{path}: it has no lines; expected a text and a label, separated by a tab")
    widths = {len(row) for row in rows}
    if len(widths) > 1 or min(widths) < 2:
        number, row = next((i, row) for i, row in enumerate(rows, 1) if len(row) != len(rows[0]) or len(row) < 2)
        raise ValueError(f"{path}:{number}: {len(row)} tab-separated column(s); expected a text and a label on every line")
    columns = list(zip(*rows, strict=True))
    text = max(range(len(columns)), key=lambda i: sum(map(len, columns[i])))
    label = min((i for i in range(len(columns)) if i != text), key=lambda i: len(set(columns[i])))
    count = len(set(columns[label]))
    if not 2 <= count <= MOST_LABELS:
        raise ValueError(f"{path}: column {label} has {count} different values; expected 2 to {MOST_LABELS} labels beside the texts")
    return text, label


def _hold_out(pairs: list[Pair], share: float) -> tuple[list[Pair], list[Pair]]:
    """Split by a hash of the text, so that a text that is there twice is on one side only."""
    if not 0 < share < 1:
        raise ValueError(f"held_out is {share}; expected a share between 0 and 1, such as 0.1")
    # `hold_out` keeps targets apart as well; labels are on both sides, so each pair gets its text as the target.
    _, test = hold_out([Pair(pair.source, pair.source) for pair in pairs], share, most=5000)
    held_out = {pair.source for pair in test}
    return [p for p in pairs if p.source not in held_out], [p for p in pairs if p.source in held_out]


def shuffled(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs in an order that depends only on their texts."""
    return sorted(pairs, key=lambda pair: hashlib.sha256(pair.source.encode()).digest())


def _batch(ids: list[list[int]], labels: list[int], row: list[int]) -> Batch:
    grid, lengths = padded([ids[i] for i in row])
    return Batch(grid, lengths, torch.tensor([labels[i] for i in row]))


TASK = Task(
    name="classify",
    config=ClassifyConfig,
    build=TrainableClassifier.build,
    open=Classifier.open,
    evaluate=evaluate,
    data="texts with labels (TSV or .jsonl)",
    adapt=adapt,
)
