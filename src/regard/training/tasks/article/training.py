"""Training of an article reader: the picker by REINFORCE on "the answer is in what was read", the span reader by cross-entropy.

Axes: B questions, S sentences, F features, h heads, N passages, W units.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ....models.article_reader import CHINESE, ArticleReaderModel, budget_loss, reinforce_loss
from ....text.articles import Question, QuestionedArticle, read_questions, split_article
from ....text.passages import LONGEST, passages
from ....text.skimming import SkimmedArticle, skim
from ....text.units import UnitTable
from .config import ArticleConfig
from .evaluation import Asked, measure
from .reading import UNITS, ArticleReader


@dataclass(frozen=True, eq=False)
class Example:
    """A question: skimmed features (S, F), the sentences with an answer, and the answers as (sentence, first unit, last unit)."""

    article: SkimmedArticle
    question: Question
    skimmed: NDArray[np.float32]
    right: frozenset[int]
    spans: tuple[tuple[int, int, int], ...]

    @property
    def language(self) -> str:
        """Which picker scores the sentences, if there is one for each language."""
        return "zh" if self.skimmed[0, CHINESE] else "en"

    @property
    def units_to_read(self) -> int:
        """The number of units of the longest sentence with an answer."""
        return max(len(self.article.units_in(sentence)) for sentence in self.right)

    @classmethod
    def all_of(cls, articles: Iterable[QuestionedArticle], table: UnitTable) -> list[Example]:
        """Return every question whose answer is in its article."""
        examples = []
        for entry in articles:
            article = SkimmedArticle(entry.text, table)
            for question in entry.questions:
                right = frozenset(question.right_sentences(article.sentences))
                if right:
                    spans = tuple(span for answer in question.answers for n in sorted(right) if (span := _span(article, n, *answer)))
                    examples.append(cls(article, question, skim(article, question.text), right, spans))
        return examples


def _span(article: SkimmedArticle, sentence: int, answer: str, start: int) -> tuple[int, int, int] | None:
    """Return an answer as (sentence, first unit, last unit), or None if the part of the sentence that is read does not contain it."""
    places = article.places(sentence)[:LONGEST]
    inside = [i for i, (first, last) in enumerate(places) if first < start + len(answer) and last > start]
    return (sentence, inside[0], inside[-1]) if inside else None


@dataclass(frozen=True, eq=False)
class Batch:
    """Questions with their skimmed features (B, S, F), sentence counts (B,), right sentences (B, S), and the entropy's weight."""

    examples: Sequence[Example]
    skimmed: Tensor
    counts: Tensor
    right: Tensor
    curiosity: float
    seed: str

    @classmethod
    def of(cls, examples: Sequence[Example], *, curiosity: float = 0.0, seed: str = "") -> Batch:
        S = max(len(example.skimmed) for example in examples)
        skimmed = torch.zeros(len(examples), S, examples[0].skimmed.shape[1])
        right = torch.zeros(len(examples), S, dtype=torch.bool)
        for n, example in enumerate(examples):
            skimmed[n, : len(example.skimmed)] = torch.from_numpy(example.skimmed)
            right[n, list(example.right)] = True
        return cls(examples, skimmed, torch.tensor([len(example.skimmed) for example in examples]), right, curiosity, seed)


class Batches(Sequence[Batch]):
    """The batches of an epoch, each built when it is indexed."""

    def __init__(self, rows: list[list[int]], examples: Sequence[Example], *, curiosity: float, seed: str) -> None:
        self.rows, self.examples, self.curiosity, self.seed = rows, examples, curiosity, seed

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        return Batch.of([self.examples[row] for row in self.rows[i]], curiosity=self.curiosity, seed=f"{self.seed} {i}")


