"""Question answering over stories: train a `Reader` that picks the sentences it needs.

It is trained on answers alone; the supporting sentences in the data are used only for evaluation.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...files import read_texts, write_text
from ...html_table import html_table
from ...models.reader import Reader, ReaderConfig, Reading, StoryBatch, reader_loss
from ...text.sentences import split_sentences
from ...text.stories import Story, read_stories
from ...text.vocabulary import SPACE, SPECIALS, UNK, Vocabulary
from ..loop.settings import Training
from ..opened import OpenedModel, TokenRows
from ..results import short
from ..runs import build_best, read_run_json, run_config
from . import Evaluation, Task


@dataclass(frozen=True)
class Data:
    """The `[data]` table: bAbI files. Without `valid`, the last `held_out` questions of `train` are held out."""

    train: str
    valid: str | None = None
    held_out: int = 1000
    batch: int = 32
    first: float = 0.2  # the share of the stories, shortest first, used in the first epoch
    grow: int = 20  # the epoch from which all of them are used

    def __post_init__(self) -> None:
        if not 0 < self.first <= 1:
            raise ValueError(f"first is {self.first}; expected a share in (0, 1]")
        for name in ("held_out", "batch", "grow"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 1 or more")


@dataclass(frozen=True)
class Model:
    """The `[model]` table."""

    attention: Literal["hard", "soft"] = "hard"
    hops: int = 1
    width: int = 32
    state: int = 32
    draws: int = 32  # samples per story in a training step, with hard attention
    curiosity: float = 0.05  # initial weight of the KL penalty on the picks (`reader_loss`) …
    curious: int = 60  # … which falls linearly to 0 at this epoch

    def build(self, words: int, answers: int) -> Reader:
        return Reader(ReaderConfig(words, answers, hops=self.hops, width=self.width, state=self.state, attention=self.attention))


@dataclass(frozen=True)
class ReaderTaskConfig:
    """A reader config."""

    out: str
    data: Data
    training: Training
    model: Model = field(default_factory=Model)

    def files(self) -> list[str]:
        return [self.data.train] + ([] if self.data.valid is None else [self.data.valid])


@dataclass(frozen=True, eq=False)
class Batch:
    """Stories with their answers (B,), and the weight of the KL penalty (`reader_loss`)."""

    stories: StoryBatch
    answers: Tensor
    curiosity: float


class Batches(Sequence[Batch]):
    """The batches of an epoch, each built when it is indexed."""

    def __init__(self, rows: list[list[int]], stories: Sequence[Story], reader: StoryReader, curiosity: float) -> None:
        self.rows, self.stories, self.reader, self.curiosity = rows, stories, reader, curiosity

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        stories = [self.stories[row] for row in self.rows[i]]
        return Batch(self.reader.batch(stories), self.reader.answer_ids(stories), self.curiosity)


class TrainableReader:
    """Trains a `Reader` on stories with questions, short stories first, and measures it on held-out ones."""

    def __init__(self, config: ReaderTaskConfig, reader: StoryReader, train: list[Story], valid: list[Story]) -> None:
        self.config = config
        self.reader = reader
        self.model: nn.Module = reader.model
        self.train = sorted(train, key=lambda story: len(story.sentences))
        self.valid = valid

    @classmethod
    def build(cls, config: ReaderTaskConfig, root: Path, folder: Path) -> TrainableReader:
        """Read the stories, collect the words and answers (or load those of the run), build the model."""
        data = config.data
        train = read_stories(root / data.train)
        if data.valid is not None:
            valid = read_stories(root / data.valid)
        elif data.held_out < len(train):
            train, valid = train[: -data.held_out], train[-data.held_out :]
        else:
            raise ValueError(
                f"{data.train} has {len(train)} questions, but {data.held_out} are to be held out; lower held_out or give valid"
            )
        words, answers = folder / "words.vocabulary.json", folder / "answers.json"
        if not (words.exists() and answers.exists()):
            lines = [text for story in train for text in (*story.sentences, story.question)]
            Vocabulary.train(lines, kind="word", lowercase=True).save(words)
            write_text(answers, json.dumps(sorted({story.answer for story in train}), ensure_ascii=False))
        torch.manual_seed(config.training.seed)
        return cls(config, StoryReader.untrained(config, folder), train, valid)

    def batches(self, epoch: int) -> Batches:
        data, settings = self.config.data, self.config.training
        # The number of stories grows geometrically from the first share to all.
        fraction = min(1.0, epoch / data.grow)
        count = max(1, round(len(self.train) * data.first ** (1 - fraction)))
        order = list(range(count))
        random.Random(f"{settings.seed} {epoch}").shuffle(order)
        rows = [order[i : i + data.batch] for i in range(0, count, data.batch)]
        curiosity = self.config.model.curiosity * max(0.0, 1 - epoch / max(1, self.config.model.curious))
        return Batches(rows, self.train, self.reader, curiosity)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        device = next(model.parameters()).device
        reading = model(batch.stories.to(device), draws=self.config.model.draws)
        return reader_loss(reading, batch.answers.to(device), curiosity=batch.curiosity)[0], len(batch.answers)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return self.reader.measure(self.valid)

    def samples(self, model: nn.Module) -> str:
        story = min(self.valid[:50], key=lambda s: abs(len(s.sentences) - 8))
        return self.reader.answer([story])[0].picture()


@dataclass(frozen=True, repr=False)
class Answered:
    """The answer to a story's question.

    story: the story and its question.
    answer: the answer.
    probability: of it.
    picks: the sentences that were picked, in order.
    read, total: number of words read, and of the story.

    >>> import regard
    >>> story = Story(("Mary went to the kitchen.", "John went to the garden."), "Where is Mary?", "")
    >>> regard.open("reader").answer([story])[0].answer
    'kitchen'
    """

    story: Story
    answer: str
    probability: float
    picks: tuple[int, ...]
    read: int
    total: int

    def picture(self) -> str:
        """Return the story with the picks numbered in the margin, then the question, the answer and the share of words not read."""
        lines = []
        for n, sentence in enumerate(self.story.sentences):
            marks = ",".join(str(hop + 1) for hop, pick in enumerate(self.picks) if pick == n)
            lines.append(f"{marks:>4}  {sentence}" if marks else f"   ·  {sentence}")
        saved = 1 - self.read / self.total
        words = f"read {self.read} of {self.total} words ({saved:.0%} saved)"
        return "\n".join([*lines, f"   ?  {self.story.question}", f"   =  {self.answer}  ({self.probability:.2f})   {words}"])

    def __repr__(self) -> str:
        return f"Answered({short(self.story.question)}: {self.answer!r} {self.probability:.2f}, read {self.read} of {self.total} words)"

    def _picked(self) -> list[list[str]]:
        """Each pick and its sentence, in the order of the picks."""
        return [["pick", "sentence"], *([str(hop), self.story.sentences[n]] for hop, n in enumerate(self.picks[:18], 1))]

    def __str__(self) -> str:
        return f"{self!r}\n" + "\n".join(f"{pick:>4}  {sentence[:100]}" for pick, sentence in self._picked()[1:])

    def _repr_html_(self) -> str:
        title = f"{self.story.question} → {self.answer} ({self.probability:.2f})"
        return html_table(self._picked(), title=title, note=f"read {self.read} of {self.total} words", rest=max(len(self.picks) - 18, 0))


@dataclass(frozen=True, eq=False)
class ReadStory(StoryBatch):
    """The inputs of one story, with its text."""

    story: Story


class StoryReader(OpenedModel):
    """A trained reader with its vocabulary and answers; answers questions about stories.

    As `inputs` of a text, its last sentence is the question, and the sentences before it are the keys of the attention.

    model: the reader.
    words: its vocabulary.
    answers: what it can answer.

    >>> import regard
    >>> regard.open("reader").unknown_words("Mary ate the sandwich")
    ['ate', 'sandwich']
    """

    def __init__(self, model: Reader, words: Vocabulary, answers: list[str]) -> None:
        self.model, self.words, self.answers = model, words, answers
        self._answer_ids = {answer: i for i, answer in enumerate(answers)}
        self._cache: dict[str, list[int]] = {}  # sentence → ids; bAbI repeats its sentences often

    @classmethod
    def untrained(cls, config: ReaderTaskConfig, folder: Path) -> StoryReader:
        """Build a model with new weights for the vocabulary and answers in a run's folder.

        config: the config of the run.
        folder: the folder of the run.
        """
        words, answers = cls._words_and_answers(folder)
        return cls(config.model.build(len(words), len(answers)), words, answers)

    @staticmethod
    def _words_and_answers(folder: Path) -> tuple[Vocabulary, list[str]]:
        answers: list[str] = read_texts(folder / "answers.json")
        return Vocabulary.load(folder / "words.vocabulary.json"), answers

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> StoryReader:
        """Load the best model of a finished or running training.

        folder: of the run.
        device: where the weights are loaded.
        """
        folder = Path(folder)
        config = run_config(folder, "reader", ReaderTaskConfig)
        words, answers = cls._words_and_answers(folder)
        model = build_best(lambda: config.model.build(len(words), len(answers)), folder)
        return cls(model.to(device), words, answers)

    def batch(self, stories: Sequence[Story]) -> StoryBatch:
        """Return stories as a batch of ids."""
        return StoryBatch.of(
            [[self._ids(s) for s in story.sentences] for story in stories], [self._ids(story.question) for story in stories]
        )

    def answer_ids(self, stories: Sequence[Story]) -> Tensor:
        """Return the ids of the answers (B,); −100, which losses ignore, for an answer that is not in the training data."""
        return torch.tensor([self._answer_ids.get(story.answer, -100) for story in stories])

    def answer(self, stories: Sequence[Story], *, batch: int = 250) -> list[Answered]:
        """Answer every story's question.

        stories: each with its question; batch: how many are read at once.
        """
        answered: list[Answered] = []
        for part, reading in self._readings(stories, batch):
            probability, best = reading.logits[:, 0].softmax(-1).max(-1)
            columns = (best, probability, reading.picks[:, 0], reading.read, reading.total)
            for story, a, p, picks, read, total in zip(part, *(column.tolist() for column in columns), strict=True):
                answered.append(Answered(story, self.answers[a], p, tuple(picks), read, total))
        return answered

    def measure(self, stories: Sequence[Story], *, batch: int = 250) -> dict[str, float]:
        """Compute the loss and the shares of right answers, of stories with exactly their supports picked, and of words not read.

        batch: how many stories are read at once.
        """
        loss = 0.0
        for part, reading in self._readings(stories, batch):
            targets = self.answer_ids(part).to(reading.logits.device)
            loss += float(F.cross_entropy(reading.logits[:, 0], targets, reduction="sum"))
        answered = self.answer(stories, batch=batch)
        scores = {"loss": loss / len(stories), "answers": sum(a.answer == a.story.answer for a in answered) / len(stories)}
        if any(story.supports for story in stories):
            scores["picked"] = sum(set(a.picks) == set(a.story.supports) for a in answered) / len(stories)
        scores["saved"] = 1 - sum(a.read for a in answered) / max(1, sum(a.total for a in answered))
        return scores

    def inputs(self, text: str, *, target: str | None = None) -> ReadStory:
        sentences = split_sentences(text)
        if len(sentences) < 2:
            raise ValueError("a reader needs a story and a question; give at least two sentences, the question last")
        return self._inputs(Story(sentences[:-1], sentences[-1], ""))

    def _inputs(self, story: Story) -> ReadStory:
        batch = self.batch([story]).to(self.device)
        return ReadStory(batch.sentences, batch.counts, batch.questions, story)

    def tokens(self, inputs: ReadStory) -> tuple[TokenRows, TokenRows]:
        """Return the question, and the sentences of the story."""
        return [[inputs.story.question]], [list(inputs.story.sentences)]

    def cut(self, inputs: ReadStory, length: int) -> ReadStory:
        """Return inputs cut to the first `length` sentences."""
        return self._inputs(replace(inputs.story, sentences=inputs.story.sentences[:length]))

    def length(self, inputs: ReadStory) -> int:
        """Return the number of sentences of the story."""
        return len(inputs.story.sentences)

    def unknown_words(self, text: str) -> list[str]:
        """Return the words of a text that are not in the vocabulary."""
        return [word for word in text.split() if UNK in self._ids(word)]

    def known_words(self) -> list[str]:
        """Return the words of the vocabulary, sorted."""
        return sorted(word for i in range(len(SPECIALS), len(self.words)) if (word := self.words.piece(i).strip(SPACE)).isalnum())

    def _readings(self, stories: Sequence[Story], batch: int) -> Iterator[tuple[Sequence[Story], Reading]]:
        """Yield the stories in batches, each with the output of the model."""
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                for i in range(0, len(stories), batch):
                    part = stories[i : i + batch]
                    yield part, self.model(self.batch(part).to(self.device))
        finally:
            self.model.train(was_training)

    def _ids(self, text: str) -> list[int]:
        if text not in self._cache:
            self._cache[text] = self.words.encode(text) or [UNK]
        return self._cache[text]


def evaluate(request: Evaluation) -> dict[str, Any]:
    """Compute `StoryReader.measure` on the stories in the test files; a run of the task "article" is scored on SQuAD-form files."""
    if read_run_json(request.run)["task"] == "article":
        from .article.evaluation import evaluate as evaluate_articles

        return evaluate_articles(request)
    stories = [story for file in request.test for story in read_stories(file)]
    return {"questions": len(stories), **StoryReader.open(request.run, device=request.device).measure(stories)}


TASK = Task(
    name="reader",
    config=ReaderTaskConfig,
    build=TrainableReader.build,
    open=StoryReader.open,
    evaluate=evaluate,
    data="bAbI stories",
)
