"""Alignments between words: weights of tokens joined to weights of words, and drawn in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..terminal import Pen, columns, pad
from .vocabulary import Word


def word_alignment(weights: Tensor, target: Sequence[Word], source: Sequence[Word]) -> Tensor:
    """Convert weights between tokens (T, S) to weights between words: summed over a source word, averaged over a target word.

    Weight on tokens outside every source word (such as </s>) is not redistributed, so rows may sum to less than 1.

    weights: between tokens, (T, S).
    target, source: the words of each text, with the positions of their tokens.

    Returns weights (target words, source words).

    >>> w = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
    >>> word_alignment(w, [Word("ab", 0, 2)], [Word("x", 0, 1), Word("yz", 1, 3)])
    tensor([[0.2500, 0.7500]])
    """
    rows = [weights[w.start : w.stop].mean(dim=0) for w in target]
    if not rows or not source:
        return weights.new_zeros(len(target), len(source))
    return torch.stack([torch.stack([row[w.start : w.stop].sum() for w in source]) for row in rows])


def draw(weights: Tensor, target: Sequence[str], source: Sequence[str], *, colour: bool = False, dark: bool = True) -> str:
    """Draw an alignment (T, S) as text: a line per target word, a column per source word, as on the page.

    At the end of a line stands its largest weight with the source word it is on.

    weights: attention of each target word on the source words, (T, S).
    target, source: their words.
    colour: 24-bit blocks, from the background to blue; otherwise plain ASCII shades " .:-=+*#%@".
    dark: whether the terminal's background is dark (large weights are then brighter, not darker).

    Returns the lines as one text.

    >>> print(draw(torch.tensor([[0.97, 0.03], [0.1, 0.9]]), ["I", "love"], ["我", "爱"]))
          我  爱  largest weight
    I     @@      0.97 我
    love  ..  %%  0.90 爱
    """
    pen = Pen(colour, dark)
    left = max((columns(t) for t in target), default=0)
    widths = [max(columns(s), 2) for s in source]
    names = "  ".join(pad(s, w, "centre" if w == 2 else "left") for s, w in zip(source, widths, strict=True))
    lines = [f"{pad('', left)}  {names}  largest weight"]
    for i, word in enumerate(target):
        cells = []
        for j, width in enumerate(widths):
            lead = (width - 2) // 2 if width > 3 else 0
            cells.append(" " * lead + pen.cell(float(weights[i, j])) + " " * (width - 2 - lead))
        best = int(weights[i].argmax()) if len(source) else -1
        largest = f"  {float(weights[i, best]):.2f} {source[best]}" if best >= 0 else ""
        lines.append(f"{pad(word, left)}  {'  '.join(cells)}{largest}")
    return "\n".join(line.rstrip() for line in lines)
