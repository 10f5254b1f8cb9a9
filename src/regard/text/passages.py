"""Sentences of an article as the inputs of a span reader: ids of their units, and how each unit relates to the question.

Axes: N units of the chosen sentences, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from ..models.article_reader import QUESTION_FEATURES, UNIT_FEATURES, Passages
from .skimming import SkimmedArticle
from .units import UNIT, UnitTable, stem

LONGEST = 128  # units of a sentence that are read
LONGEST_QUESTION = 60
_OPENING, _CLOSING = frozenset("《「『“（(【"), frozenset("》」』”）)】")

Bools = NDArray[np.bool_]


def passages(asked: Sequence[tuple[SkimmedArticle, str, Sequence[int]]]) -> Passages:
    """Return the chosen sentences of articles, each with its question: (article, question, indices of sentences).

    >>> table = UnitTable.count(["the cat sat", "a dog ran"], least=1)
    >>> passages([(SkimmedArticle("The cat sat. A dog ran!", table), "Who sat?", [0, 1])]).units.shape
    torch.Size([2, 4])
    """
    questions, rows, owner = [], [], []
    for number, (article, question, sentences) in enumerate(asked):
        normal = UNIT.findall(article.table.normal(question))[:LONGEST_QUESTION]
        if not normal:
            raise ValueError(f"the question {question!r} has no words; ask with at least one word")
        spans = [article.units_in(sentence)[:LONGEST] for sentence in sentences]
        units = [article.normal[i] for span in spans for i in span]
        ids = article.table.ids(units)
        asked_ids = article.table.ids(normal)
        surface = [article.surface[i] for span in spans for i in span]
        sizes = np.array([len(span) for span in spans], dtype=np.int64)
        features = _unit_features(surface, units, ids, sizes, normal, asked_ids, article.table)
        present = np.array([unit in article.vocabulary for unit in normal], dtype=np.float32)
        known = np.stack([article.table.rarity(asked_ids), present], 1)
        questions.append((asked_ids, known))
        ends = np.cumsum(sizes).tolist()
        rows += [(ids[end - size : end], features[end - size : end]) for size, end in zip(sizes.tolist(), ends, strict=True)]
        owner += [number] * len(spans)
    question_ids, question_features, question_lengths = _padded(questions, QUESTION_FEATURES)
    unit_ids, unit_features, lengths = _padded(rows, UNIT_FEATURES)
    return Passages(question_ids, question_features, question_lengths, unit_ids, unit_features, lengths, torch.tensor(owner))


def _padded(rows: Sequence[tuple[NDArray[np.int64], NDArray[np.float32]]], width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return rows of (ids, features) as ids (N, W), features (N, W, width) and lengths (N,)."""
    longest = max(len(ids) for ids, _ in rows)
    ids = np.zeros((len(rows), longest), dtype=np.int64)
    features = np.zeros((len(rows), longest, width), dtype=np.float32)
    for n, (row, row_features) in enumerate(rows):
        ids[n, : len(row)], features[n, : len(row)] = row, row_features
    return torch.from_numpy(ids), torch.from_numpy(features), torch.tensor([len(row) for row, _ in rows])


def _unit_features(
    surface: Sequence[str],
    units: Sequence[str],
    ids: NDArray[np.int64],
    sizes: NDArray[np.int64],
    question: Sequence[str],
    question_ids: NDArray[np.int64],
    table: UnitTable,
) -> NDArray[np.float32]:
    """Return what is known of each unit beside its id: (N, UNIT_FEATURES)."""
    N, sentence = len(units), np.repeat(np.arange(len(sizes)), sizes)
    asked, asked_stems = set(question), {stem(unit) for unit in question}
    pairs = set(pairwise(question))
    word = _marks(unit[0].isalnum() for unit in units)
    matched = _marks(unit in asked for unit in units) & word
    stems = _marks(stem(unit) in asked_stems for unit in units) & word
    paired = _marks(pair in pairs for pair in pairwise(units)) & (sentence[1:] == sentence[:-1])
    right, left = np.append(paired, False), np.insert(paired, 0, False)[:N]
    rarity = table.rarity(ids)
    strong = left | right | (matched & (rarity > 0.5))
    first, last = (np.cumsum(sizes) - sizes)[sentence], (np.cumsum(sizes) - 1)[sentence]
    before, after = _nearness(strong, first, last)
    place = np.arange(N)
    opening, closing = _marks(unit in _OPENING for unit in surface), _marks(unit in _CLOSING for unit in surface)
    change = opening.astype(int) - np.insert(closing, 0, False)[:N]  # a closing bracket is still inside
    depth = np.cumsum(change)
    depth = depth - (depth - change)[first]  # brackets left open end with their sentence
    covered = np.bincount(sentence, weights=rarity * strong, minlength=len(sizes)) / (float(table.rarity(question_ids).sum()) + 1e-6)
    columns = [matched, stems, left, right, left & right, matched * rarity, rarity]
    columns += [_marks(unit[0].isdigit() for unit in units), _marks(unit[0].isascii() and unit[0].isalpha() for unit in units)]
    columns += [_marks(unit[0].isupper() for unit in surface), ~word, np.clip(depth, 0, 2), before, after]
    columns += [np.log1p(place - first) / 4, np.log1p(last - place) / 4, covered[sentence], np.ones(N)]
    return np.stack(columns, 1).astype(np.float32)


def _nearness(marked: Bools, first: NDArray[np.int64], last: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return exp(−distance / 4) to the nearest marked unit before and after each unit, in its sentence [first, last]."""
    far = 10**6
    place = np.arange(len(marked))
    before = np.maximum.accumulate(np.where(marked, place, -far))
    after = np.minimum.accumulate(np.where(marked, place, far)[::-1])[::-1]
    before, after = np.where(before < first, -far, before), np.where(after > last, far, after)
    return np.exp((before - place) / 4), np.exp((place - after) / 4)


def _marks(values: Iterable[bool]) -> Bools:
    return np.fromiter(values, dtype=bool)
