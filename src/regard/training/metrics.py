"""Metrics of translations: BLEU and chrF computed by sacrebleu, exact matches, and scores by source length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Score:
    """A corpus score with sacrebleu's signature, which says how it was computed."""

    name: str
    value: float
    signature: str


def bleu(outputs: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a") -> Score:
    """Compute corpus BLEU (Papineni et al. 2002; Post 2018, arXiv:1804.08771)."""
    _same_length(outputs, references)
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)  # force: no warning about tokenised input
    value = metric.corpus_score(list(outputs), [list(references)]).score
    return Score("bleu", float(value), str(metric.get_signature()))


def chrf(outputs: Sequence[str], references: Sequence[str]) -> Score:
    """Compute corpus chrF (Popović 2015), an F-score of character n-grams."""
    _same_length(outputs, references)
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    value = metric.corpus_score(list(outputs), [list(references)]).score
    return Score("chrf", float(value), str(metric.get_signature()))


def exact(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Return the percentage of outputs equal to their reference.

    >>> exact(["a", "b"], ["a", "c"])
    50.0
    """
    _same_length(outputs, references)
    return 100.0 * sum(o == r for o, r in zip(outputs, references, strict=True)) / max(len(references), 1)


@dataclass(frozen=True)
class LengthRow:
    """The scores of the sentences whose source has `least` to `most` tokens."""

    least: int
    most: int
    sentences: int
    bleu: float
    exact: float


def by_length(
    outputs: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    *,
    rows: int = 5,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> list[LengthRow]:
    """Compute BLEU and exact matches of sentences grouped by source length, in at most `rows` groups of similar size.

    Sentences of equal length are in the same group, so groups may differ in size.
    """
    _same_length(outputs, references)
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    table: list[LengthRow] = []
    begin = 0
    for row in range(1, rows + 1):
        end = max(round(len(order) * row / rows), begin)
        while 0 < end < len(order) and lengths[order[end]] == lengths[order[end - 1]]:
            end += 1
        group = order[begin:end]
        if group:
            out, ref = [outputs[i] for i in group], [references[i] for i in group]
            score = bleu(out, ref, lowercase=lowercase, tokenize=tokenize).value
            table.append(LengthRow(lengths[group[0]], lengths[group[-1]], len(group), score, exact(out, ref)))
        begin = end
    return table


def perplexity(loss: float) -> float:
    """Return exp of a loss in nats per token; infinity where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf


def as_dict(score: Score | LengthRow) -> dict[str, object]:
    """Return a score as a dictionary, for JSON."""
    return asdict(score)


def _same_length(outputs: Sequence[str], references: Sequence[str]) -> None:
    if len(outputs) != len(references):
        raise ValueError(f"{len(outputs)} outputs but {len(references)} references; expected one reference for each output")
