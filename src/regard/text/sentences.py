"""A text cut into sentences, and a long one into parts that fit."""

from __future__ import annotations

import re
from collections.abc import Callable

# Where a text may be cut, best first: after sentences, after clauses, between words.
_CUTS = (r"(?<=[.!?;])\s+|(?<=[。！？；])|\n", r"(?<=[,:])\s+|(?<=[，：、])", r"\s+")


def split_sentences(text: str) -> tuple[str, ...]:
    """A text cut after its full stops and line ends.

    >>> split_sentences("Mary left. John stayed!\\nWho? 她走了。他没走。")
    ('Mary left.', 'John stayed!', 'Who?', '她走了。', '他没走。')
    """
    parts = re.split(r"(?<=[.!?])\s+|(?<=[。！？])|\n", text)
    return tuple(part.strip() for part in parts if part.strip())


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """A text as the fewest cuts allow: sentences, and where one does not fit, clauses, then words, then anywhere.

    >>> split_to_fit("One two. Three four five, six.", lambda part: len(part) <= 16)
    ['One two.', 'Three four five,', 'six.']
    >>> split_to_fit("abcdefgh", lambda part: len(part) <= 3)
    ['ab', 'cd', 'ef', 'gh']
    """
    return _split(text.strip(), fits, 0)


def _split(text: str, fits: Callable[[str], bool], level: int) -> list[str]:
    if not text:
        return []
    if level and fits(text):
        return [text]
    if level == len(_CUTS):
        half = max(len(text) // 2, 1)
        return [text] if len(text) == 1 else [*_split(text[:half], fits, level), *_split(text[half:], fits, level)]
    pieces = re.split(f"({_CUTS[level]})", text)  # with what stands between them
    parts: list[str] = []
    for piece, gap in zip(pieces[::2], ["", *pieces[1::2]], strict=True):
        # Words and clauses are put together again as far as they fit; sentences stay apart.
        if level and parts and fits(parts[-1] + gap + piece):
            parts[-1] += gap + piece
        else:
            parts += _split(piece.strip(), fits, level + 1)
    return parts
