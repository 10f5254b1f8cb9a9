"""Scores of several models side by side as a picture. Needs matplotlib, the `pictures` extra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def draw_by_length(models: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> Path:
    """BLEU of each model against the length of the source, from the rows of `metrics.by_length`; SVG, PNG or PDF.

    Each point stands at the middle of its group of lengths, with a line over the lengths it holds.
    """
    from ..colours import HEADS, hexadecimal
    from ..sight.paper import blank, house_style, plain, save_figure

    with house_style(models):
        figure = blank(4.2, 2.6)
        axes = figure.subplots()
        for (name, rows), colour in zip(models.items(), map(hexadecimal, HEADS), strict=False):
            middles = [(row["least"] + row["most"]) / 2 for row in rows]
            reach = [(row["most"] - row["least"]) / 2 for row in rows]
            scores = [row["bleu"] for row in rows]
            axes.errorbar(middles, scores, xerr=reach, color=colour, lw=1.2, marker="o", ms=3, elinewidth=0.5, label=plain(name))
        axes.set(xlabel="source tokens", ylabel="BLEU, lowercased", ylim=(0, None))
        axes.legend(frameon=False)
        return save_figure(figure, path)
