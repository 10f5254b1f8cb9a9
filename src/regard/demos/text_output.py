"""Draw the panels of a demonstration in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regard.colours import blue
from regard.demos.panels import Bars, Board, Grid, Lines, Note, Panel, Words
from regard.terminal import Pen, columns, pad, table

_BAR = 24  # columns of a full bar


def board_text(board: Board, pen: Pen) -> str:
    """Return the board as text: in colour if the pen has colour, else with ASCII characters for weights.

    >>> print(board_text(Board("A statement.", [Grid("", [[0.25, 0.75]], ["I"], ["我", "爱"])]), Pen()))
    A statement.
    <BLANKLINE>
        我    爱
    I  0.25: 0.75#
    <BLANKLINE>
    scale  0 .:-=+*#%@ 1 (linear)
    """
    parts = [pen.strong(board.title)]
    previous: Panel | None = None
    for panel in board.panels:
        drawn = _draw(panel, pen)
        # No blank line between sentences.
        parts.append(drawn if isinstance(panel, Words) and isinstance(previous, Words) else "\n" + drawn)
        previous = panel
    if any(isinstance(panel, Grid | Words) for panel in board.panels):
        masked = any(isinstance(panel, Grid) and panel.hidden is not None for panel in board.panels)
        parts.append("\n" + pen.quiet("scale  ") + pen.legend() + (f"   {pen.hatched(3).strip()} masked" if masked else ""))
    return "\n".join(line.rstrip() for line in "\n".join(parts).split("\n"))


def _draw(panel: Panel, pen: Pen) -> str:
    if isinstance(panel, Note):
        return panel.text
    if isinstance(panel, Words):
        return _words(panel, pen)
    if isinstance(panel, Grid):
        drawn = _grid(panel, pen)
    elif isinstance(panel, Lines):
        drawn = _lines(panel, pen)
    elif isinstance(panel, Bars):
        drawn = _bars(panel, pen)
    else:
        drawn = table([[pen.quiet(name) for name in panel.rows[0]], *panel.rows[1:]])
    return (pen.quiet(panel.title) + "\n" if panel.title else "") + drawn


def _grid(grid: Grid, pen: Pen) -> str:
    widths = [max(6 if grid.numbers else 2, columns(c) + 2) for c in grid.cols]
    names = [pen.current(name) if i in grid.current else name for i, name in enumerate(grid.rows)]
    left = max((columns(name) for name in names), default=0)
    lines = [" " * (left + 1) + "".join(pad(c, width, "centre") for c, width in zip(grid.cols, widths, strict=True))]
    for i, (name, row) in enumerate(zip(names, grid.weights, strict=True)):
        line = pad(name, left, "right") + " "
        for j, (weight, width) in enumerate(zip(row, widths, strict=True)):
            if grid.hidden is not None and grid.hidden[i][j]:
                line += pen.hatched(width)
            elif not grid.numbers:
                line += pen.cell(weight, width)
            else:
                number = f"{weight:.2f}"
                if pen.colour and number == "0.00":
                    number = "·"
                line += pen.cell(weight, width, number if pen.colour else number + pen.cell(weight, 1))
        lines.append(line)
    return "\n".join(lines)


def _words(line: Words, pen: Pen) -> str:
    words = [
        pen.current(word) if i == line.current else pen.word(word, weight)
        for i, (word, weight) in enumerate(zip(line.words, line.weights, strict=True))
    ]
    return " ".join(words)


def _lines(lines: Lines, pen: Pen) -> str:
    """Each series as a column of numbers with bars, one line per x."""
    head = [pen.quiet(lines.x_name)]
    for name in lines.series:
        head += [pen.quiet(name), ""]
    rows: list[list[str]] = [head]
    all_values = [value for values in lines.series.values() for value in values]  # all series share one scale, as in the figure
    for i, x in enumerate(lines.x):
        row = [_number(x)]
        for values in lines.series.values():
            row += [_number(values[i]), pad(_bar(_bar_share(values[i], all_values, lines.log_y), pen, _BAR // 2), _BAR // 2)]
        rows.append(row)
    return table(rows)


def _bars(bars: Bars, pen: Pen) -> str:
    top = max((abs(v) for v in bars.values.values()), default=1.0) or 1.0
    left = max(map(columns, bars.values), default=0)
    return "\n".join(
        f"{pad(name, left)}  {pad(_bar(abs(v) / top, pen, _BAR), _BAR)}  {_number(v)}{' ' + bars.unit if bars.unit else ''}"
        for name, v in bars.values.items()
    )


def _bar_share(value: float, values: Sequence[float], log: bool) -> float:
    """The length of a bar as a share of the full one; on a log axis the smallest value keeps a tenth."""
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
    """Four significant digits; whole numbers with thousands separators."""
    if isinstance(x, int) or (float(x).is_integer() and abs(x) < 1e15):
        return f"{int(x):,}"
    return f"{x:.4g}"