class TrainableArticleReader:
    """Trains an `ArticleReaderModel` and measures it on the questions of held-out articles."""

    def __init__(self, config: ArticleConfig, reader: ArticleReader, train: list[Example], valid: Sequence[QuestionedArticle]) -> None:
        self.config, self.reader, self.train = config, reader, train
        self.model: nn.Module = reader.model
        self.valid = Asked.all_of(valid, reader.table)
        random.Random(0).shuffle(self.valid)
        self.valid = self.valid[: config.data.evaluated]

    @classmethod
    def build(cls, config: ArticleConfig, root: Path, folder: Path) -> TrainableArticleReader:
        """Read the questions, count the units of the articles (or load those of the run or of `start`), skim them for their questions."""
        articles = [article for file in config.data.train_files for article in read_questions(root / file)]
        valid = [article for file in config.data.valid_files for article in read_questions(root / file)]
        if not valid:
            titles = sorted({article.title for article in articles})
            random.Random(config.training.seed).shuffle(titles)
            held_out = set(titles[:: config.data.held_out])
            valid = [article for article in articles if article.title in held_out]
            articles = [article for article in articles if article.title not in held_out]
            if not articles:
                raise ValueError(f"{', '.join(config.data.train_files)} has only {len(titles)} articles; give valid, or more articles")
        if not (folder / UNITS).exists():
            if config.start is not None:
                UnitTable.load(root / config.start / UNITS).with_all_features().save(folder / UNITS)
            else:
                UnitTable.count((s.text for article in articles for s in split_article(article.text)), simplify=True).save(folder / UNITS)
        torch.manual_seed(config.training.seed)
        reader = ArticleReader.untrained(config, folder)
        start = None if config.start is None else ArticleReader.open(root / config.start).model
        if start is not None:
            reader.model.take_span_reader(start)
        if config.model.prior is not None:
            reader.model.prior.requires_grad_(False).fill_(config.model.prior)
        train = Example.all_of(articles, reader.table)
        if config.model.by_language:
            for language in sorted({"zh", "en"} - {example.language for example in train}):
                reader.model.keep_picker(language, start)
        reader.model.picker.normalise_by(torch.from_numpy(np.concatenate([example.skimmed for example in train])))
        return cls(config, reader, train, valid)

    def batches(self, epoch: int) -> Batches:
        """Return batches of questions about articles and with answering sentences of similar length, in random order."""
        settings, size = self.config.training, self.config.data.batch
        generator = random.Random(f"{settings.seed} {epoch}")
        order = list(range(len(self.train)))
        generator.shuffle(order)
        order.sort(key=lambda i: len(self.train[i].skimmed).bit_length() if len(self.train[i].skimmed) > 30 else 0)
        chunks = (order[i : i + 16 * size] for i in range(0, len(order), 16 * size))
        order = [i for chunk in chunks for i in sorted(chunk, key=lambda i: self.train[i].units_to_read)]
        rows = [order[i : i + size] for i in range(0, len(order), size)]
        generator.shuffle(rows)
        done = epoch * len(rows) / settings.steps if settings.steps else epoch / max(settings.epochs, 1)
        curiosity = self.config.model.curiosity * max(0.0, 1 - done)
        return Batches(rows, self.train, curiosity=curiosity, seed=f"{settings.seed} {epoch}")

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        assert isinstance(model, ArticleReaderModel)
        total = self._pick_loss(model, batch) + self.config.model.penalty * model.picker.squares()
        if self.config.model.spans:
            total = total + span_loss(model, batch)
        return total * len(batch.examples), len(batch.examples)

    def _pick_loss(self, model: ArticleReaderModel, batch: Batch) -> Tensor:
        picker, settings = model.picker, self.config.model
        device = next(picker.parameters()).device
        skimmed, counts, right = batch.skimmed.to(device), batch.counts.to(device), batch.right.to(device)
        scores = picker.head_scores(skimmed)
        visible = torch.arange(skimmed.shape[1], device=device) < counts.unsqueeze(-1)
        log_weights = scores.masked_fill(~visible.unsqueeze(1), -1e9).log_softmax(-1)  # (B, h, S)
        if settings.objective == "cross-entropy":
            return -log_weights.masked_fill(~right.unsqueeze(1), -1e9).logsumexp(-1).mean()
        if settings.objective == "soft":  # the expected reward of one pick, differentiated exactly
            return -(log_weights.exp() * right.unsqueeze(1)).sum(-1).mean()
        entropy = -(log_weights.exp() * log_weights).sum(-1).mean()
        if settings.objective == "reinforce-budgets":
            loss = budget_loss(picker.sample_independently(log_weights, right, samples=settings.samples))
        else:
            loss = reinforce_loss(picker.sample(scores, counts, right, picks=settings.picks, samples=settings.samples))
        return loss - batch.curiosity * entropy

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Measure on held-out questions; "score" is the mean of the first pick's share and, with spans, of F1."""
        scores = measure(self.reader, self.valid, spans=self.config.model.spans)
        parts = [scores["picked_1"], *([scores["f1_2"]] if self.config.model.spans else [])]
        return {"score": sum(parts) / len(parts), **scores}

    def samples(self, model: nn.Module) -> str:
        asked = min(self.valid[:50], key=lambda item: abs(len(item.article.sentences) - 8))
        return self.reader.read(asked.article, asked.question.text).picture()


def span_loss(model: ArticleReaderModel, batch: Batch) -> Tensor:
    """Return the cross-entropy of start and end of the answers, a mean over questions.

    Each question's sentence with an answer is read beside one of the best-scored others (if it is not longer than all of the former: a
    long one makes the whole batch slow), and the softmax is over the units of both, so that scores of different sentences can be compared.
    Both get their log-weight, as when reading picked sentences.
    """
    generator = random.Random(batch.seed)
    device = next(model.parameters()).device
    with torch.no_grad():
        scores = model.picker.scores(batch.skimmed.to(device))
    chosen, golds = [], []
    longest = max(example.units_to_read for example in batch.examples)
    for n, example in enumerate(batch.examples):
        order = scores[n, : len(example.skimmed)].argsort(descending=True)[:6].tolist()
        others = [i for i in order if i not in example.right and len(example.article.units_in(i)) <= longest]
        sentence = generator.choice(example.spans)[0] if example.spans else order[0]
        chosen.append([sentence, *generator.sample(others, min(1, len(others)))])
        golds.append([span for span in example.spans if span[0] == sentence])
    read = passages([(e.article, e.question.text, c) for e, c in zip(batch.examples, chosen, strict=True)]).to(device)
    rows = torch.tensor([i for c in chosen for i in c], device=device)
    logits = model.reader(read) + model.prior / 2 * scores[read.owner, rows].view(1, -1, 1)  # a constant a question does not matter
    normaliser = _logsumexp_by(logits.logsumexp(-1), read.owner, len(batch.examples))  # (2, B)
    first = torch.tensor([0, *np.cumsum([len(c) for c in chosen])[:-1].tolist()], device=device)
    losses = []
    for n, spans in enumerate(golds):
        if spans:
            start, end = (torch.tensor([span[i] for span in spans], device=device) for i in (1, 2))
            losses.append(normaliser[:, n].sum() - (logits[0, first[n], start] + logits[1, first[n], end]).mean())
    return torch.stack(losses).mean() / 2 if losses else logits.sum() * 0


def _logsumexp_by(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Return the logsumexp of values (…, N) over the members of each group (N,): (…, groups)."""
    index = group.expand_as(values)
    peak = values.new_full((*values.shape[:-1], groups), -torch.inf).scatter_reduce(-1, index, values.detach(), "amax")
    total = torch.zeros_like(peak).scatter_add(-1, index, (values - peak.gather(-1, index)).exp())
    return total.log() + peak
