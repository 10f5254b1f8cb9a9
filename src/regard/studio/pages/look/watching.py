"""What every head of a model does with a text; the exact numbers of a rectangle; and what changes when heads are changed."""

from __future__ import annotations

import bisect
import math
import time
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...bench import Bench
from ...memory import free_bytes, look_bytes, refuse_above
from ...refusal import Refusal

if TYPE_CHECKING:
    from ....sight.effect import Outcome
    from ....training.tasks.translation import Translations

MOST_TOKENS = 100_000
SHOWN = 6  # candidates for the next token
_READ = 256  # positions whose change is told one by one


def look(bench: Bench, model: str, text: str, labels: bool = True, changes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The sighting as the page draws it: every head, its labels, its proof; up to 100,000 tokens."""
    from ....sight.views.payload import build_payload

    inputs, whole = _inputs(bench, model, text)
    begin = time.perf_counter()
    sighting, logits = _watched(bench, model, inputs, changes or [])
    if not len(sighting):
        missed = "; ".join(f"{m.name}: {m.advice}" for m in sighting.missed) or "it runs no attention that can be seen"
        raise Refusal("unseen", f"{model} cannot be looked into here: {missed}", name=model)
    took = time.perf_counter() - begin
    if labels and (found := bench.labels(model)) is not None:  # told once a model
        sighting = sighting.with_labels(found)
    bench.progress.tell(0.95)
    opened, read = bench.opened(model), bench.opened(model).length(inputs)
    payload = build_payload(sighting, title=model)
    return {
        "sight": bench.keep(sighting),
        "model": model,
        "read": read,
        "whole": whole,
        "took": round(took, 4),
        "payload": payload,
        "next": _candidates(opened, inputs, logits, None),
    }


def tile(bench: Bench, sight: str, layer: int, call: int, head: int, rows: list[int], cols: list[int]) -> dict[str, Any]:
    """Exact weights of a rectangle, row by row, recomputed from what the sighting kept."""
    sighting = bench.sight(sight)
    if sighting is None:
        raise Refusal("unknown_sight", "this text was looked at too long ago; look again", sight=sight)
    try:
        found = sighting.head(layer, head, call=call).tile(rows=slice(*rows), cols=slice(*cols))
    except (ValueError, IndexError, KeyError) as error:
        raise Refusal("invalid", str(error)) from error
    return {"weights": [float(f"{w:.6g}") for w in found.flatten().tolist()]}


def what_if(bench: Bench, model: str, text: str, changes: list[dict[str, Any]], query: int | None = None) -> dict[str, Any]:
    """What the changes do to the output: the next token's candidates before and after, and how far the output moves, token by token."""
    from ....sight import change
    from ....sight.effect import Effect, evaluation_mode

    inputs, _ = _inputs(bench, model, text)
    opened = bench.opened(model)
    with warnings.catch_warnings(), bench.progress.over(opened.model, passes=2), evaluation_mode(opened.model):
        warnings.simplefilter("ignore")
        before = _outcome(bench, model, inputs)
        try:
            with change(opened.model) as changed:
                _apply(changed, changes)
                after = _outcome(bench, model, inputs)
                effect = Effect.of(before, after, inputs)
        except IndexError as error:
            raise Refusal("invalid", str(error)) from error
    moved = effect.kl if effect.kl is not None else None if effect.cosine is None else 1 - effect.cosine
    each = [] if moved is None or moved.dim() != 2 else [_number(x) for x in moved[0, -_READ:].tolist()]
    return {
        "measure": "kl" if effect.kl is not None else "cosine",
        "mean": _number(effect.mean_kl if effect.kl is not None else 1 - effect.mean_cosine),
        "each": each,
        "before": _candidates(opened, inputs, before.logits, query),
        "after": _candidates(opened, inputs, after.logits, query),
    }


def _inputs(bench: Bench, model: str, text: str) -> tuple[Any, int]:
    """What the model is called with, cut to what it and the studio can read, and how many tokens there were."""
    opened, left_out = bench.opened(model), 0
    try:
        if bench.library.find(model).kind == "translator":
            text, left_out = _beginning(bench.translator(model), text)
        inputs = bench.encoded(model, text)
    except ValueError as error:
        raise Refusal("invalid", str(error)) from error
    whole = opened.length(inputs) + left_out
    if not whole:
        raise Refusal("invalid", "the text has no tokens; give at least one word")
    most = min(MOST_TOKENS, opened.limit or MOST_TOKENS)
    if whole > most:
        inputs = opened.cut(inputs, most)
    refuse_above(free_bytes(), look_bytes(opened.model, min(whole, most)), f"reading {min(whole, most):,} tokens")
    bench.threads_for(min(whole, most))
    return inputs, whole


def _beginning(opened: Translations, text: str) -> tuple[str, int]:
    """As much of a text as a translator was trained on, since it must translate what it reads; and how many tokens are left out."""
    if opened.fits(text):
        return text, 0
    end = bisect.bisect_left(range(len(text)), True, key=lambda size: not opened.fits(text[: size + 1]))
    return text[:end], len(opened.encode([text])[0]) - len(opened.encode([text[:end]])[0])


def _watched(bench: Bench, model: str, inputs: Any, changes: list[dict[str, Any]]) -> tuple[Any, Tensor | None]:
    """The sighting of one pass, and what it predicted."""
    from ....sight import change, watch
    from ....sight.effect import evaluation_mode
    from ....sight.watch import default_readings

    opened = bench.opened(model)
    pieces, source = opened.tokens(inputs)
    with warnings.catch_warnings(), bench.progress.over(opened.model, end=0.9), evaluation_mode(opened.model):
        warnings.simplefilter("ignore")
        try:
            with change(opened.model) as changed, watch(opened.model, default_readings(), tokens=pieces) as sighting:
                _apply(changed, changes)
                logits = _outcome(bench, model, inputs).logits
        except IndexError as error:
            raise Refusal("invalid", str(error)) from error
    sighting.model, sighting.source_tokens = model, source
    return sighting, logits


def _outcome(bench: Bench, model: str, inputs: Any) -> Outcome:
    """What the model gave. A translator gives the logits of its next words and nothing else."""
    from ....sight.effect import Outcome, outcome

    found = outcome(bench.opened(model).model, inputs)
    translates = bench.library.find(model).kind == "translator" and found.logits is None
    return Outcome(found.hidden, None) if translates else found


def _apply(changed: Any, changes: list[dict[str, Any]]) -> None:
    for one in changes:
        heads = changed.layer(one["layer"])
        if one.get("head") is not None:
            heads = heads.head(one["head"])
        what, value = one["what"], one.get("value") or 0
        if what == "mute":
            heads.mute()
        else:
            getattr(heads, what)(value if what == "temperature" else int(value))


def _candidates(opened: Any, inputs: Any, logits: Tensor | None, query: int | None) -> list[list[Any]]:
    """[[piece, probability], …] of the next token after a position."""
    if logits is None or logits.dim() != 3:
        return []
    place = logits.shape[1] - 1 if query is None else min(query, logits.shape[1] - 1)
    best = logits[0, place].double().softmax(-1).topk(min(SHOWN, logits.shape[-1]))
    return [[_piece(opened, inputs, int(i)), _number(float(p))] for p, i in zip(best.values, best.indices, strict=True)]


def _piece(opened: Any, inputs: Any, number: int) -> str:
    from ....sight.views.token_display import display_tokens

    one = torch.tensor([[number]])
    made = (
        one
        if isinstance(inputs, Tensor)
        else {**inputs, "input_ids": one, "decoder_input_ids": one}
        if isinstance(inputs, dict)
        else (*inputs[:2], one)
    )
    return display_tokens(opened.tokens(made)[0][0])[0].text


def _number(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
