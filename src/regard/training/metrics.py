"""Metrics of texts: BLEU and chrF computed by sacrebleu, ROUGE by rouge-score, exact matches, and scores by source length."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

# As rouge-score splits English (runs of Latin letters and digits), and for other scripts runs of letters and single Chinese characters.
_WORDS = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]|[^\W_a-z0-9\u3400-\u9fff]+")


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


def rouge(outputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Compute the mean F-scores (percent) of ROUGE-1, ROUGE-2 and ROUGE-L, without stemming (Lin 2004).

    ROUGE compares words in lower case; Chinese characters count as words, because rouge-score itself reads only Latin letters and digits.
    """
    _same_length(outputs, references)
    try:
        from rouge_score.rouge_scorer import RougeScorer
        from rouge_score.tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError('ROUGE needs the package "rouge-score": pip install "regard[train]"') from error

    class Words(Tokenizer):
        """Words of any letters and digits in lower case, and single Chinese characters."""

        def tokenize(self, text: str) -> list[str]:
            return list(_WORDS.findall(text.lower()))

    names = ("rouge1", "rouge2", "rougeL")
    scorer = RougeScorer(list(names), use_stemmer=False, tokenizer=Words())
    scores = [scorer.score(reference, output) for output, reference in zip(outputs, references, strict=True)]
    return {name: 100.0 * sum(score[name].fmeasure for score in scores) / max(len(scores), 1) for name in names}


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
