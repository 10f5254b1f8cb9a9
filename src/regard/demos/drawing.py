"""The few pictures demonstrations are made of, and how a terminal draws them. `figures.py` draws the same ones on paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from regard.colours import blue
from regard.terminal import Pen, columns, pad, table

_BAR = 24  # columns a full bar takes


@dataclass(frozen=True)
class Note:
    """A line or two of prose."""

    text: str


@dataclass(frozen=True)
class Grid:
    """Weights as cells, with their numbers: queries down, keys across. `hidden` cells are masked."""

    title: str
    weights: list[list[float]]
    rows: Sequence[str]
    cols: Sequence[str]
    hidden: list[list[bool]] | None = None
    numbers: bool = True
    current: tuple[int, ...] = ()  # rows of current words, drawn red


@dataclass(frozen=True)
class Words:
    """A sentence whose current word is red and whose other words are shaded by the weight they get from it."""

    words: Sequence[str]
    current: int
    weights: Sequence[float]


@dataclass(frozen=True)
class Lines:
    """Numbers over a common axis, one line a series."""

    title: str
    x_name: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float]]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Bars:
    """One number a name."""

    title: str
    values: dict[str, float]
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of texts, the first of them the head."""

    title: str
    rows: Sequence[Sequence[str]]


Picture: TypeAlias = Note | Grid | Words | Lines | Bars | Table


@dataclass(frozen=True)
class Board:
    """Pictures under a title that states what they show."""

    title: str
    pictures: Sequence[Picture] = field(default_factory=tuple)


def text(board: Board, pen: Pen) -> str:
    """The board for a terminal: colour if the pen has any, plain ASCII marks if not.

    >>> print(text(Board("A statement.", [Grid("", [[0.25, 0.75]], ["I"], ["我", "爱"])]), Pen()))
    A statement.
    <BLANKLINE>
        我    爱
    I  0.25: 0.75#
    <BLANKLINE>
    scale  0 .:-=+*#%@ 1 (linear)
    """
    parts = [pen.strong(board.title)]
    previous: Picture | None = None
    for picture in board.pictures:
        drawn = _draw(picture, pen)
        # A run of word lines belongs together.
        parts.append(drawn if isinstance(picture, Words) and isinstance(previous, Words) else "\n" + drawn)
        previous = picture
    if any(isinstance(picture, Grid | Words) for picture in board.pictures):
        masked = any(isinstance(picture, Grid) and picture.hidden is not None for picture in board.pictures)
        parts.append("\n" + pen.quiet("scale  ") + pen.legend() + (f"   {pen.hatched(3).strip()} masked" if masked else ""))
    return "\n".join(line.rstrip() for line in "\n".join(parts).split("\n"))


def _draw(picture: Picture, pen: Pen) -> str:
    if isinstance(picture, Note):
        return picture.text
    if isinstance(picture, Words):
        return _words(picture, pen)
    if isinstance(picture, Grid):
        drawn = _grid(picture, pen)
    elif isinstance(picture, Lines):
        drawn = _lines(picture, pen)
    elif isinstance(picture, Bars):
        drawn = _bars(picture, pen)
    else:
        drawn = table([[pen.quiet(name) for name in picture.rows[0]], *picture.rows[1:]])
    return (pen.quiet(picture.title) + "\n" if picture.title else "") + drawn


def _grid(grid: Grid, pen: Pen) -> str:
    widths = [max(6 if grid.numbers else 2, columns(c) + 2) for c in grid.cols]
    names = [pen.current(name) if i in grid.current else name for i, name in enumerate(grid.rows)]
    left = max((columns(name) for name in names), default=0)
    lines = [" " * (left + 1) + "".join(pad(c, width, "centre") for c, width in zip(grid.cols, widths, strict=True))]
    for i, (name, row) in enumerate(zip(names, grid.weights, strict=True)):
        line = pad(name, left, "right") + " "
        for j, (weight, cell) in enumerate(zip(row, widths, strict=True)):
            if grid.hidden is not None and grid.hidden[i][j]:
                line += pen.hatched(cell)
            elif not grid.numbers:
                line += pen.cell(weight, cell)
            else:
                shown = f"{weight:.2f}"
                if pen.colour and shown == "0.00":
                    shown = "·"
                line += pen.cell(weight, cell, shown if pen.colour else shown + pen.cell(weight, 1))
        lines.append(line)
    return "\n".join(lines)


def _words(line: Words, pen: Pen) -> str:
    shown = [
        pen.current(word) if i == line.current else pen.word(word, weight)
        for i, (word, weight) in enumerate(zip(line.words, line.weights, strict=True))
    ]
    return " ".join(shown)


def _lines(lines: Lines, pen: Pen) -> str:
    """Each series as a column of numbers with a bar: read down to see it move."""
    head = [pen.quiet(lines.x_name)]
    for name in lines.series:
        head += [pen.quiet(name), ""]
    rows: list[list[str]] = [head]
    every = [value for values in lines.series.values() for value in values]  # one scale for all, as on paper
    for i, x in enumerate(lines.x):
        row = [_number(x)]
        for values in lines.series.values():
            row += [_number(values[i]), pad(_bar(_height(values[i], every, lines.log_y), pen, _BAR // 2), _BAR // 2)]
        rows.append(row)
    return table(rows)


def _bars(bars: Bars, pen: Pen) -> str:
    top = max((abs(v) for v in bars.values.values()), default=1.0) or 1.0
    left = max(map(columns, bars.values), default=0)
    return "\n".join(
        f"{pad(name, left)}  {pad(_bar(abs(v) / top, pen, _BAR), _BAR)}  {_number(v)}{' ' + bars.unit if bars.unit else ''}"
        for name, v in bars.values.items()
    )


def _height(value: float, values: Sequence[float], log: bool) -> float:
    """A bar's share of the full width; on a log axis the smallest value still shows."""
    if not log:
        top = max(map(abs, values), default=1.0) or 1.0
        return abs(value) / top
    logs = [math.log(v) for v in values if v > 0]
    if value <= 0 or not logs:
        return 0.0
    low, high = min(logs), max(logs)
    return 1.0 if high == low else 0.1 + 0.9 * (math.log(value) - low) / (high - low)


def _bar(share: float, pen: Pen, width: int) -> str:
    size = round(min(max(share, 0.0), 1.0) * width)
    return pen.paint("█" * size, blue(0.7, dark=pen.dark)) if pen.colour else "#" * size


def _number(x: float) -> str:
    """Four figures, whole numbers with separators, tiny ones with an exponent."""
    if isinstance(x, int) or (float(x).is_integer() and abs(x) < 1e15):
        return f"{int(x):,}"
    return f"{x:.4g}"
