"""The alignment of a translation as an interactive HTML page: a heat map, and two rows of words joined by lines.

Axes: T target words (queries), S source words (keys).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .payload import pair_payload
from .report import page


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
