"""Summarising: a sequence-to-sequence model trained on pairs of a text and its summary, which may copy words of the text.

It is the translation task with other defaults (`manuals/summarise.toml`), ROUGE instead of BLEU, and summaries in the capitals of the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, overload

from ...files import write_text
from ...text.pairs import read_pairs
from ...text.script import script_of
from .. import metrics
from ..config_from_data import set_key
from ..runs import run_config
from . import Evaluation, Task
from .translation.config import TranslationConfig
from .translation.training import TrainableTranslator
from .translation.translations import Translations


class Summariser(Translations):
    """A trained summariser with its vocabulary.

    model: the trained encoder–decoder.
    others: as in :class:`Translations`.

    >>> Summariser.task
    'summarise'
    """

    task = "summarise"

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return source ids, at most `limit` of each text: a longer text is summarised from its beginning."""
        return [ids[: self.limit] for ids in super().encode(texts)]

    @overload
    def summarise(self, texts: str, *, width: int | None = ...) -> str: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str]
    @overload
    def summarise(self, texts: Sequence[str], *, width: int | None = ...) -> list[str]: ...
    def summarise(self, texts: str | Sequence[str], *, width: int | None = None) -> str | list[str]:
        """Return the summary of one of `texts`, or of each of a list. width: of the beam search; None: that of the model's config."""
        rows = [texts] if isinstance(texts, str) else list(texts)
        beams = self.candidates(rows, width=width)
        summaries = [with_capitals_of(text, candidates[0].text) for text, candidates in zip(rows, beams, strict=True)]
        return summaries[0] if isinstance(texts, str) else summaries


class TrainableSummariser(TrainableTranslator):
    """Trains a summariser on pairs; its scores are ROUGE-1, ROUGE-2 and ROUGE-L."""

    task = "summarise"
    opened = Summariser

    def compare(self, outputs: list[str], references: list[str]) -> dict[str, float]:
        return metrics.rouge(outputs, references)


def with_capitals_of(text: str, summary: str) -> str:
    """Return a summary in which words are written as in the text, if the text writes them in one way only.

    A model with a lower-case vocabulary writes "python"; capitals at the beginning of a sentence do not count.

    >>> with_capitals_of("A parser for JSON. Parsers read files of GNU Emacs.", "json parser for gnu emacs")
    'JSON parser for GNU Emacs'
    """
    forms: dict[str, set[str]] = {}
    for match in re.finditer(r"(^|[.!?:]\s+)?([^\W_]+)", text):
        first = match[1] is not None and not match[2].isupper()
        forms.setdefault(match[2].lower(), set()).add(match[2].lower() if first and match[2][1:].islower() else match[2])
    written = {word: next(iter(options)) for word, options in forms.items() if len(options) == 1}
    return re.sub(r"[^\W_]+", lambda match: written.get(match[0], match[0]), summary)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, a baseline that needs no model."""
    from ...text.sentences import split_sentences

    return next(iter(split_sentences(text)), "")


def first_words(text: str, count: int = 10) -> str:
    """Return the first words of a text (characters of a Chinese one), a baseline that needs no model."""
    return text.strip()[: 2 * count] if script_of(text) == "CJK" else " ".join(text.split()[:count])


def adapt(manual: str, data: Path, models: Collection[str] = ()) -> str:
    """Return the manual with settings chosen for a file of pairs: characters for Chinese, and steps by the number of pairs."""
    pairs = read_pairs(data)
    if script_of(" ".join(pair.source for pair in pairs[:1000])) == "CJK":
        manual = set_key(manual, "kind", "char", after="\n[source]")
    return set_key(manual, "steps", min(8000, max(1500, len(pairs) // 5)))


def evaluate(request: Evaluation) -> dict[str, Any]:
    """Compute ROUGE of the summaries, and of the first sentence and the first ten words of each text, on the pairs of the test files."""
    data = run_config(request.run, "summarise", TranslationConfig).data
    pairs = [pair for file in request.test for pair in read_pairs(file, columns=data.columns, keys=data.keys)]
    opened = Summariser.open(request.run, device=request.device)
    texts, references = [p.source for p in pairs], [p.target for p in pairs]
    outputs = opened.summarise(texts, width=request.beam)
    if request.out:
        write_text(request.out, "".join(line + "\n" for line in outputs))
    baselines = {"first sentence": [first_sentence(text) for text in texts], "first words": [first_words(text) for text in texts]}
    return {
        "pairs": len(pairs),
        "beam": opened.decoding.beam if request.beam is None else request.beam,
        "parameters": sum(p.numel() for p in opened.model.parameters()),
        **metrics.rouge(outputs, references),
        "baselines": {name: metrics.rouge(lines, references) for name, lines in baselines.items()},
    }


TASK = Task(
    name="summarise",
    config=TranslationConfig,
    build=TrainableSummariser.build,
    open=Summariser.open,
    evaluate=evaluate,
    data="pairs (TSV or .jsonl)",
    adapt=adapt,
)
