"""How good are translations: BLEU and chrF as sacrebleu computes them, exact matches, and the score by source length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Score:
    """A corpus score and the signature that says how it was computed, so that others can compare."""

    name: str
    value: float
    signature: str


def bleu(outputs: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a") -> Score:
    """Corpus BLEU (Papineni et al. 2002; Post 2018, arXiv:1804.08771)."""
    _same_length(outputs, references)
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)  # force: no advice on standard error
    value = metric.corpus_score(list(outputs), [list(references)]).score
    return Score("bleu", float(value), str(metric.get_signature()))


def chrf(outputs: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF (Popović 2015): character n-grams, kinder to small differences of form."""
    _same_length(outputs, references)
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    value = metric.corpus_score(list(outputs), [list(references)]).score
    return Score("chrf", float(value), str(metric.get_signature()))


def exact(outputs: Sequence[str], references: Sequence[str]) -> float:
    """The share of outputs equal to their reference, in percent.

    >>> exact(["a", "b"], ["a", "c"])
    50.0
    """
    _same_length(outputs, references)
    return 100.0 * sum(o == r for o, r in zip(outputs, references, strict=True)) / max(len(references), 1)


@dataclass(frozen=True)
class LengthRow:
    """The score of the sentences whose source has from `least` to `most` tokens."""

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
    """BLEU and exact matches for sentences grouped by source length, in at most `rows` groups of like size.

    Equal lengths stay together, so groups may differ in size.
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
    """exp of a loss in nats per token; infinite where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf


def as_dict(score: Score | LengthRow) -> dict[str, object]:
    """A score as plain values, for JSON."""
    return asdict(score)


def _same_length(outputs: Sequence[str], references: Sequence[str]) -> None:
    if len(outputs) != len(references):
        raise ValueError(f"{len(outputs)} outputs but {len(references)} references; each output needs one")
