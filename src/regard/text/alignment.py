"""Alignments joined to whole words, and drawn in a terminal: target words across, source words down."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

import torch
from torch import Tensor

from .vocabulary import Word

_ASCII = " .:-=+*#%@"


def word_alignment(weights: Tensor, target: Sequence[Word], source: Sequence[Word]) -> Tensor:
    """Weights between pieces (T, S) as weights between words: summed over a source word's pieces, averaged over a target word's.

    A row of target weights keeps its sum, so what falls outside every source word (the end mark) stays missing.

    >>> w = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
    >>> word_alignment(w, [Word("ab", 0, 2)], [Word("x", 0, 1), Word("yz", 1, 3)])
    tensor([[0.2500, 0.7500]])
    """
    rows = [weights[w.start : w.stop].mean(dim=0) for w in target]
    if not rows or not source:
        return weights.new_zeros(len(target), len(source))
    return torch.stack([torch.stack([row[w.start : w.stop].sum() for w in source]) for row in rows])


def draw(weights: Tensor, target: Sequence[str], source: Sequence[str], *, colour: bool = False, dark: bool = True) -> str:
    """An alignment (T, S) as text: one line a source word, one column a target word, each line's greatest weight at its end.

    colour  24-bit blocks, blue growing from the background; otherwise plain ASCII shades " .:-=+*#%@".
    dark    the terminal's background is dark (the ramp then grows brighter, not deeper).

    >>> print(draw(torch.tensor([[0.97, 0.03], [0.1, 0.9]]), ["I", "love"], ["我", "爱"]))
         I  love
    我  @@   ..   0.97
    爱       %%   0.90
    """
    left = max((_width(s) for s in source), default=0)
    widths = [max(_width(t), 2) for t in target]
    lines = [_pad("", left) + "  " + "  ".join(_pad(t, w, centre=w == 2) for t, w in zip(target, widths, strict=True))]
    for j, word in enumerate(source):
        cells = []
        for i, width in enumerate(widths):
            weight = float(weights[i, j])
            lead = (width - 2) // 2 if width > 3 else 0
            cells.append(" " * lead + _cell(weight, colour, dark) + " " * (width - 2 - lead))
        peak = float(weights[:, j].max()) if len(target) else 0.0
        lines.append(f"{_pad(word, left)}  {'  '.join(cells)}  {peak:.2f}")
    return "\n".join(line.rstrip() for line in lines)


def _cell(weight: float, colour: bool, dark: bool) -> str:
    weight = min(max(weight, 0.0), 1.0)
    if not colour:
        return _ASCII[min(round(weight * (len(_ASCII) - 1)), len(_ASCII) - 1)] * 2
    if weight < 0.02:  # nothing to see is the background itself
        return "  "
    r, g, b = _blue(weight, dark)
    return f"\x1b[38;2;{r};{g};{b}m██\x1b[0m"


def _blue(weight: float, dark: bool) -> tuple[int, int, int]:
    """The library's ramp of weights: one hue in OKLCH, lightness even in the weight."""
    start, stop = (0.25, 0.80) if dark else (0.97, 0.40)
    lightness = start + (stop - start) * weight
    chroma = 0.14 * math.sin(math.pi * min(weight, 0.75) / 1.5)
    return _oklch(lightness, chroma, 255.0)


def _oklch(lightness: float, chroma: float, hue: float) -> tuple[int, int, int]:
    """OKLCH to sRGB bytes (Ottosson 2020, "A perceptual color space for image processing")."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    )
    shown = [12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in (min(max(c, 0.0), 1.0) for c in linear)]
    return (round(255 * shown[0]), round(255 * shown[1]), round(255 * shown[2]))


def _width(text: str) -> int:
    """Columns a text takes: wide (Chinese) characters take two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _pad(text: str, width: int, *, centre: bool = False) -> str:
    room = width - _width(text)
    lead = room - room // 2 if centre else 0
    return " " * lead + text + " " * (room - lead)
