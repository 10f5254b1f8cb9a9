"""Words of a question in the form an article writes them: other spellings and endings, and abbreviations the article defines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_IN_BRACKETS = re.compile(r"\(([^()\s]{2,10})\)")
_SHORTEST = 4  # letters of a word that is compared by its letters
_MOST = 4  # variants of a word
_SIMILAR, _SIMILAR_IF_ABSENT = 0.62, 0.5  # least similarity of variants; a word that the article does not have may be misspelt


def abbreviations(text: str) -> dict[str, str]:
    """Return the abbreviations that a text defines in brackets after their long form, in lower case.

    The letters of the abbreviation are found in the words before it, from right to left, the first at the beginning of a word (Schwartz
    and Hearst 2003, "A simple algorithm for identifying abbreviation definitions in biomedical text").

    >>> abbreviations("They had acute necrotizing encephalopathy (ANE) in May (2020), as did people with tuberculosis (TB).")
    {'ane': 'acute necrotizing encephalopathy', 'tb': 'tuberculosis'}
    """
    defined: dict[str, str] = {}
    for match in _IN_BRACKETS.finditer(text):
        short = match[1]
        if not short[0].isalnum() or not any(c.isupper() for c in short):
            continue
        before = text[max(0, match.start() - 120) : match.start()].split()[-min(len(short) + 5, 2 * len(short)) :]
        long = _long_form(short.lower(), " ".join(before).lower())
        if long is not None and len(long) > len(short):
            defined.setdefault(short.lower(), long)
    return defined


def _long_form(short: str, before: str) -> str | None:
    """Return the end of `before` in which the letters of `short` occur in order, or None."""
    place = len(before)
    for number, letter in reversed(list(enumerate(short))):
        if not letter.isalnum():
            continue
        place = before.rfind(letter, 0, place)
        while number == 0 and place > 0 and before[place - 1].isalnum():
            place = before.rfind(letter, 0, place)
        if place < 0:
            return None
    return before[place:]


@lru_cache(maxsize=1 << 16)
def _trigrams(word: str) -> frozenset[str]:
    """The triples of letters of a word and its two ends."""
    word = f"^{word}$"
    return frozenset(word[i : i + 3] for i in range(len(word) - 2))


def similarity(a: str, b: str) -> float:
    """Return the Dice coefficient of two words' triples of letters.

    >>> round(similarity("carageenan", "carrageenan"), 2), similarity("harbour", "lantern")
    (0.86, 0.0)
    """
    return 2 * len(_trigrams(a) & _trigrams(b)) / (len(_trigrams(a)) + len(_trigrams(b)))


def by_beginning(words: Iterable[str]) -> dict[str, list[str]]:
    """Group the different English words by their first two letters."""
    groups: dict[str, list[str]] = {}
    for word in dict.fromkeys(words):
        if len(word) >= _SHORTEST and word.isascii() and word.isalpha():
            groups.setdefault(word[:2], []).append(word)
    return groups


def variants(word: str, groups: dict[str, list[str]]) -> Sequence[str]:
    """Return the words of an article, grouped by their beginning, that are written like `word`, the most similar first.

    >>> variants("concamitant", by_beginning(["concomitant", "conclude", "harbour"]))
    ['concomitant']
    """
    if len(word) < _SHORTEST or not (word.isascii() and word.isalpha()):
        return []
    group = groups.get(word[:2], [])
    least = _SIMILAR if word in group else _SIMILAR_IF_ABSENT
    found = [(similarity(word, other), other) for other in group if other != word and abs(len(other) - len(word)) <= 4]
    return [other for value, other in sorted(found, reverse=True)[:_MOST] if value >= least]
