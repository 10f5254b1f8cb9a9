"""Evaluate a translator on test pairs."""

from __future__ import annotations

from typing import Any

from ....files import write_text
from ....text.pairs import read_pairs
from ... import metrics
from ...runs import run_config
from .. import Evaluation
from .config import TranslationConfig
from .translations import Translations


def evaluate(request: Evaluation) -> dict[str, Any]:
    """Compute BLEU (cased and lowercased), chrF, exact matches and BLEU by source length on the pairs of one file or two parallel ones."""
    data = run_config(request.run, "translation", TranslationConfig).data
    pairs = read_pairs(request.test[0] if len(request.test) == 1 else request.test, columns=data.columns, keys=data.keys)
    opened = Translations.open(request.run, device=request.device)
    outputs = [candidates[0].text for candidates in opened.candidates([p.source for p in pairs], width=request.beam)]
    if request.out:
        write_text(request.out, "".join(line + "\n" for line in outputs))
    references, tokenize = [p.target for p in pairs], opened.decoding.tokenize
    lengths = [len(ids) for ids in opened.encode([p.source for p in pairs])]
    scores = [
        metrics.bleu(outputs, references, tokenize=tokenize),
        metrics.bleu(outputs, references, lowercase=True, tokenize=tokenize),
        metrics.chrf(outputs, references),
    ]
    rows = metrics.by_length(outputs, references, lengths, lowercase=True, tokenize=tokenize)
    return {
        "sentences": len(pairs),
        "beam": opened.decoding.beam if request.beam is None else request.beam,
        "parameters": sum(p.numel() for p in opened.model.parameters()),
        "scores": [metrics.as_dict(score) for score in scores],
        "exact": metrics.exact(outputs, references),
        "by_length": [metrics.as_dict(row) for row in rows],
    }
