"""Translate: a text by several translators, each with its alignment and the other candidates of its beam search.

Axes: T target words, S source words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from ...bench import Bench
from ...library import Library
from ...page import Page, RequestBody, WorkerEndpoint
from ...refusal import Refusal

if TYPE_CHECKING:
    from ....training.tasks.translation import Translated, Translations

COLD = 1e-4  # the temperature of hard attention: its weights are one-hot to the last digit shown
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
        with bench.progress.over(opened.model, passes=40, begin=place * share, end=(place + 1) * share), _attending(opened.model, hard):
            found.append(
                {"model": name, **_translated(opened, text, width), "notes": _notes(bench.library.find(name).source, opened, text)}
            )
    return {"text": text, "hard": hard, "translations": found}


def _translated(opened: Translations, text: str, width: int) -> dict[str, Any]:
    """The translations of a text; of one longer than the model was trained on, also those of its sentences, which have alignments."""
    from ....text.sentences import split_to_fit

    sentences = [text] if opened.fits(text) else split_to_fit(text, opened.fits)
    parts = opened.translate(sentences, width=width, n_best=width, align=True)
    shown = [[_shown(candidate) for candidate in part] for part in parts]
    if len(parts) == 1:
        return {"candidates": shown[0]}
    whole = [{"text": " ".join(one["text"] for one in row), "payload": None, "weights": None} for row in zip(*shown, strict=False)]
    return {"candidates": whole, "parts": [{"text": one, "candidates": row} for one, row in zip(sentences, shown, strict=True)]}


def _notes(source: str, opened: Translations, text: str) -> dict[str, Any]:
    """What the model could not read: characters it never saw and their share of the text, and whether it looks like another language."""
    from ....zoo.language import foreign
    from ....zoo.long_text import unknown_characters

    strange, share = unknown_characters(opened, text)
    return {"unknown": "".join(strange[:20]), "share": round(share, 3), "foreign": foreign(text, source)}


def _shown(candidate: Translated) -> dict[str, Any]:
    from ....sight.payload import pair_payload

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


@contextmanager
def _attending(model: nn.Module, hard: bool) -> Iterator[None]:
    """Hard: each target word looks at one place of the source, the heaviest, while it is being written."""
    from .... import Argmax, Softmax
    from ....models.seq2seq import Bahdanau

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


PAGE = Page(
    name="translate",
    order=1,
    endpoints=(WorkerEndpoint("", translate, "Translate a text", TranslateRequest, seconds=60),),
    initial_request=initial_request,
)
