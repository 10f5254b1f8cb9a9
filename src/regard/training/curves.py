"""Plot scores of several models. Needs matplotlib (the `pictures` extra)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def draw_by_length(models: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> Path:
    """Plot BLEU of each model against source length, from the rows of `metrics.by_length`; SVG, PNG or PDF.

    Each point is at the (geometric) middle of its range of lengths, with a bar over the range; lengths are on a log scale, because the last
    range is wide.
    """
    from ..colours import HEADS, hexadecimal
    from ..plotting import blank, escape_dollars, figure_style, save_figure

    with figure_style(models):
        figure = blank(4.2, 2.6)
        axes = figure.subplots()
        for (name, rows), colour in zip(models.items(), map(hexadecimal, HEADS), strict=False):
            middles = [math.sqrt(row["least"] * row["most"]) for row in rows]
            ranges = [
                [m - row["least"] for m, row in zip(middles, rows, strict=True)],
                [row["most"] - m for m, row in zip(middles, rows, strict=True)],
            ]
            scores = [row["bleu"] for row in rows]
            axes.errorbar(middles, scores, xerr=ranges, color=colour, lw=1.2, marker="o", ms=3, elinewidth=0.5, label=escape_dollars(name))
        axes.set(xlabel="source tokens", ylabel="BLEU, lowercased", ylim=(0, None), xscale="log")
        least, most = (end(row[key] for rows in models.values() for row in rows) for end, key in ((min, "least"), (max, "most")))
        axes.set_xticks([n for n in _TICKS if least <= n <= most], minor=False)
        axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.legend(frameon=False)
        return save_figure(figure, path)
