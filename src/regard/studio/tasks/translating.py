"""Translate: a text by several translators, each with its alignment and the alternatives its beam found.

Axes: T target words, S source words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..refusal import Refusal
from .bench import Bench

if TYPE_CHECKING:
    from ...training.tasks.translation import Translated, Translations


def translate(bench: Bench, models: list[str], text: str, width: int = 4, hard: bool = False) -> dict[str, Any]:
    """Every model's translations of one text, best first; the best with its alignment as the page draws it.

    A model that cannot be opened is told beside the others; if it is the only one, it is the answer.
    """
    found: list[dict[str, Any]] = []
    bench.threads_for(1)
    for place, name in enumerate(models):
        if bench.library.find(name).kind != "translator":
            raise Refusal("invalid", f"{name} is no translator", name=name)
        try:
            opened = bench.translator(name)
        except Refusal as refusal:
            if len(models) == 1:
                raise
            found.append({"model": name, "candidates": [], "refused": refusal.plain()})
            continue
        share = 1 / len(models)
        with bench.progress.over(opened.model, passes=40, begin=place * share, end=(place + 1) * share):
            found.append(
                {"model": name, **_translated(opened, text, width, hard), "notes": _notes(bench.library.find(name).source, opened, text)}
            )
    return {"text": text, "hard": hard, "translations": found}


def _translated(opened: Translations, text: str, width: int, hard: bool) -> dict[str, Any]:
    """The translations of a text; of one longer than the model was trained on, also those of its sentences, which have alignments."""
    sentences = opened.sentences(text)
    parts = opened.translate(sentences, width=width, n_best=width, align=True, hard=hard)
    shown = [[_shown(candidate) for candidate in part] for part in parts]
    if len(parts) == 1:
        return {"candidates": shown[0]}
    whole = [{"text": " ".join(one["text"] for one in row), "payload": None, "weights": None} for row in zip(*shown, strict=False)]
    return {"candidates": whole, "parts": [{"text": one, "candidates": row} for one, row in zip(sentences, shown, strict=True)]}


def _notes(source: str, opened: Translations, text: str) -> dict[str, Any]:
    """What the model could not read: characters it never saw and their share of the text, and whether it looks like another language."""
    from ...zoo.language import foreign

    strange, share = opened.source.unknown_characters(text)
    return {"unknown": "".join(strange[:20]), "share": round(share, 3), "foreign": foreign(text, source)}


def _shown(candidate: Translated) -> dict[str, Any]:
    from ...sight.views.payload import pair_payload

    alignment, payload, weights = candidate.alignment, None, None
    if alignment is not None and candidate.target_words and candidate.source_words:
        payload = pair_payload(alignment, candidate.target_words, candidate.source_words, title=candidate.text)
        weights = [[round(w, 5) for w in row] for row in alignment.tolist()]
    return {
        "text": candidate.text,
        "score": round(candidate.score, 4),
        "log_prob": round(candidate.log_prob, 4),
        "source": candidate.source_words,
        "target": candidate.target_words,
        "weights": weights,
        "payload": payload,
    }
