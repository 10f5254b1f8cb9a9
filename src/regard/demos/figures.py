"""The pictures of a demonstration on paper, in the library's colours: SVG, PNG or PDF. Needs matplotlib, the `pictures` extra."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.colours import HEADS, blue, hexadecimal, ink, red
from regard.demos.drawing import Bars, Board, Grid, Lines, Note, Picture, Table, Words
from regard.plotting import blank, figure_file, figure_style, ramp, save_figure
from regard.terminal import table


def save(board: Board, path: str | Path) -> Path:
    """Write the board as a figure; the file's ending says the kind."""
    target = figure_file(path)
    with figure_style(_texts(board)):
        heights = [_height(picture) for picture in board.pictures]
        figure = blank(6.9, 0.5 + sum(heights))
        figure.suptitle(board.title, fontsize=9, fontweight="bold", wrap=True)
        for axes, picture in zip(figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0], board.pictures, strict=True):
            _draw(axes, picture)
        return save_figure(figure, target)


def _texts(board: Board) -> Iterator[str]:
    """What will be written on the figure, so that fonts are chosen that know it."""
    yield board.title
    for picture in board.pictures:
        yield repr(picture)


def _height(picture: Picture) -> float:
    """Inches a picture needs."""
    if isinstance(picture, Grid):
        return 0.7 + 0.3 * len(picture.rows)
    if isinstance(picture, Table):
        return 0.3 + 0.16 * len(picture.rows)
    if isinstance(picture, Bars):
        return 0.5 + 0.22 * len(picture.values)
    return 2.2 if isinstance(picture, Lines) else 0.2 + 0.14 * (picture.text.count("\n") + 1) if isinstance(picture, Note) else 0.3


def _draw(axes: Any, picture: Picture) -> None:
    if isinstance(picture, Grid):
        _grid(axes, picture)
    elif isinstance(picture, Lines):
        for (name, values), colour in zip(picture.series.items(), HEADS, strict=False):
            axes.plot(picture.x, values, marker="o", markersize=3, label=name, color=hexadecimal(colour))
        axes.set(
            title=picture.title,
            xlabel=picture.x_name,
            xscale="log" if picture.log_x else "linear",
            yscale="log" if picture.log_y else "linear",
        )
        axes.legend(frameon=False)
    elif isinstance(picture, Bars):
        names = list(picture.values)
        axes.barh(names, list(picture.values.values()), color=hexadecimal(blue(0.8, dark=False)))
        axes.invert_yaxis()
        axes.set(title=picture.title, xlabel=picture.unit)
    else:
        axes.axis("off")
        if isinstance(picture, Words):
            _words(axes, picture)
        else:
            shown = picture.text if isinstance(picture, Note) else f"{picture.title}\n{table(picture.rows)}".strip()
            mono = {} if isinstance(picture, Note) else {"family": "monospace", "fontsize": 6.5}
            axes.text(0, 1, shown, va="top", transform=axes.transAxes, **mono)


def _grid(axes: Any, grid: Grid) -> None:
    picture = axes.imshow(grid.weights, cmap=ramp(), vmin=0, vmax=1, aspect="auto")
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
                shown = f"{weight:.2f}" if weight >= 0.005 else "·"
                axes.text(j, i, shown, ha="center", va="center", color=hexadecimal(ink(blue(weight, dark=False))), fontsize=7)
    if grid.title:
        axes.set_title(grid.title)
    axes.figure.colorbar(picture, ax=axes, shrink=0.9, pad=0.01)


def _words(axes: Any, line: Words) -> None:
    total, x = sum(len(word) + 1 for word in line.words), 0.0
    for i, (word, weight) in enumerate(zip(line.words, line.weights, strict=True)):
        here = i == line.current
        back = {} if here else {"bbox": {"facecolor": hexadecimal(blue(weight, dark=False)), "edgecolor": "none", "pad": 2}}
        colour = hexadecimal(red(dark=False)) if here else hexadecimal(ink(blue(weight, dark=False)))
        axes.text(x / total, 0.5, word, color=colour, va="center", transform=axes.transAxes, **back)
        x += len(word) + 1
