"""Split a text into sentences, or into parts short enough for a model."""

from __future__ import annotations

import re
from collections.abc import Callable

# Where a text may be split, best first: after sentences, after clauses, between words.
_BOUNDARIES = (r"(?<=[.!?;])\s+|(?<=[。！？；])|\n", r"(?<=[,:])\s+|(?<=[，：、])", r"\s+")


def split_sentences(text: str) -> tuple[str, ...]:
    """Split a text after its full stops and line ends.

    >>> split_sentences("Mary left. John stayed!\\nWho? 她走了。他没走。")
    ('Mary left.', 'John stayed!', 'Who?', '她走了。', '他没走。')
    """
    parts = re.split(r"(?<=[.!?])\s+|(?<=[。！？])|\n", text)
    return tuple(part.strip() for part in parts if part.strip())


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split a text into sentences, and sentences that do not fit into clauses, then words, then anywhere.

    fits: whether a part is short enough.

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
    if level == len(_BOUNDARIES):
        half = max(len(text) // 2, 1)
        return [text] if len(text) == 1 else [*_split(text[:half], fits, level), *_split(text[half:], fits, level)]
    pieces = re.split(f"({_BOUNDARIES[level]})", text)  # alternating with the text between them
    parts: list[str] = []
    for piece, gap in zip(pieces[::2], ["", *pieces[1::2]], strict=True):
        # Clauses and words are joined again as long as they fit; sentences are not.
        if level and parts and fits(parts[-1] + gap + piece):
            parts[-1] += gap + piece
        else:
            parts += _split(piece.strip(), fits, level + 1)
    return parts
