"""The config of an article reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from ....models.article_reader import ArticleReaderConfig
from ...loop.settings import Training

Objective = Literal["reinforce", "reinforce-budgets", "cross-entropy", "soft"]


@dataclass(frozen=True)
class Data:
    """The `[data]` table: SQuAD-form files. Without `valid`, every `held_out`-th article of `train` is held out."""

    train: tuple[str, ...] | str
    valid: tuple[str, ...] | str = ()
    held_out: int = 10
    evaluated: int = 400  # at most this many held-out questions are used in an evaluation during training
    batch: int = 64

    def __post_init__(self) -> None:
        if not self.train_files:
            raise ValueError("train is empty; give at least one SQuAD-form file")
        for name, least in (("held_out", 2), ("evaluated", 1), ("batch", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; expected {least} or more")

    @property
    def train_files(self) -> tuple[str, ...]:
        return (self.train,) if isinstance(self.train, str) else self.train

    @property
    def valid_files(self) -> tuple[str, ...]:
        return (self.valid,) if isinstance(self.valid, str) else self.valid


@dataclass(frozen=True)
class Model:
    """The `[model]` table."""

    objective: Objective = "reinforce"  # how the picker is trained
    by_language: bool = False  # a picker for Chinese questions and one for English questions, instead of one for both
    picks: int = 5  # sentences sampled one after the other, with "reinforce"
    samples: int = 12  # samples of them for each question and head; with "reinforce-budgets" samples of one sentence
    curiosity: float = 0.01  # initial weight of the entropy of the picker's weights; falls linearly to 0
    penalty: float = 0.0  # weight of the squares of the picker's weights: few questions need more
    prior: float | None = None  # how much a sentence's log-weight counts beside the scores of spans; None: learned, or that of `start`
    spans: bool = True  # also train the span reader
    span_languages: tuple[str, ...] = ("zh",)  # in other languages the answer is a whole sentence
    hidden: int = 32
    heads: int = 4
    width: int = 48
    state: int = 64
    layers: int = 2
    dropout: float = 0.3

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            raise ValueError(f"objective is {self.objective!r}; expected one of {', '.join(get_args(Objective))}")
        if self.picks < 1 or self.samples < 2:
            raise ValueError(f"picks is {self.picks} and samples {self.samples}; expected at least 1 and 2")
        if not self.penalty >= 0:
            raise ValueError(f"penalty is {self.penalty}; expected 0 or more")

    def sizes(self, units: int, features: int) -> ArticleReaderConfig:
        return ArticleReaderConfig(
            units,
            features,
            hidden=self.hidden,
            heads=self.heads,
            width=self.width,
            state=self.state,
            layers=self.layers,
            dropout=self.dropout,
            by_language=self.by_language,
        )


@dataclass(frozen=True)
class ArticleConfig:
    """An article reader config.

    start: a run (or a model's name) whose table of units and span reader are used. The picker is new; with `by_language` only the pickers
    of languages that the training data have are.
    """

    out: str
    data: Data
    training: Training
    model: Model = field(default_factory=Model)
    start: str | None = None

    def __post_init__(self) -> None:
        if self.training.compile:
            raise ValueError("compile is true; an article reader has no single call to compile: leave it out")

    def files(self) -> list[str]:
        return [*self.data.train_files, *self.data.valid_files]
