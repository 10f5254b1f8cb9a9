"""Units of Chinese and English text: Chinese characters, words, numbers, marks; their ids and their rarity.

A `UnitTable` is one JSON file: the units seen in training with the number of sentences that contain each, and the table that converts
traditional to simplified characters.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import read_json, write_text
from ..limits import check_count
from .chinese import folding_table

_CJK = "\u3400-\u9fff\uf900-\ufaff"
UNIT = re.compile(rf"[{_CJK}]|[^\W\d_{_CJK}]+|\d+(?:[.,]\d+)*|\S")
_HAN = re.compile(rf"[{_CJK}]")
FEATURES = 255  # of a skimmed sentence (`regard.text.skimming`)
_FIRST_FEATURES = 190  # of tables written before their number of features was
BUCKETS = 512  # ids shared by the units that are not in the table
_SUFFIXES = (
    *("izations", "ization", "ations", "ation", "ingly", "edly", "ments", "ment", "ities", "ity", "ness", "ions", "ion", "ives", "ive"),
    *("ally", "ing", "ies", "ied", "ers", "er", "est", "ous", "als", "al", "ly", "ed", "es", "s", "e", "y"),
)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Remove the longest known suffix of an English word, leaving at least three letters.

    >>> stem("transmission"), stem("transmitted"), stem("virus"), stem("国")
    ('transmiss', 'transmitt', 'viru', '国')
    """
    if len(word) > 3 and word.isascii():
        for suffix in _SUFFIXES:
            if word.endswith(suffix) and len(word) - len(suffix) >= 3:
                return word[: -len(suffix)]
    return word


class UnitTable:
    """The units of a training text.

    counts     unit → number of sentences that contain it
    sentences  number of sentences
    fold       traditional → simplified characters
    features   number of features a sentence is skimmed to with this table (`regard.text.skimming`)

    >>> table = UnitTable.count(["the cat", "the dog"], least=1)
    >>> table.ids(["the", "cat"]).tolist(), bool(table.rarity(table.ids(["the"])) < table.rarity(table.ids(["cat"])))
    ([1, 2], True)
    """

    def __init__(self, counts: dict[str, int], sentences: int, fold: dict[str, str], *, features: int = FEATURES) -> None:
        self.counts, self.sentences, self.fold, self.features = counts, sentences, fold, features
        self._translation = str.maketrans(fold)
        self._ids = {unit: i for i, unit in enumerate(counts, 1)}  # 0 is padding
        rarity = [math.log((1 + sentences) / (1 + count)) for count in counts.values()]
        unknown = math.log(1 + sentences)
        self._rarity = np.array([unknown, *rarity, *[unknown] * BUCKETS], dtype=np.float32) / np.float32(6)

    def __len__(self) -> int:
        """The number of ids: padding, the units, and the buckets of unknown units."""
        return 1 + len(self.counts) + BUCKETS

    @classmethod
    def count(cls, sentences: Iterable[str], *, least: int = 3, simplify: bool = False, size: int = 9000) -> UnitTable:
        """Count the units of sentences; keep those in at least `least` sentences (words: twice as many), at most `size`."""
        fold = folding_table() if simplify else {}
        translation = str.maketrans(fold)
        counts: Counter[str] = Counter()
        number = 0
        for number, sentence in enumerate(sentences, 1):  # noqa: B007 (the last number is used below)
            counts.update(set(UNIT.findall(sentence.lower().translate(translation))))
        kept = [(unit, n) for unit, n in counts.items() if n >= (least if len(unit) == 1 else 2 * least - 1)]
        kept = sorted(kept, key=lambda item: (-item[1], item[0]))[:size]
        known = {unit for unit, _ in kept}
        return cls(dict(kept), number, {old: new for old, new in fold.items() if new in known})

    def with_all_features(self) -> UnitTable:
        """Return the same units for skimming with all features of this version."""
        return UnitTable(self.counts, self.sentences, self.fold)

    def normal(self, text: str) -> str:
        """Return a text in lower case and simplified characters; its units keep their order."""
        text = text.lower()
        return text.translate(self._translation) if _HAN.search(text) else text

    def ids(self, units: Iterable[str]) -> NDArray[np.int64]:
        """Return the ids of normalised units; an unknown unit has that of its bucket."""
        get, first = self._ids.get, 1 + len(self.counts)
        return np.array([get(unit) or first + zlib.crc32(unit.encode()) % BUCKETS for unit in units], dtype=np.int64)

    def rarity(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the inverse document frequency of ids, log((1 + sentences) / (1 + count)) / 6."""
        rarity: NDArray[np.float32] = self._rarity[ids]
        return rarity

    def save(self, path: str | Path) -> None:
        """Write the table to a file."""
        content = {"regard": "units", "features": self.features, "sentences": self.sentences, "fold": self.fold, "counts": self.counts}
        write_text(path, json.dumps(content, ensure_ascii=False))

    @classmethod
    def load(cls, path: str | Path) -> UnitTable:
        """Read a table written by `save`."""
        content: Any = read_json(path)
        if content.get("regard") != "units":
            raise ValueError(f'{path} is not a table of units: expected "regard": "units" in it')
        counts, sentences, fold = (content.get(key) for key in ("counts", "sentences", "fold"))
        is_fold = isinstance(fold, dict) and all(len(old) == 1 and isinstance(new, str) for old, new in fold.items())
        if not isinstance(counts, dict) or not is_fold:
            raise ValueError(f"{path} is not a table of units: counts or fold is missing or of another type")
        for name, count in (("sentences", sentences), *counts.items()):
            check_count(f"{path}: the count of {name!r}", count)
        features = content.get("features", _FIRST_FEATURES)
        if features not in (_FIRST_FEATURES, FEATURES):
            raise ValueError(
                f"{path} is for {features!r} features a sentence; this version of regard computes {_FIRST_FEATURES} or {FEATURES}"
            )
        return cls(counts, sentences, fold, features=features)
