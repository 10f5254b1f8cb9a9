"""Translate: a text by several translators, each with its alignment and the other candidates of its beam search.

Axes: T target words, S source words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ...bench import Bench
from ...library import Library
from ...page import Page, RequestBody, WorkerEndpoint
from ...refusal import Refusal

if TYPE_CHECKING:
    from ....training.tasks.translation import Translated, Translations

SENTENCES = {"zh": "我爱中国。", "de": "Was möchtest du heute Abend essen?", "": "a b c d"}  # shown first, by source language


class TranslateRequest(RequestBody):
    """Translators of the list and a text; `width` prefixes are kept while searching, and as many translations given."""

    models: Annotated[list[Annotated[str, Field(max_length=120)]], Field(min_length=1, max_length=4)]
    text: Annotated[str, Field(min_length=1, max_length=1000)]
    width: Annotated[int, Field(ge=1, le=8)] = 4
    hard: bool = False


def initial_request(library: Library) -> dict[str, Any] | None:
    """Translators of one language, the best first, and one without attention where there is one."""
    known = [model for model in library.models.values() if model.kind == "translator"]
    if not known:
        return None
    language = next((code for code in SENTENCES if any(m.source == code and m.attention for m in known)), known[0].source)
    able = sorted((m for m in known if m.source == language), key=lambda m: (-m.bleu, "bahdanau" not in m.about))
    attending = [m.name for m in able if m.attention][:2]
    fixed = [m.name for m in able if not m.attention][:1]
    return {"models": attending + fixed or [able[0].name], "text": SENTENCES[language], "width": 4, "hard": False}


def translate(bench: Bench, models: list[str], text: str, width: int = 4, hard: bool = False) -> dict[str, Any]:
    """Each model's translations, best first, with the source words that every target word was read from.

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
    from ....zoo.language import foreign

    strange, share = opened.source.unknown_characters(text)
    return {"unknown": "".join(strange[:20]), "share": round(share, 3), "foreign": foreign(text, source)}


def _shown(candidate: Translated) -> dict[str, Any]:
    from ....sight.views.payload import pair_payload

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


PAGE = Page(
    name="translate",
    order=1,
    endpoints=(WorkerEndpoint("", translate, "Translate a text", TranslateRequest, seconds=60),),
    initial_request=initial_request,
)
