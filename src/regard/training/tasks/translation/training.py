"""Training of a translator: batches, loss, and scores on held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....text.batches import bucketed, padded
from ....text.pairs import Pair
from ....text.vocabulary import BOS, EOS, PAD, Vocabulary
from ... import metrics
from ...runs import load_best, run_config
from .config import TranslationConfig
from .translations import Translations


@dataclass(frozen=True, eq=False)
class Batch:
    """source (B, S) with lengths (B,), target (B, T + 1) from <s> to </s>."""

    source: Tensor
    lengths: Tensor
    target: Tensor


class Batches(Sequence[Batch]):
    """The batches of an epoch, each built when it is indexed."""

    def __init__(self, rows: list[list[int]], source: list[list[int]], target: list[list[int]]) -> None:
        self.rows, self.source, self.target = rows, source, target

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        source, lengths = padded([self.source[row] for row in self.rows[i]])
        target, _ = padded([[BOS, *self.target[row], EOS] for row in self.rows[i]])
        return Batch(source, lengths, target)


class TrainableTranslator:
    """Trains a translator on pairs and measures it on held-out pairs. Subclasses for other tasks from text to text give other scores."""

    task = "translation"
    opened: type[Translations] = Translations

    def __init__(
        self, config: TranslationConfig, model: nn.Module, vocabularies: tuple[Vocabulary, Vocabulary], train: list[Pair], valid: list[Pair]
    ) -> None:
        self.config = config
        self.model = model
        self.translations = self.opened(model, *vocabularies, config.decoding, limit=config.data.max_length)
        self.valid = valid
        max_length = config.data.max_length
        source, target = self.translations.encode([p.source for p in train]), vocabularies[1].encode_all([p.target for p in train])
        kept = [i for i in range(len(train)) if len(source[i]) <= max_length and len(target[i]) < max_length]
        if not kept:
            raise ValueError(f"no training pair is within data.max_length = {max_length} tokens; raise it")
        self.source, self.target = [source[i] for i in kept], [target[i] for i in kept]
        self.dropped = len(train) - len(kept)

    @classmethod
    def build(cls, config: TranslationConfig, root: Path, folder: Path) -> TrainableTranslator:
        """Read the data, train the vocabularies (or load those of the run), build the model."""
        train, valid = config.data.read(root)
        start = None if config.start is None else root / config.start
        if start is not None:
            other = run_config(start, cls.task, TranslationConfig)
            if (other.model, other.source, other.target) != (config.model, config.source, config.target):
                raise ValueError(f"start: {start} has another [model], [source] or [target]; copy the three tables from its config")
        shared = config.target.kind == "shared"
        vocabularies: list[Vocabulary] = []
        for side, words in (("source", config.source), ("target", config.target)):
            file = folder / f"{side}.vocabulary.json"
            if not file.exists() and start is not None:
                Vocabulary.load(start / file.name).save(file)
            elif not file.exists():
                both = shared and side == "source"
                lines = [text for pair in train for text in (pair if both else (getattr(pair, side),))]
                vocabulary = vocabularies[0] if words.kind == "shared" else words.learn(lines)
                vocabulary.save(file)
            vocabularies.append(Vocabulary.load(file))
        torch.manual_seed(config.training.seed)
        model = config.model.build(len(vocabularies[0]), len(vocabularies[1]), shared=shared)
        if start is not None:
            load_best(model, start)
            model.train()
        return cls(config, model, (vocabularies[0], vocabularies[1]), train, valid)

    def batches(self, epoch: int) -> Batches:
        lengths = [max(len(s), len(t) + 1) for s, t in zip(self.source, self.target, strict=True)]
        rows = bucketed(lengths, tokens=self.config.data.batch_tokens, seed=self.config.training.seed, epoch=epoch)
        return Batches(rows, self.source, self.target)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        return _loss(model, batch, smoothing=self.config.training.smoothing)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Compute loss and perplexity on the held-out set, and the scores of greedy outputs on its first `valid_sentences`."""
        scores = {"loss": self.held_out_loss(model)}
        scores["perplexity"] = metrics.perplexity(scores["loss"])
        pairs = self.valid[: self.config.decoding.valid_sentences]
        if pairs:
            outputs = [candidates[0].text for candidates in self.translations.candidates([p.source for p in pairs], width=1)]
            scores |= self.compare(outputs, [p.target for p in pairs])
        return scores

    def compare(self, outputs: list[str], references: list[str]) -> dict[str, float]:
        """Compute the scores of outputs: BLEU, chrF and exact matches."""
        options = {"lowercase": self.config.decoding.lowercase, "tokenize": self.config.decoding.tokenize}
        return {
            "bleu": metrics.bleu(outputs, references, **options).value,  # type: ignore[arg-type]
            "chrf": metrics.chrf(outputs, references).value,
            "exact": metrics.exact(outputs, references),
        }

    def held_out_loss(self, model: nn.Module) -> float:
        """Compute the mean loss per token on the held-out pairs."""
        source, target = self.translations.source, self.translations.target
        rows = [(source.encode(p.source) or [EOS], target.encode(p.target)) for p in self.valid]
        order = bucketed([max(len(s), len(t) + 1) for s, t in rows], tokens=self.config.data.batch_tokens, seed=0, epoch=0)
        total, count = 0.0, 0
        for batch in Batches(order, [s for s, _ in rows], [t for _, t in rows]):
            loss, n = _loss(model, batch)
            total, count = total + float(loss), count + n
        return total / max(count, 1)

    def samples(self, model: nn.Module) -> str:
        """Return three held-out sentences with reference and translation, and the alignment of the first."""
        pairs = self.valid[:3]
        lines = []
        for pair, (best, *_) in zip(pairs, self.translations.candidates([p.source for p in pairs], width=1, align=True), strict=True):
            lines += [f"in    {pair.source}", f"want  {pair.target}", f"got   {best.text}"]
            if pair is pairs[0] and best.alignment is not None:
                lines.append(best.picture())
        return "\n".join(lines)


def _loss(model: nn.Module, batch: Batch, *, smoothing: float = 0.0) -> tuple[Tensor, int]:
    device = next(model.parameters()).device
    target = batch.target.to(device, non_blocking=True)
    keep = target[:, 1:] != PAD  # no logits are computed for padding
    labels = target[:, 1:][keep]
    logits = model(batch.source.to(device, non_blocking=True), batch.lengths.to(device, non_blocking=True), target[:, :-1], keep=keep)
    return F.cross_entropy(logits.float(), labels, reduction="sum", label_smoothing=smoothing), len(labels)
