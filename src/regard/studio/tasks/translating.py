"""Translate: a text by several translators, each with its alignment and the alternatives its beam found.

Axes: T target words, S source words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..refusal import Refusal
from .bench import Bench

COLD = 1e-4  # the temperature of hard attention: its weights are one-hot to the last digit shown


def translate(bench: Bench, models: list[str], text: str, width: int = 4, hard: bool = False) -> dict[str, Any]:
    """Every model's translations of one text, best first; the best with its alignment as the page draws it."""
    found = []
    bench.threads_for(1)
    for place, name in enumerate(models):
        if bench.library.find(name).kind != "translator":
            raise Refusal("invalid", f"{name} is no translator", name=name)
        opened = bench.translator(name)
        share = 1 / len(models)
        with bench.progress.over(opened.model, passes=40, begin=place * share, end=(place + 1) * share), _attending(opened.model, hard):
            candidates = opened.translate([text], width=width, n_best=width, align=True)[0]
        found.append({"model": name, "candidates": [_shown(candidate) for candidate in candidates]})
    return {"text": text, "hard": hard, "translations": found}


def _shown(candidate: Any) -> dict[str, Any]:
    from ...sight.payload import pair_payload

    alignment = candidate.alignment
    drawn = alignment is not None and candidate.target_words and candidate.source_words
    payload = pair_payload(alignment, candidate.target_words, candidate.source_words, title=candidate.text) if drawn else None
    return {
        "text": candidate.text,
        "score": round(candidate.score, 4),
        "log_prob": round(candidate.log_prob, 4),
        "source": candidate.source_words,
        "target": candidate.target_words,
        "weights": [[round(w, 5) for w in row] for row in alignment.tolist()] if drawn else None,
        "payload": payload,
    }


@contextmanager
def _attending(model: nn.Module, hard: bool) -> Iterator[None]:
    """Hard: each target word looks at one place of the source, the heaviest, while it is being written."""
    from ... import Argmax, Softmax
    from ...models.seq2seq import Bahdanau

    if not hard:
        yield
        return
    if isinstance(model, Bahdanau):
        soft = model.align

        def align(s: Tensor, memory: Any) -> tuple[Tensor, Tensor]:
            alpha = Argmax()(soft(s, memory)[1].log())
            return alpha @ memory.annotations, alpha

        model.align = align  # type: ignore[method-assign]
        try:
            yield
        finally:
            del model.align
        return
    crosses = [
        module
        for name, module in model.named_modules()
        if name.endswith("cross") and isinstance(getattr(module, "choice", None), nn.Module)
    ]
    was = [module.choice for module in crosses]
    try:
        for module in crosses:
            module.choice = Softmax(temperature=COLD)
        with torch.no_grad():
            yield
    finally:
        for module, choice in zip(crosses, was, strict=True):
            module.choice = choice
