"""The alignment of a translation as an interactive HTML page: a heat map, and two rows of words joined by lines.

Axes: T target words (queries), S source words (keys).
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from .payload import pair_payload
from .report import frame, page


def alignment_html(
    weights: Tensor, target: Sequence[str], source: Sequence[str], *, title: str = "", lang: str | None = None, theme: str | None = None
) -> str:
    """Return a self-contained HTML page that shows weights (T, S): each row is a target word's attention over the source words.

    >>> import torch
    >>> text = alignment_html(torch.tensor([[0.9, 0.1], [0.1, 0.9]]), ["I", "love"], ["我", "爱"], title="我爱")
    >>> text.startswith("<!doctype html>") and "爱" in text
    True
    """
    return page(pair_payload(weights, target, source, title=title), lang=lang, theme=theme, alignment=True)


def alignment_frame(weights: Tensor | None, target: Sequence[str], source: Sequence[str], *, title: str = "") -> str:
    """Return the page in an iframe for a notebook; without weights only the title."""
    if weights is None or not len(target) or not len(source):
        return f"<p>{html.escape(title)}</p>"
    height = min(500 + 36 * len(target), 860)  # lines and table, below each other where the notebook is narrow
    return frame(alignment_html(weights, target, source, title=title), height=height)


def save_alignment(weights: Tensor, target: Sequence[str], source: Sequence[str], path: Path, *, title: str = "") -> Path:
    """Write weights (T, S) as a figure, .svg, .png or .pdf: two rows of words joined by lines."""
    from regard.plotting import save_figure

    from .word_figures import alignment_lines

    return save_figure(alignment_lines(weights, target, source, title=title), path)
