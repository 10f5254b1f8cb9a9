"""Scores of an article reader on SQuAD-form files, beside pickers that are not trained.

"picked_k" is the share of questions with a sentence that holds an answer among the first k picks; "f1_k" is the F1 of the answer read
from k picks (over characters in Chinese, over words in English), the best over the given answers. "loss" is −log of the attention weight
of the sentences that hold an answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from ....text.articles import Question, QuestionedArticle, read_questions
from ....text.skimming import SkimmedArticle
from ....text.units import UNIT, UnitTable
from .. import Evaluation
from .reading import ArticleReader

PICKS = (1, 2, 5)


@dataclass(frozen=True, eq=False)
class Asked:
    """A question about an article, and the sentences that hold an answer."""

    article: SkimmedArticle
    question: Question
    right: frozenset[int]

    @classmethod
    def all_of(cls, articles: Iterable[QuestionedArticle], table: UnitTable) -> list[Asked]:
        """Return every question with an answer in its article."""
        asked = []
        for entry in articles:
            article = SkimmedArticle(entry.text, table)
            for question in entry.questions:
                if right := frozenset(question.right_sentences(article.sentences)):
                    asked.append(cls(article, question, right))
        return asked


def answer_f1(answer: str, given: Iterable[str], *, characters: bool) -> float:
    """Return the F1 of an answer, the best over the given ones; marks and English articles do not count (Rajpurkar et al. 2016).

    >>> answer_f1("the North Sea", ["North Sea coast"], characters=False)
    0.8
    """
    return max((_f1(_parts(answer, characters), _parts(text, characters)) for text in given), default=0.0)


def _parts(text: str, characters: bool) -> list[str]:
    if characters:
        return [c for c in text.lower() if c.isalnum()]
    return [word for word in re.findall(r"\w+", text.lower()) if word not in ("a", "an", "the")]


def _f1(a: list[str], b: list[str]) -> float:
    common = sum((Counter(a) & Counter(b)).values())
    return 2 * common / (len(a) + len(b)) if common else float(a == b)


def measure(reader: ArticleReader, asked: Sequence[Asked], *, spans: bool = True, everything: bool = False) -> dict[str, float]:
    """Compute the scores of the reader (percent). `everything` also reads all sentences of every article ("f1_all")."""
    counts = (2, 5)
    picked, loss = np.zeros(len(PICKS)), 0.0
    f1: defaultdict[str, list[float]] = defaultdict(list)
    was_training = reader.model.training
    reader.model.eval()
    try:
        for item in asked:
            weights = reader.weights(item.article, item.question.text)
            order = weights.argsort(descending=True, stable=True).tolist()
            picked += [_found(order[:k], item.right) for k in PICKS]
            loss -= math.log(max(float(weights[list(item.right)].sum()), 1e-30))
            if spans:
                for name, value in _f1_of(reader, item, order, weights, counts, everything).items():
                    f1[name].append(value)
    finally:
        reader.model.train(was_training)
    scores = {"loss": loss / len(asked)} | {f"picked_{k}": 100 * float(value) / len(asked) for k, value in zip(PICKS, picked, strict=True)}
    return scores | {name: 100 * sum(values) / len(values) for name, values in f1.items()}


def _f1_of(
    reader: ArticleReader, item: Asked, order: list[int], weights: torch.Tensor, counts: Sequence[int], everything: bool
) -> dict[str, float]:
    """Return the F1 of the answers from the first picks, of reading everything, and of the first picked sentence itself."""
    language = reader.language(item.question.text, "question")
    given = [text for text, _ in item.question.answers]
    sentence = answer_f1(item.article.sentences[order[0]].text, given, characters=language == "zh")
    names = [*((f"f1_{k}", k) for k in counts), *([("f1_all", len(order))] if everything else [])]
    if language not in reader.span_languages:  # the answer is the first picked sentence, however many are read
        return {name: sentence for name, _ in names} | {"f1_sentence": sentence}
    chosen = order if everything else order[: max(counts)]
    # Sentences are read independently of each other, so fewer picks are a part of the same scores.
    scores = reader.span_scores(item.article, item.question.text, chosen)
    scores = scores + reader.model.prior.detach().cpu() * weights[chosen].clamp(min=1e-30).log().cpu().view(-1, 1, 1)
    result = {}
    for name, k in names:
        answer = reader.best(item.article, chosen[:k], scores[:k], language)
        result[name] = answer_f1(answer.text, given, characters=language == "zh")
    return result | {"f1_sentence": sentence}


def _found(picks: Iterable[int], right: frozenset[int]) -> bool:
    return not right.isdisjoint(picks)


def _terms(text: str, table: UnitTable) -> list[str]:
    """The terms of a text for TF-IDF and BM25: words, or Chinese characters and pairs of them."""
    units = [unit for unit in UNIT.findall(table.normal(text)) if unit[0].isalnum()]
    return units + [a + b for a, b in pairwise(units) if a >= "\u3400" and b >= "\u3400"]


Scorer = Callable[[Sequence[str], Sequence[Sequence[str]]], NDArray[np.float64]]


class Tfidf:
    """Cosine of TF-IDF vectors; the document frequencies are of the sentences of all articles, or (corpus None) of the article."""

    def __init__(self, corpus: Iterable[Sequence[str]] | None = None) -> None:
        self.frequency: Counter[str] = Counter()
        self.sentences = 0
        for terms in corpus or ():
            self.frequency.update(set(terms))
            self.sentences += 1

    def __call__(self, question: Sequence[str], sentences: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        frequency, n = self.frequency, self.sentences
        if not n:
            frequency, n = Counter(term for sentence in sentences for term in set(sentence)), len(sentences)

        def vector(terms: Sequence[str]) -> dict[str, float]:
            counted = Counter(terms)
            values = {term: count * (math.log((1 + n) / (1 + frequency[term])) + 1) for term, count in counted.items() if frequency[term]}
            norm = math.sqrt(sum(value * value for value in values.values())) or 1.0
            return {term: value / norm for term, value in values.items()}

        asked = vector(question)
        return np.array([sum(asked.get(term, 0.0) * value for term, value in vector(sentence).items()) for sentence in sentences])


def bm25(question: Sequence[str], sentences: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Okapi BM25 with k1 = 1.2 and b = 0.75, document frequencies of the article (Robertson and Zaragoza 2009)."""
    n, mean = len(sentences), sum(map(len, sentences)) / len(sentences)
    frequency = Counter(term for sentence in sentences for term in set(sentence))
    asked = set(question)
    scores = []
    for sentence in sentences:
        counts = Counter(term for term in sentence if term in asked)
        norm = 1.2 * (0.25 + 0.75 * len(sentence) / mean)
        idf = ((math.log(1 + (n - frequency[t] + 0.5) / (frequency[t] + 0.5)), count) for t, count in counts.items())
        scores.append(sum(weight * count * 2.2 / (count + norm) for weight, count in idf))
    return np.array(scores)


