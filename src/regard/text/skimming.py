"""Skim an article for a question: numbers that say how each sentence matches it, cheap enough to compute for every sentence.

Each sentence is compared with the question by its units (`regard.text.units`), by their stems, and by their stems and variants (other
spellings, abbreviations; `regard.text.variants`): how much of the question it contains (weighted by rarity, in the article and in the
language), in the same order, close together, and how its neighbours and paragraph do. Further features are numbers, names and the kind of
question, and the sentence's own length and place.

Axes: n sentences, N units of the article, K different units of the question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .articles import Sentence, split_article
from .units import UNIT, UnitTable, stem
from .variants import abbreviations, by_beginning, variants

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_ENGLISH = (
    "a an the of in on at to for from by with and or is are was were be been being do does did has have had that this these those it its"
    " as what which who whom whose when where why how many much can could will would should may might not no than then there their they"
    " we our i you your he she his her"
)
_CHINESE = "的了是在有和与及之为于哪什么谁何多少几呢吗嘛一个被将也而其中以这那年月日否由因"
_FUNCTION_WORDS = frozenset([*_ENGLISH.split(), *_CHINESE])

# Kinds of questions, in simplified Chinese and English.
_KINDS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bwho\b|\bwhom\b|whose|谁|哪位|何人|哪个人|哪一位",
        r"\bwhen\b|what year|which year|what date|何时|什么时候|哪年|哪一年|年份|几月|哪天|时间|几年",
        r"\bwhere\b|哪里|何处|哪儿|哪个|地方|位于",
        r"how (?:many|much|long|often|far|old|large)|percent|proportion|rate\b|number|多少|几|多大|多高|多长",
        r"\bwhy\b|reason|为什么|为何|原因|因为|怎么会",
        r"\bhow\b|如何|怎么|怎样",
        r"\bwhat\b|什么|何|哪",
        r"\bwhich\b|哪",
        r"^(?:is|are|was|were|do|does|did|can|could|has|have|will|should)\b",
        r"name|名字|名称|叫什么|叫做|称为",
    )
)
_WHO, _WHEN, _WHERE, _COUNT, _WHY, _HOW, _WHAT, _, _, _NAME = range(len(_KINDS))

_MONTHS = "january february march april may june july august september october november december"

# What a unit is, as bits; those of a sentence's units together are what the sentence contains.
_WORD, _DIGIT, _UPPER, _LATIN, _COMMA = (1 << bit for bit in range(5))
_SIGNS = (
    frozenset(".。!?！？"),
    frozenset("%％"),
    frozenset("(（"),
    frozenset(":："),
    frozenset('《「“"'),
    frozenset([*"因由致故", "because", "due", "cause", "caused", "causes", "result", "results", "therefore", "thus", "leads", "led"]),
    frozenset([*"称指叫即", "is", "are", "defined", "known", "called", "named", "term", "refers"]),
    frozenset([*"例括等", "such", "including", "include", "includes", "example"]),
    frozenset(["http", "https", "doi", "figure", "fig", "table", "license", "authors", "copyright"]),
    frozenset([*"年月日", *_MONTHS.split()]),
    frozenset(["we", "our"]),
)
_PERCENT, _CAUSE, _DEFINITION, _DATE, _WE, _YEAR = 1, 5, 6, 9, 10, len(_SIGNS)
_FIRST_SIGN = 5  # the bit of the first sign


@lru_cache(maxsize=1 << 16)
def _bits(unit: str, normal: str) -> int:
    """What a unit is: a word, a number, capitalised, Latin, a comma, and the signs it is one of."""
    first = unit[0]
    bits = _WORD * first.isalnum() | _DIGIT * first.isdigit() | _UPPER * first.isupper() | _LATIN * (first.isascii() and first.isalpha())
    bits |= _COMMA * (unit in ",，、")
    for number, sign in enumerate(_SIGNS):
        bits |= (normal in sign) << (_FIRST_SIGN + number)
    return bits | (first.isdigit() and len(unit) == 4 and "1500" <= unit < "2100") << (_FIRST_SIGN + _YEAR)


@dataclass(frozen=True)
class _Coded:
    """A sequence of strings as numbers: `different` are the different ones, `codes` (N,) which of them stands at each place."""

    different: list[str]
    codes: Ints

    @classmethod
    def of(cls, strings: Sequence[str]) -> _Coded:
        index = {string: code for code, string in enumerate(dict.fromkeys(strings))}
        return cls(list(index), np.fromiter(map(index.__getitem__, strings), dtype=np.int64, count=len(strings)))

    def mapped(self, to: Sequence[str]) -> _Coded:
        """Return the same sequence with `to[i]` in the place of `different[i]`."""
        merged = _Coded.of(to)
        return _Coded(merged.different, merged.codes[self.codes])

    @cached_property
    def code(self) -> dict[str, int]:
        """String → its code."""
        return {string: code for code, string in enumerate(self.different)}

    def numbered(self, numbers: dict[str, int]) -> Ints:
        """Return the number of the string at each place, −1 for a string without one: (N,)."""
        of_code = np.full(len(self.different), -1, dtype=np.int64)
        for string in numbers.keys() & self.code.keys():
            of_code[self.code[string]] = numbers[string]
        return of_code[self.codes]


class SkimmedArticle:
    """An article cut into sentences and units, ready to be compared with questions.

    sentences   the sentences
    surface     the units as written, flat (N,); `normal` the same in lower case and simplified characters
    bounds      (n + 1,), the units of sentence i are bounds[i] … bounds[i + 1] − 1
    """

    def __init__(self, text: str, table: UnitTable) -> None:
        self.text, self.table = text, table
        self.sentences: tuple[Sentence, ...] = split_article(text)
        rows = [UNIT.findall(text, sentence.start, sentence.stop) for sentence in self.sentences]
        self.surface: list[str] = list(chain.from_iterable(rows))
        self.units = _Coded.of(self.surface)
        # of each different unit; splitting an empty text would give one unit
        self.normal_of = table.normal("\n".join(self.units.different)).split("\n") if self.surface else []
        self.normal = list(map(dict(zip(self.units.different, self.normal_of, strict=True)).__getitem__, self.surface))
        self.bounds = np.concatenate([[0], np.cumsum(np.array([len(row) for row in rows], dtype=np.int64))])

    def places(self, sentence: int) -> list[tuple[int, int]]:
        """The places [start, stop) in the text of the units of a sentence."""
        return [match.span() for match in UNIT.finditer(self.text, self.sentences[sentence].start, self.sentences[sentence].stop)]

    def units_in(self, sentence: int) -> range:
        """The units of a sentence, as a range of positions."""
        return range(int(self.bounds[sentence]), int(self.bounds[sentence + 1]))

    @cached_property
    def abbreviations(self) -> list[tuple[list[str], list[str]]]:
        """The stems of each abbreviation that the article defines, and those of its long form without function words."""
        defined = []
        for forms in abbreviations(self.text).items():
            short, long = (
                [stem(unit) for unit in UNIT.findall(form) if unit[0].isalnum() and unit not in _FUNCTION_WORDS] for form in forms
            )
            if short and long:
                defined.append((short, long))
        return defined

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The different units of the article."""
        return frozenset(self.normal_of)

    @cached_property
    def words(self) -> _Words:
        """What skimming needs of the article for any question, computed once."""
        return _Words(self)


