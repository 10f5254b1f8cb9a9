"""Config tables that several tasks share: options of a vocabulary and of a Transformer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from ..text.vocabulary import Kind, Vocabulary
from .loop.settings import Training
from .runs import build_best, run_config

TEXT_VOCABULARY = "text.vocabulary.json"  # the file of a run with one vocabulary


@dataclass(frozen=True)
class VocabularyTable:
    """How a vocabulary is trained: the options of `regard.text.Vocabulary.train`."""

    kind: str = "bpe"
    size: int = 8000
    lowercase: bool = False
    simplify: bool = False
    min_count: int = 1

    def learn(self, lines: Iterable[str]) -> Vocabulary:
        """Train a vocabulary on lines."""
        return Vocabulary.train(
            lines,
            kind=cast(Kind, self.kind),
            size=self.size,
            lowercase=self.lowercase,
            simplify=self.simplify,
            min_count=self.min_count,
        )

    def load_or_learn(self, file: Path, lines: Iterable[str]) -> Vocabulary:
        """Load the vocabulary of a run; train and save it first if the file does not exist. A resumed run keeps its vocabulary."""
        if not file.exists():
            self.learn(lines).save(file)
        return Vocabulary.load(file)


@dataclass(frozen=True)
class TransformerTable:
    """Options of an encoder or decoder: those of `regard.models.BlockConfig` that all tasks offer."""

    d_model: int = 128
    heads: int = 4
    layers: int = 4
    context: int = 128
    hidden: int | None = None
    norm: Literal["layer", "rms"] = "layer"
    activation: str = "gelu"
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    dropout: float = 0.0
    attention_dropout: float = 0.0


@dataclass(frozen=True)
class TextConfig:
    """A config with one vocabulary and one model. Subclasses give the types of the tables `data`, `model` and `vocabulary`."""

    out: str
    data: Any
    model: Any
    training: Training
    vocabulary: Any = None

    def files(self) -> list[str]:
        """Return the data files; paths are relative to the config file."""
        names: list[str] = self.data.files()
        return names


C = TypeVar("C", bound=TextConfig)


def load_text_run(folder: str | Path, task: str, form: type[C]) -> tuple[C, Vocabulary, Any]:
    """Load a run: its config, its vocabulary, and its model with the best weights."""
    config = run_config(folder, task, form)
    vocabulary = Vocabulary.load(Path(folder) / TEXT_VOCABULARY)
    return config, vocabulary, build_best(lambda: config.model.build(len(vocabulary)), folder)