def measure_baselines(asked: Sequence[Asked], table: UnitTable) -> dict[str, float]:
    """Compute "NAME_k" as "picked_k", for TF-IDF (of the corpus, of the article), BM25, the first sentences, and chance."""
    terms = {id(item.article): [_terms(s.text, table) for s in item.article.sentences] for item in asked}
    scorers: dict[str, Scorer] = {"tfidf": Tfidf(t for rows in terms.values() for t in rows), "tfidf_article": Tfidf(), "bm25": bm25}
    found: Counter[str] = Counter()
    for item in asked:
        question, sentences = _terms(item.question.text, table), terms[id(item.article)]
        for name, scorer in scorers.items():
            order = np.argsort(-scorer(question, sentences), kind="stable").tolist()
            found.update({f"{name}_{k}": int(_found(order[:k], item.right)) for k in PICKS})
        found.update({f"first_{k}": int(_found(range(k), item.right)) for k in PICKS})
        n, r = len(sentences), len(item.right)
        for k in PICKS:  # the probability that k random sentences include a right one
            found[f"chance_{k}"] += 1 - math.comb(n - r, min(k, n)) / math.comb(n, min(k, n))  # type: ignore[assignment]
    names = (*scorers, "first", "chance")
    return {f"{name}_{k}": 100 * found[f"{name}_{k}"] / len(asked) for name in names for k in PICKS}


def evaluate(request: Evaluation) -> dict[str, float]:
    """Compute the scores of a run, and of the baselines, on SQuAD-form files."""
    reader = ArticleReader.open(request.run, device=request.device)
    asked = Asked.all_of((article for file in request.test for article in read_questions(file)), reader.table)
    if not asked:
        raise ValueError(f"{', '.join(map(str, request.test))}: no question has an answer in its text")
    sentences = sum(len(item.article.sentences) for item in asked) / len(asked)
    result: dict[str, float] = {"questions": len(asked), "sentences": sentences}
    result |= measure(reader, asked, everything=True)
    return result | measure_baselines(asked, reader.table)
