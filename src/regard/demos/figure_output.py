"""Draw the panels of a demonstration as a figure: SVG, PNG or PDF. Needs matplotlib, the `pictures` extra."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.colours import HEADS, blue, hexadecimal, ink, red
from regard.demos.panels import Bars, Board, Grid, Lines, Note, Panel, Table, Words
from regard.plotting import blank, figure_file, figure_style, ramp, save_figure
from regard.terminal import table


def save_board(board: Board, path: str | Path) -> Path:
    """Save the board as a figure; the ending of the path decides the format."""
    target = figure_file(path)
    with figure_style(_texts(board)):
        heights = [_height(panel) for panel in board.panels]
        figure = blank(6.9, 0.5 + sum(heights))
        figure.suptitle(board.title, fontsize=9, fontweight="bold", wrap=True)
        for axes, panel in zip(figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0], board.panels, strict=True):
            _draw(axes, panel)
        return save_figure(figure, target)


def _texts(board: Board) -> Iterator[str]:
    """All text of the figure, from which fonts with the needed characters are chosen."""
    yield board.title
    for panel in board.panels:
        yield repr(panel)


def _height(panel: Panel) -> float:
    """The height of a panel in inches."""
    if isinstance(panel, Grid):
        return 0.7 + 0.3 * len(panel.rows)
    if isinstance(panel, Table):
        return 0.3 + 0.16 * len(panel.rows)
    if isinstance(panel, Bars):
        return 0.5 + 0.22 * len(panel.values)
    return 2.2 if isinstance(panel, Lines) else 0.2 + 0.14 * (panel.text.count("\n") + 1) if isinstance(panel, Note) else 0.3


def _draw(axes: Any, panel: Panel) -> None:
    if isinstance(panel, Grid):
        _grid(axes, panel)
    elif isinstance(panel, Lines):
        for (name, values), colour in zip(panel.series.items(), HEADS, strict=False):
            axes.plot(panel.x, values, marker="o", markersize=3, label=name, color=hexadecimal(colour))
        axes.set(
            title=panel.title,
            xlabel=panel.x_name,
            xscale="log" if panel.log_x else "linear",
            yscale="log" if panel.log_y else "linear",
        )
        axes.legend(frameon=False)
    elif isinstance(panel, Bars):
        names = list(panel.values)
        axes.barh(names, list(panel.values.values()), color=hexadecimal(blue(0.8, dark=False)))
        axes.invert_yaxis()
        axes.set(title=panel.title, xlabel=panel.unit)
    else:
        axes.axis("off")
        if isinstance(panel, Words):
            _words(axes, panel)
        else:
            content = panel.text if isinstance(panel, Note) else f"{panel.title}\n{table(panel.rows)}".strip()
            font = {} if isinstance(panel, Note) else {"family": "monospace", "fontsize": 6.5}
            axes.text(0, 1, content, va="top", transform=axes.transAxes, **font)


def _grid(axes: Any, grid: Grid) -> None:
    image = axes.imshow(grid.weights, cmap=ramp(), vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(grid.cols)), grid.cols)
    axes.set_yticks(range(len(grid.rows)), grid.rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for i, label in enumerate(axes.get_yticklabels()):
        if i in grid.current:
            label.set_color(hexadecimal(red(dark=False)))
    for i, row in enumerate(grid.weights):
        for j, weight in enumerate(row):
            if grid.hidden is not None and grid.hidden[i][j]:
                axes.fill(
                    [j - 0.5, j + 0.5, j + 0.5, j - 0.5],
                    [i - 0.5, i - 0.5, i + 0.5, i + 0.5],
                    fill=False,
                    hatch="////",
                    lw=0,
                    color="#bbbbbb",
                )
            elif grid.numbers:
                number = f"{weight:.2f}" if weight >= 0.005 else "·"
                axes.text(j, i, number, ha="center", va="center", color=hexadecimal(ink(blue(weight, dark=False))), fontsize=7)
    if grid.title:
        axes.set_title(grid.title)
    axes.figure.colorbar(image, ax=axes, shrink=0.9, pad=0.01)


def _words(axes: Any, line: Words) -> None:
    total, x = sum(len(word) + 1 for word in line.words), 0.0
    for i, (word, weight) in enumerate(zip(line.words, line.weights, strict=True)):
        is_current = i == line.current
        background = {} if is_current else {"bbox": {"facecolor": hexadecimal(blue(weight, dark=False)), "edgecolor": "none", "pad": 2}}
        colour = hexadecimal(red(dark=False)) if is_current else hexadecimal(ink(blue(weight, dark=False)))
        axes.text(x / total, 0.5, word, color=colour, va="center", transform=axes.transAxes, **background)
        x += len(word) + 1
