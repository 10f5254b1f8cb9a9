"""The panels a demonstration is shown with. `text_output.py` draws them in a terminal, `figure_output.py` as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Note:
    """One or more lines of text."""

    text: str


@dataclass(frozen=True)
class Grid:
    """A heat map of weights in [0, 1]: queries down, keys across. `hidden` cells are masked."""

    title: str
    weights: list[list[float]]
    rows: Sequence[str]
    cols: Sequence[str]
    hidden: list[list[bool]] | None = None
    numbers: bool = True  # write the weight into each cell
    current: tuple[int, ...] = ()  # rows whose name is drawn red: the current words


@dataclass(frozen=True)
class Words:
    """A sentence whose current word is red and whose other words are shaded by the weight it gives them."""

    words: Sequence[str]
    current: int
    weights: Sequence[float]


@dataclass(frozen=True)
class Lines:
    """A line plot: one or more series over a common x axis."""

    title: str
    x_name: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float]]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Bars:
    """A bar chart: one number per name."""

    title: str
    values: dict[str, float]
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """A table of texts; the first row is the header."""

    title: str
    rows: Sequence[Sequence[str]]


Panel: TypeAlias = Note | Grid | Words | Lines | Bars | Table


@dataclass(frozen=True)
class Board:
    """Panels under a title that states what they show."""

    title: str
    panels: Sequence[Panel] = field(default_factory=tuple)
