"""Scores of several models side by side as a picture. Needs matplotlib, the `pictures` extra."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def draw_by_length(models: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> Path:
    """BLEU of each model against the length of the source, from the rows of `metrics.by_length`; SVG, PNG or PDF.

    Each point stands at the middle of its group of lengths, with a line over the lengths it holds; lengths on a log scale, because the last
    group reaches far.
    """
    from ..colours import HEADS, hexadecimal
    from ..plotting import blank, escape_dollars, figure_style, save_figure

    with figure_style(models):
        figure = blank(4.2, 2.6)
        axes = figure.subplots()
        for (name, rows), colour in zip(models.items(), map(hexadecimal, HEADS), strict=False):
            middles = [math.sqrt(row["least"] * row["most"]) for row in rows]
            reach = [
                [m - row["least"] for m, row in zip(middles, rows, strict=True)],
                [row["most"] - m for m, row in zip(middles, rows, strict=True)],
            ]
            scores = [row["bleu"] for row in rows]
            axes.errorbar(middles, scores, xerr=reach, color=colour, lw=1.2, marker="o", ms=3, elinewidth=0.5, label=escape_dollars(name))
        axes.set(xlabel="source tokens", ylabel="BLEU, lowercased", ylim=(0, None), xscale="log")
        least, most = (end(row[key] for rows in models.values() for row in rows) for end, key in ((min, "least"), (max, "most")))
        axes.set_xticks([n for n in _TICKS if least <= n <= most], minor=False)
        axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.legend(frameon=False)
        return save_figure(figure, path)
