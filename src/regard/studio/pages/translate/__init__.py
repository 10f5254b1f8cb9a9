"""The Translate page: a text translated by several models, each with its alignment and other candidate translations.

Axes: T target words, S source words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ...library import Library
from ...page import Page, RequestBody, WorkerEndpoint
from ...request_error import RequestError
from ...worker_state import WorkerState

if TYPE_CHECKING:
    from torch import nn

    from ....training.tasks.translation import Translated, Translations

SENTENCES = {"zh": "我爱中国。", "de": "Was möchtest du heute Abend essen?", "": "a b c d"}  # the initial text, by source language


class TranslateRequest(RequestBody):
    """Names of translators and a text; `width` is the beam size and the number of translations."""

    models: Annotated[list[Annotated[str, Field(max_length=120)]], Field(min_length=1, max_length=4)]
    text: Annotated[str, Field(min_length=1, max_length=1000)]
    width: Annotated[int, Field(ge=1, le=8)] = 4
    hard: bool = False


def initial_request(library: Library) -> dict[str, Any] | None:
    """Two translators of one language, the best first, and one without attention if there is one."""
    translators = [model for model in library.models.values() if model.kind == "translator"]
    if not translators:
        return None
    language = next((code for code in SENTENCES if any(m.source == code and m.attention for m in translators)), translators[0].source)
    candidates = sorted((m for m in translators if m.source == language), key=lambda m: (-m.bleu, "bahdanau" not in m.about))
    with_attention = [m.name for m in candidates if m.attention][:2]
    without_attention = [m.name for m in candidates if not m.attention][:1]
    return {"models": with_attention + without_attention or [candidates[0].name], "text": SENTENCES[language], "width": 4, "hard": False}


def translate(state: WorkerState, models: list[str], text: str, width: int = 4, hard: bool = False) -> dict[str, Any]:
    """The translations of each model, best first, with their alignments.

    A model that cannot be opened gets an error in place of translations; if it is the only model, the request fails.
    """
    results: list[dict[str, Any]] = []
    state.set_threads(1)
    for number, name in enumerate(models):
        if state.library.find(name).kind != "translator":
            raise RequestError("invalid", f"{name} is not a translator; choose one of the translators", name=name)
        try:
            opened = state.translator(name)
        except RequestError as error:
            if len(models) == 1:
                raise
            results.append({"model": name, "candidates": [], "refused": error.to_json()})
            continue
        share = 1 / len(models)
        with state.progress.follow(_target_embedding(opened.model), passes=40, begin=number * share, end=(number + 1) * share):
            results.append(
                {
                    "model": name,
                    **_translate(opened, text, width, hard),
                    "heads": int(getattr(getattr(opened.model, "config", None), "heads", 1)),  # whose mean the alignment is
                    "notes": _notes(state.library.find(name).source, opened, text),
                }
            )
    return {"text": text, "hard": hard, "translations": results}


def _target_embedding(model: nn.Module) -> nn.Module:
    """The module that runs once a decoding step; hooks on all of them would take longer than a step."""
    return model.get_submodule("target_tokens" if hasattr(model, "target_tokens") else "embedding")


def _translate(opened: Translations, text: str, width: int, hard: bool) -> dict[str, Any]:
    """The candidates for a text; of several lines, or longer than the model was trained on, also those of its parts, with alignments."""
    sentences = opened.sentences(text)
    parts = opened.candidates(sentences, width=width, n_best=width, align=True, hard=hard)
    rows = [[_candidate(candidate) for candidate in part] for part in parts]
    if len(parts) == 1:
        return {"candidates": rows[0]}
    joined = [{"text": " ".join(one["text"] for one in row), "payload": None, "weights": None} for row in zip(*rows, strict=False)]
    return {"candidates": joined, "parts": [{"text": text, "candidates": row} for text, row in zip(sentences, rows, strict=True)]}


def _notes(source: str, opened: Translations, text: str) -> dict[str, Any]:
    """Characters outside the model's vocabulary, their share of the text, and the language it was detected as, if not the model's."""
    from ....text.language import detect
    from ....zoo.language import foreign

    unknown, share = opened.source.unknown_characters(text)
    detected = detect(text)
    language = {"detected": detected.language or "", "sure": detected.sure}
    return {"unknown": "".join(unknown[:20]), "share": round(share, 3), "foreign": foreign(text, source), **language}


def _candidate(candidate: Translated) -> dict[str, Any]:
    """A translation as JSON-compatible data."""
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
    order=3,
    endpoints=(WorkerEndpoint("", translate, "Translate a text", TranslateRequest, seconds=60),),
    initial_request=initial_request,
)
