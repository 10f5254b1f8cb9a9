"""Word alignments by hand, and how far an alignment is from them.

`zh-en-alignments.tsv`, beside this file, has 100 Chinese–English sentence pairs of Tatoeba (CC BY 2.0 FR; each line names its authors)
that the shipped translators were not trained on, aligned by hand in two passes: the words of both sides, the links, the attribution. A
Chinese character is a word. A link i-j joins source word i and target word j: "i-j" is sure, "i?j" possible (function words without a
clear counterpart, parts of a contraction, idioms).

Axes: S source words, T target words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .pairs import decode_lines, read_lines

Link = tuple[int, int]  # source word, target word


@dataclass(frozen=True)
class Aligned:
    """A sentence pair with its links by hand. `possible` contains the sure links too."""

    source: list[str]
    target: list[str]
    sure: frozenset[Link]
    possible: frozenset[Link]
    attribution: str = ""


def words_of(text: str) -> list[str]:
    """Split a text into words as the alignments do: Chinese characters, runs of letters and digits, punctuation marks.

    >>> words_of("我7点起床, isn't it?")
    ['我', '7', '点', '起', '床', ',', 'isn', "'", 't', 'it', '?']
    """
    return re.findall(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff_]+|[^\w\s]", text)


def read_alignments(path: str | Path | None = None) -> list[Aligned]:
    """Read aligned pairs from a TSV file: source words, target words, links, attribution (optional); None: the 100 pairs of the package."""
    if path is None:
        name = "zh-en-alignments.tsv"
        lines = decode_lines((files("regard.text") / name).read_bytes(), name)
    else:
        name, lines = str(path), read_lines(path)
    result = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < 3:
            raise ValueError(f"{name}:{number}: {len(cells)} column(s); expected source words, target words and links, separated by tabs")
        source, target = cells[0].split(), cells[1].split()
        sure, possible = set(), set()
        for item in cells[2].split():
            match = re.fullmatch(r"(\d+)([-?])(\d+)", item)
            if match is None or int(match[1]) >= len(source) or int(match[3]) >= len(target):
                shape = f"{len(source)} source and {len(target)} target words"
                raise ValueError(f"{name}:{number}: {item!r} is not a link of {shape}; expected 0-1 (sure) or 0?1 (possible)")
            link = int(match[1]), int(match[3])
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        result.append(Aligned(source, target, frozenset(sure), frozenset(possible), cells[3] if len(cells) > 3 else ""))
    if not result:
        raise ValueError(f"{name}: it has no aligned pairs")
    return result


def error_rate(alignments: Sequence[Collection[Link]], wanted: Sequence[Aligned]) -> float:
    """Return the alignment error rate 1 − (|A∩S| + |A∩P|) / (|A| + |S|) over all pairs (Och and Ney 2003, section 5).

    >>> pair = Aligned(["a", "b"], ["x", "y"], frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))
    >>> error_rate([{(0, 0), (1, 1)}], [pair]), error_rate([{(0, 1)}], [pair])
    (0.0, 1.0)
    """
    links = [set(row) for row in alignments]
    hits = sum(len(row & pair.sure) + len(row & pair.possible) for row, pair in zip(links, wanted, strict=True))
    total = sum(len(row) + len(pair.sure) for row, pair in zip(links, wanted, strict=True))
    return 1.0 - hits / max(total, 1)


def diagonal(pair: Aligned) -> set[Link]:
    """Return the links of a straight line: each target word to the source word at the same relative position."""
    S, T = len(pair.source), len(pair.target)
    return {(min(int((j + 0.5) * S / T), S - 1), j) for j in range(T)}


class CountedAlignment:
    """Word translation probabilities from counts, with a preference for the diagonal: what fast_align does.

        p(t_j aligned to i) ∝ exp(−λ |i/S − j/T|) · p(t_j | s_i),     p(null) = 0.08

    p(t | s) is estimated by expectation maximisation over the training pairs (IBM Model 1 with that prior); λ is fixed.

    Dyer et al. 2013, "A Simple, Fast, and Effective Reparameterization of IBM Model 2".
    """

    def __init__(self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]], *, rounds: int = 5, tension: float = 4.0) -> None:
        self.tension = tension
        self._sources, self._targets = _Numbers([""]), _Numbers()  # "": aligned to nothing
        places, words, priors, lengths = [], [], [], []
        for source, target in pairs:
            place, word = self._sources.of(["", *source]), self._targets.of(target)
            places.append(np.tile(place, len(word)))
            words.append(np.repeat(word, len(place)))
            priors.append(self._prior(len(source), len(target)).ravel())
            lengths.append(np.full(len(word), len(place)))
        count = max(len(self._targets), 1)
        # One entry per candidate: a target word of a pair and a place it may be aligned to; `of_word` numbers the target words.
        keys, prior = (
            np.concatenate([[], *places]).astype(np.int64) * count + np.concatenate([[], *words]).astype(np.int64),
            np.concatenate([[], *priors]),
        )
        of_word = np.repeat(np.arange(sum(map(len, lengths))), np.concatenate([[], *lengths]).astype(np.int64))
        known, key = np.unique(keys, return_inverse=True)
        probability = np.full(len(known), 1.0 / count)
        for _ in range(rounds):
            weight = prior * probability[key]
            weight /= np.bincount(of_word, weight)[of_word]
            counts = np.bincount(key, weight, len(known))
            totals = np.bincount(known // count, counts, len(self._sources))
            probability = (counts + 0.01) / (totals[known // count] + 0.01 * count)
        self._table = dict(zip(known.tolist(), probability.tolist(), strict=True))
        self._unknown = 1e-7 if rounds else 1.0 / count

    def _prior(self, S: int, T: int) -> NDArray[np.float64]:
        """Return the probability of each target word to be aligned to nothing and to each source word, by position alone, (T, S + 1)."""
        distance = (np.arange(S) + 0.5) / max(S, 1) - ((np.arange(T) + 0.5) / max(T, 1))[:, None]
        near = np.exp(-self.tension * np.abs(distance))
        return np.hstack([np.full((T, 1), 0.08), 0.92 * near / near.sum(1, keepdims=True)])

    def links(self, source: Sequence[str], target: Sequence[str]) -> set[Link]:
        """Return the most probable source word of each target word; words that are best aligned to nothing have no link."""
        places = [self._sources.get(word, -1) for word in ("", *source)]
        words = [self._targets.get(word, -1) for word in target]
        count = max(len(self._targets), 1)
        table = [[self._table.get(i * count + j, self._unknown) if i >= 0 and j >= 0 else self._unknown for i in places] for j in words]
        best = (self._prior(len(source), len(target)) * np.array(table).reshape(len(words), len(places))).argmax(1)
        return {(int(i) - 1, j) for j, i in enumerate(best) if i}


class _Numbers(dict[str, int]):
    """Words numbered in the order in which they are first met."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        super().__init__()
        self.of(words)

    def of(self, words: Iterable[str]) -> NDArray[np.int64]:
        return np.array([self.setdefault(word, len(self)) for word in words], dtype=np.int64)