class _Words:
    """The words and characters of an article without its marks, with what does not depend on the question."""

    def __init__(self, article: SkimmedArticle) -> None:
        n = len(article.sentences)
        units = article.units
        bits = np.array(list(map(_bits, units.different, article.normal_of)), dtype=np.int64)[units.codes]
        word = bits & _WORD > 0
        self.contains: Ints = np.bitwise_or.reduceat(bits, article.bounds[:-1])  # (n,): every sentence has a unit
        self.commas: Floats = np.add.reduceat((bits & _COMMA > 0).astype(float), article.bounds[:-1])
        self.sentence: Ints = np.repeat(np.arange(n), np.diff(article.bounds))[word]  # (words,), the sentence of each word
        self.normal = _Coded(units.different, units.codes[word]).mapped(article.normal_of)
        self.stems = self.normal.mapped([stem(unit) for unit in self.normal.different])
        bits = bits[word]
        self.digit, self.upper, self.latin = (bits & kind > 0 for kind in (_DIGIT, _UPPER, _LATIN))
        counts = np.bincount(self.sentence, minlength=n)
        self.length: Floats = np.maximum(counts, 1).astype(float)  # (n,) words a sentence
        self.upper[(np.cumsum(counts) - counts)[counts > 0]] = False  # the first word of a sentence has a capital anyway
        breaks = [0] + ["\n" in article.text[a.stop : b.start] for a, b in zip(article.sentences, article.sentences[1:], strict=False)]
        self.paragraph: Ints = np.cumsum(breaks)
        self.own = self._own()
        self.place = self._place(n)

    @cached_property
    def by_beginning(self) -> dict[str, list[str]]:
        """The different stems by their first two letters."""
        return by_beginning(self.stems.different)

    def with_all(self, stems: Sequence[str]) -> Bools:
        """Return which sentences contain all of the stems, (n,)."""
        has = np.zeros((len(stems), len(self.length)), dtype=bool)
        for row, wanted in zip(has, stems, strict=True):
            row[self.sentence[self.stems.codes == self.stems.code.get(wanted, -1)]] = True
        in_all: Bools = np.logical_and.reduce(has)
        return in_all

    def per_sentence(self, marked: Bools) -> Floats:
        """Count the marked words of each sentence."""
        return np.bincount(self.sentence[marked], minlength=len(self.length)).astype(float)

    def _own(self) -> Floats:
        """What a sentence contains, its length, and its shares of digits, capitals, Latin letters and commas."""
        digits, capitals, latin = (self.per_sentence(marked) for marked in (self.digit, self.upper, self.latin))
        measured = [np.log(self.length) / 4, np.minimum(digits, 6) / 6, digits / self.length, np.minimum(capitals, 8) / 8]
        measured += [capitals / self.length, latin / self.length, self.commas / 10]
        self.signs: Floats = (self.contains[:, None] >> np.arange(_FIRST_SIGN, _FIRST_SIGN + _YEAR + 1) & 1).astype(float)
        return np.column_stack([self.signs, *measured])

    def _place(self, n: int) -> Floats:
        i = np.arange(n)
        change = self.paragraph[1:] != self.paragraph[:-1]
        edges = [np.concatenate([[True], change]), np.concatenate([change, [True]])]
        columns = [i / max(1, n - 1), np.log1p(i) / 5, np.log1p(n - 1 - i) / 5, i == 0, i == n - 1, np.full(n, math.log(n) / 5), i < 15]
        return np.column_stack([*columns, *edges]).astype(float)


