"""What trained models answer, as results that show themselves: one line as a repr, at most a screen printed, a table in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..html_table import html_table
from ..terminal import table

SCREEN = 18  # rows of a table that fits a terminal
SHORT = 40  # characters of a text in a repr


def short(text: str, length: int = SHORT) -> str:
    """Return a text in quotes, cut with an ellipsis.

    >>> short("a long text that goes on", 10)
    "'a long te…'"
    """
    return repr(text if len(text) <= length else text[: length - 1] + "…")


@dataclass(frozen=True)
class Candidate:
    """A predicted token for a mask.

    text: the token.
    probability: of it, by the model.

    >>> Candidate("好", 0.9).text
    '好'
    """

    text: str
    probability: float


class Filled(list[list[Candidate]]):
    """The candidates for each mask of a text, in the order of the text, the most likely first: a list of lists.

    text: the text with its masks.
    masks: the candidates of each.

    >>> Filled("今天天气很[MASK]。", [[Candidate("好", 0.75), Candidate("热", 0.25)]])
    Filled('今天天气很[MASK]。': '好' 0.75)
    """

    def __init__(self, text: str, masks: Sequence[list[Candidate]]) -> None:
        super().__init__(masks)
        self.text = text

    def _texts(self) -> list[list[str]]:
        rows = [[str(n), c.text, f"{c.probability:.1%}"] for n, mask in enumerate(self, 1) for c in mask]
        return [["mask", "candidate", "probability"], *rows]

    def __repr__(self) -> str:
        best = ", ".join(f"{c.text!r} {c.probability:.2f}" for c in [mask[0] for mask in self if mask][:8])
        return f"Filled({short(self.text)}: {best}{', …' if len(self) > 8 else ''})"

    def __str__(self) -> str:
        return _cut_table(self._texts(), f"{self!r}")

    def _repr_html_(self) -> str:
        rows = self._texts()
        shades = [[None, None, c.probability] for mask in self for c in mask]
        return html_table(rows[: SCREEN + 1], title=self.text[:200], shades=shades[:SCREEN], rest=max(len(rows) - 1 - SCREEN, 0))


class _Labelled(NamedTuple):
    label: str
    probability: float


class Classified(_Labelled):
    """The label of a text and its probability, a pair; `labels` has the probabilities of all labels.

    text: the text.
    labels: the probability of each label.

    >>> one = Classified("the room is clean", {"good": 0.75, "bad": 0.25})
    >>> one
    Classified('the room is clean': 'good' 0.75)
    >>> label, probability = one
    >>> label
    'good'
    """

    text: str
    labels: dict[str, float]

    def __new__(cls, text: str, labels: Mapping[str, float]) -> Classified:
        ranked = dict(sorted(labels.items(), key=lambda item: -item[1]))
        self = super().__new__(cls, *next(iter(ranked.items())))
        self.text, self.labels = text, ranked
        return self

    def __repr__(self) -> str:
        return f"Classified({short(self.text)}: {self.label!r} {self.probability:.2f})"

    def __str__(self) -> str:
        return _cut_table([["label", "probability"], *([label, f"{p:.1%}"] for label, p in self.labels.items())], repr(self))

    def _repr_html_(self) -> str:
        rows = [(label, f"{p:.1%}") for label, p in self.labels.items()]
        shades = [[None, p] for p in self.labels.values()]
        rest = max(len(rows) - SCREEN, 0)
        return html_table([("label", "probability"), *rows[:SCREEN]], title=self.text[:200], shades=shades[:SCREEN], rest=rest)


@dataclass(frozen=True, repr=False)
class Prefix:
    """The first tokens of a text and the most likely next tokens.

    tokens: of the text so far.
    candidates: (token, probability), the most likely first.

    >>> Prefix(["The", " cat"], [(" sat", 0.75)])
    Prefix('The cat' → ' sat' 0.75)
    """

    tokens: list[str]
    candidates: list[tuple[str, float]]

    def __repr__(self) -> str:
        text = _joined(self.tokens)
        best = f" → {self.candidates[0][0]!r} {self.candidates[0][1]:.2f}" if self.candidates else ""
        return f"Prefix({short(text if len(text) <= SHORT else '…' + text[-SHORT + 1 :])}{best})"


class Prefixes(list[Prefix]):
    """The prefixes of a text, the shortest first: a list.

    prefixes: the prefixes.

    >>> Prefixes([Prefix(["The"], [(" cat", 0.5)]), Prefix(["The", " cat"], [(" sat", 0.75)])])
    Prefixes('The cat', 2 tokens)
    """

    def __init__(self, prefixes: Sequence[Prefix]) -> None:
        super().__init__(prefixes)

    def _texts(self) -> list[list[str]]:
        rows = [[_visible(p.tokens[-1]), *(f"{_visible(t)} {probability:.2f}" for t, probability in p.candidates)] for p in self]
        width = max((len(row) for row in rows), default=1)
        header = ["token", *(["next"] if width > 1 else []), *[""] * (width - 2)]
        return [header, *(row + [""] * (width - len(row)) for row in rows)]

    def __repr__(self) -> str:
        return f"Prefixes({short(_joined(self[-1].tokens)) if self else repr('')}, {len(self)} tokens)"

    def __str__(self) -> str:
        return _cut_table(self._texts(), repr(self))

    def _repr_html_(self) -> str:
        rows = self._texts()
        return html_table(rows[: SCREEN + 1], title=repr(self), rest=max(len(rows) - 1 - SCREEN, 0))


class ErrorRates(dict[str, float]):
    """Error rates by name, shares in [0, 1], shown in percent: a dictionary.

    rates: name → rate.

    >>> ErrorRates({"diagonal": 0.5})
    ErrorRates(diagonal 50.0 %)
    """

    def __init__(self, rates: Mapping[str, float]) -> None:
        super().__init__(rates)

    def _texts(self) -> list[list[str]]:
        return [["alignment", "error rate"], *([name, f"{100 * rate:.1f} %"] for name, rate in self.items())]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in list(self.items())[:6])
        return f"ErrorRates({shown}{', …' if len(self) > 6 else ''})"

    def __str__(self) -> str:
        return _cut_table(self._texts(), f"{len(self)} error rates, lower is better")

    def _repr_html_(self) -> str:
        rows = self._texts()
        return html_table(rows[: SCREEN + 1], note="lower is better", rest=max(len(rows) - 1 - SCREEN, 0))


def _joined(tokens: Sequence[str]) -> str:
    """Tokens as the text they stand for: "▁" and "Ġ" are how vocabularies write a space."""
    return "".join(tokens).replace("▁", " ").replace("Ġ", " ")


def _visible(token: str) -> str:
    """A token for a cell: a space and a line end as marks.

    >>> _visible("▁the"), _visible("\\n")
    ('␣the', '⏎')
    """
    return _joined([token]).replace(" ", "␣").replace("\n", "⏎")


def _cut_table(rows: list[list[str]], title: str) -> str:
    """A title and a table of at most a screen; what is left out is counted."""
    rest = len(rows) - 1 - SCREEN
    return f"{title}\n{table(rows[: SCREEN + 1])}" + (f"\n{rest:,} more rows" if rest > 0 else "")


__all__ = ["Candidate", "Classified", "ErrorRates", "Filled", "Prefix", "Prefixes", "short"]