@dataclass
class _Columns:
    """The features of the sentences, one column after the other."""

    n: int
    columns: list[Floats | Bools] = field(default_factory=list)

    def add(self, *values: Floats | Bools | float) -> None:
        self.columns += [value if isinstance(value, np.ndarray) else np.full(self.n, float(value)) for value in values]

    def add_relative(self, value: Floats, *, rank: bool = True) -> None:
        """Add a value, its share of the highest value in the article, and with `rank` its rank and its standard score."""
        highest = value.max()
        self.add(value, value / highest if highest > 0 else value)
        if rank:
            higher = self.n - np.searchsorted(np.sort(value), value, side="right")
            above = value - value.sum() / self.n
            deviation = math.sqrt(above @ above / self.n) + 1e-6
            self.add(1 / (1 + higher), np.minimum(np.maximum(above / deviation, -3), 8) / 4)


def skim(article: SkimmedArticle, question: str) -> NDArray[np.float32]:
    """Compute the features of every sentence for a question: (n, FEATURES), or as many as the article's table of units says.

    >>> table = UnitTable.count(["the cat sat", "a dog ran"], least=1)
    >>> skim(SkimmedArticle("The cat sat. A dog ran!", table), "Who sat?").shape
    (2, 255)
    """
    words, table, n = article.words, article.table, len(article.sentences)
    asked = [unit for unit in UNIT.findall(table.normal(question)) if unit[0].isalnum()]
    if not asked:
        raise ValueError(f"the question {question!r} has no words; ask with at least one word")
    columns = _Columns(n)
    exact = _Matches(words, words.normal, asked, table)
    exact.add_to(columns)
    stems = [stem(unit) for unit in asked]
    matched = list(columns.columns)
    if stems == asked and not words.latin.any():  # Chinese has no stems
        columns.columns += matched
    else:
        _Matches(words, words.stems, stems, table, rarity=exact.rarity_by(asked, stems)).add_to(columns)
    _add_answer_signs(columns, words, exact, question, table)
    columns.columns += [*words.own.T, *words.place.T]
    if table.features > len(columns.columns):
        _add_variants(columns, article, stems, exact.rarity_by(asked, stems), first=len(matched))
    return np.stack(columns.columns, 1, dtype=np.float32, casting="same_kind")


def _add_variants(columns: _Columns, article: SkimmedArticle, stems: Sequence[str], rarity: dict[str, float], *, first: int) -> None:
    """Add the matches of stems once more, where words in another spelling and abbreviations count too; `first` is their first column."""
    words = article.words
    content = [unit for unit in reversed(stems) if unit not in _FUNCTION_WORDS]
    written_as = {other: unit for unit in content for other in variants(unit, words.by_beginning) if other not in rarity}
    also = []
    for short, long in article.abbreviations:
        if rarity.keys() >= set(long):
            written_as.update({unit: long[-1] for unit in short[:1] if len(short) == 1 and unit not in rarity})
            also.append((words.with_all(short), long))
        if rarity.keys() >= set(short):
            also.append((words.with_all(long), short))
    if not written_as and not also:
        columns.columns += columns.columns[first : 2 * first]
        return
    mapped = words.stems.mapped([written_as.get(unit, unit) for unit in words.stems.different])
    _Matches(words, mapped, stems, article.table, rarity=rarity, also=also).add_to(columns)


class _Matches:
    """Where the units of a question (or their stems) occur in an article.

    `also` are sentences (n,) that count as containing some of the units, because they have their abbreviation or its long form.
    """

    def __init__(
        self,
        words: _Words,
        article: _Coded,
        asked: Sequence[str],
        table: UnitTable,
        *,
        rarity: dict[str, float] | None = None,
        also: Sequence[tuple[Bools, Sequence[str]]] = (),
    ) -> None:
        self.words, n = words, len(words.length)
        self.types = list(dict.fromkeys(asked))
        K = len(self.types)
        index = {unit: k for k, unit in enumerate(self.types)}
        self.ids: Ints = article.numbered(index)  # (words,), −1 for those not in the question
        self.asked = [index[unit] for unit in asked]
        hit = self.ids >= 0
        self.counts: Floats = np.bincount(words.sentence[hit] * K + self.ids[hit], minlength=n * K).reshape(n, K).astype(float)
        for sentences, units in also:
            chosen = np.ix_(np.nonzero(sentences)[0], np.array([index[unit] for unit in units]))
            self.counts[chosen] = np.maximum(self.counts[chosen], 1)
        self.has: Bools = self.counts > 0
        frequency = self.has.sum(0)
        self.present: Bools = frequency > 0
        self.in_article: Floats = _idf(frequency, n)
        ids = table.ids(self.types)
        self.in_language: Floats = table.rarity(ids).astype(float)
        if rarity is not None:
            self.in_language = np.array([rarity[unit] for unit in self.types])
        self.function: Bools = np.array([unit in _FUNCTION_WORDS for unit in self.types])
        self.weight: Floats = self.in_article * self.in_language
        self.total = float((self.weight * self.present).sum()) or 1.0

    def rarity_by(self, units: Sequence[str], stems: Sequence[str]) -> dict[str, float]:
        """Return stem → the rarity of its first unit."""
        rarity = dict(zip(self.types, self.in_language.tolist(), strict=True))
        return {stem: rarity[unit] for unit, stem in zip(reversed(units), reversed(stems), strict=True)}

    def add_to(self, columns: _Columns) -> None:
        """Add all features of these matches."""
        self._add_coverage(columns)
        self._add_neighbours(columns)
        self._add_order(columns)

    def _covered(self, weight: Floats) -> Floats:
        """The share of the question's weight (of units that occur in the article) that each sentence contains: (n,)."""
        total = float((weight * self.present).sum())
        return self.has @ weight / total if total > 0 else np.zeros(len(self.has))

    def _add_coverage(self, columns: _Columns) -> None:
        content = self.in_language * ~self.function
        for weight in (self.in_article, self.in_language, self.weight, content):
            columns.add_relative(self._covered(weight))
        relative = (self.words.length / self.words.length.mean())[:, None]
        saturated = self.counts * 2.2 / (self.counts + 1.2 * (0.25 + 0.75 * relative))  # BM25's term frequency
        for weight in (self.in_article, self.weight):
            columns.add_relative(saturated @ weight / max(float((weight * self.present).sum()), 1e-6))
        columns.add_relative(self.has @ self.weight / np.sqrt(self.words.length))
        found = self.has[:, ~self.function]
        columns.add(np.minimum(found.sum(1), 8) / 8, found.mean(1) if found.shape[1] else 0.0)
        rarest = np.argsort(-(self.weight * self.present), kind="stable")[:3]
        columns.add(*(self.has[:, k] for k in rarest), *[0.0] * (3 - len(rarest)))
        columns.add((self.has * self.weight).max(1))

    def _add_neighbours(self, columns: _Columns) -> None:
        covered = self._covered(self.weight)
        for value in (covered, self._covered(self.in_article)):
            before, after, before2, after2 = (_shifted(value, by) for by in (1, -1, 2, -2))
            columns.add(before, after, (before2 + before + after + after2) / 4)
            columns.add(value - np.maximum(np.maximum(before, after), np.maximum(before2, after2)))
        before_has, after_has = _shifted(self.has, 1), _shifted(self.has, -1)
        for union in (self.has | before_has, self.has | after_has, self.has | before_has | after_has):
            columns.add_relative(union @ self.weight / self.total, rank=False)
        columns.add((self.has & ~before_has) @ self.weight / self.total)
        paragraph = self.words.paragraph
        has = np.zeros((int(paragraph[-1]) + 1, self.has.shape[1]), dtype=bool)
        np.logical_or.at(has, paragraph, self.has)
        highest = np.zeros(len(has))
        np.maximum.at(highest, paragraph, covered)
        columns.add((has @ self.weight / self.total)[paragraph], highest[paragraph] - covered)

    def _add_order(self, columns: _Columns) -> None:
        """Add what counts word order: pairs and triples of the question, the longest run of them, the best window."""
        K, n, sentence = len(self.types), len(self.words.length), self.words.sentence
        pairs = {a * K + b for a, b in zip(self.asked, self.asked[1:], strict=False)}
        triples = {(a * K + b) * K + c for a, b, c in zip(self.asked, self.asked[1:], self.asked[2:], strict=False)}
        a, b = self.ids[:-1], self.ids[1:]
        codes = np.where((a >= 0) & (b >= 0) & (sentence[:-1] == sentence[1:]), a * K + b, -1)
        places = np.nonzero(np.isin(codes, list(pairs)))[0] if pairs else np.zeros(0, dtype=np.int64)
        factor = np.where(self.function, 0.2, 1.0)
        weight = {code: self._pair_weight(code // K, code % K, factor) for code in pairs}
        run, length = np.zeros(n), np.zeros(n)
        last, total, steps = -2, 0.0, 0
        for place in places.tolist():
            s, w = sentence[place], weight[int(codes[place])]
            total, steps = (total + w, steps + 1) if place == last + 1 else (w, 1)
            run[s], length[s], last = max(run[s], total), max(length[s], steps), place
        possible = sum(weight.values()) or 1.0
        found = np.unique(np.stack([sentence[places], codes[places]]), axis=1)  # each pair once a sentence
        by_language = np.bincount(found[0], weights=[weight[code] for code in found[1].tolist()], minlength=n)
        columns.add_relative(by_language / possible)
        columns.add(run / possible, np.minimum(length, 8) / 8)
        columns.add_relative(_rare_share(found, n))
        codes3 = np.where((codes[:-1] >= 0) & (codes[1:] >= 0), codes[:-1] * K + self.ids[2:], -1)
        places3 = np.nonzero(np.isin(codes3, list(triples)))[0] if triples else np.zeros(0, dtype=np.int64)
        columns.add_relative(
            _rare_share(np.unique(np.stack([sentence[places3], codes3[places3]]), axis=1), n) if len(codes3) else np.zeros(n), rank=False
        )
        columns.add_relative(self._best_window(12) / self.total, rank=False)

    def _pair_weight(self, a: int, b: int, factor: Floats) -> float:
        """The weight of a pair of units: their mean, less if both are function words."""
        return float((self.weight[a] + self.weight[b]) / 2 * max(factor[a], factor[b]))

    def _best_window(self, size: int) -> Floats:
        """The largest weight of different units of the question within `size` words of a sentence: (n,)."""
        best = np.zeros(len(self.words.length))
        places = np.nonzero(self.ids >= 0)[0]
        ids, sentence = self.ids[places], self.words.sentence[places]
        by_unit = np.argsort(ids, kind="stable")
        same = ids[by_unit][1:] == ids[by_unit][:-1]
        previous = np.full(len(places), -1)  # the match before with the same unit
        previous[by_unit[1:][same]] = by_unit[:-1][same]
        total, first = np.zeros(len(places)), np.arange(len(places))
        for step in range(min(size, len(places))):  # the window of match i gets match i + step
            i, j = first[: len(places) - step], first[step:]
            inside = (places[j] - places[i] < size) & (sentence[j] == sentence[i]) & (previous[j] < i)
            total[i] += np.where(inside, self.weight[ids[j]], 0.0)
        np.maximum.at(best, sentence, total)
        return best


def _add_answer_signs(columns: _Columns, words: _Words, exact: _Matches, question: str, table: UnitTable) -> None:
    """Add numbers and names of the question, the kind of question, and what a sentence has that could answer it."""
    numbers = [k for k, unit in enumerate(exact.types) if unit[0].isdigit()]
    names = {table.normal(unit) for unit in UNIT.findall(question)[1:] if unit[0].isupper()}
    named = [k for k, unit in enumerate(exact.types) if unit in names]
    for indices in (numbers, named):
        columns.add(exact.has[:, indices].mean(1) if indices else 0.0, bool(indices))
    new = exact.ids < 0
    unmatched = words.per_sentence(new)
    digits, capitals = words.per_sentence(new & words.digit), words.per_sentence(new & words.upper)
    columns.add(np.log1p(unmatched) / 4, unmatched / words.length, np.minimum(digits, 4) / 4, np.minimum(capitals, 6) / 6)
    normal = table.normal(question)
    kinds = [float(kind.search(normal) is not None) for kind in _KINDS]
    chinese = 2 * sum(len(unit) == 1 and unit >= "\u3400" for unit in exact.types) > len(exact.types)
    columns.add(*kinds, math.log(len(exact.asked)) / 3, chinese)
    columns.add(float((exact.in_language * exact.present).sum() / (exact.in_language.sum() + 1e-6)))
    percent, year, cause, definition, date, we = words.signs[:, [_PERCENT, _YEAR, _CAUSE, _DEFINITION, _DATE, _WE]].T
    answers: list[tuple[int, Floats | Bools]] = [(_WHEN, digits > 0), (_WHEN, year), (_WHEN, date), (_COUNT, digits > 0), (_COUNT, percent)]
    answers += [(_WHO, capitals > 0), (_WHERE, capitals > 0), (_WHY, cause), (_WHAT, definition), (_NAME, definition), (_HOW, we)]
    columns.add(*(kinds[kind] * np.asarray(sign, dtype=float) for kind, sign in answers))


def _idf(frequency: NDArray[np.integer], n: int) -> Floats:
    """BM25's inverse document frequency."""
    idf: Floats = np.log(1 + (n - frequency + 0.5) / (frequency + 0.5))
    return idf


def _rare_share(found: Ints, n: int) -> Floats:
    """Of codes found in sentences, as (2, found) rows (sentence, code): the share of their total idf each sentence has, (n,)."""
    if not found.shape[1]:
        return np.zeros(n)
    _, inverse, frequency = np.unique(found[1], return_inverse=True, return_counts=True)
    idf = _idf(frequency, n)
    share: Floats = np.bincount(found[0], weights=idf[inverse], minlength=n) / idf.sum()
    return share


_Rows = TypeVar("_Rows", Floats, Bools)


def _shifted(value: _Rows, by: int) -> _Rows:
    """Move rows down by `by` (up if negative); rows without a source are 0."""
    out = np.zeros_like(value)
    if by > 0:
        out[by:] = value[:-by]
    else:
        out[:by] = value[-by:]
    return out
