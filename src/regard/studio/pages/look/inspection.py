"""The attention of every head of a model on a text, exact weights of a rectangle, and the effect of changing heads."""

from __future__ import annotations

import bisect
import math
import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...memory import check_memory, free_bytes, inspection_bytes
from ...request_error import RequestError
from ...worker_state import WorkerState

if TYPE_CHECKING:
    from ....sight.effect import Outcome
    from ....training.tasks.translation import Translations

MAX_TOKENS = 100_000
CANDIDATES = 6  # for the next token
MAX_EFFECTS = 256  # positions whose change is returned one by one
MAX_LABELLED = 256  # tokens up to which heads are labelled on the text itself


def look(state: WorkerState, model: str, text: str, labels: bool = True, changes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The sighting in the form the page draws: every head with its labels and proof; up to 100,000 tokens."""
    from ....sight.views.payload import build_payload

    inputs, length = _inputs(state, model, text)
    start = time.perf_counter()
    sighting, logits = _watch(state, model, inputs, changes or [])
    if not len(sighting):
        missed = "; ".join(f"{m.name}: {m.advice}" for m in sighting.missed) or "it has no attention that can be recorded"
        raise RequestError("unseen", f"the attention of {model} cannot be recorded: {missed}", name=model)
    took = time.perf_counter() - start
    if labels and (head_labels := state.labels(model)) is not None:
        sighting = sighting.with_labels(head_labels)
    state.progress.report(0.95)
    opened, read = state.opened(model), state.opened(model).length(inputs)
    payload = build_payload(sighting, title=model, level=0 if read <= MAX_LABELLED else 6)  # of a short text, compressing takes longest
    if labels:
        _add_labels_here(sighting, payload)
    return {
        "sight": state.keep(sighting),
        "model": model,
        "read": read,
        "whole": length,
        "took": round(took, 4),
        "payload": payload,
        "next": _candidates(opened, inputs, logits, None),
    }


def _add_labels_here(sighting: Any, payload: dict[str, Any]) -> None:
    """Add to every call of a short text what its heads do on this text, as `here`: [[label, score], …] a head."""
    from ....sight.labels import labels_on_text
    from ....sight.views.heatmaps import exact_weights

    groups: dict[tuple[str, int, int], list[tuple[Tensor, dict[str, Any]]]] = {}  # calls alike are labelled together
    for seen, entry in zip(sighting, payload["seen"], strict=True):
        L, S = len(seen.query_pos), len(seen.key_pos)
        weights = exact_weights(seen, 0) if 1 < L <= MAX_LABELLED and S <= MAX_LABELLED else None
        if weights is not None:
            groups.setdefault((seen.kind, L, S), []).append((weights, entry))
    for (kind, _, _), calls in groups.items():
        own = (sighting.tokens or [[]])[0] if kind in ("causal", "self") else []
        labels = iter(labels_on_text(torch.cat([weights for weights, _ in calls]), own, kind=kind))
        for weights, entry in calls:
            entry["here"] = [[[name, round(score, 4)] for name, score in next(labels)] for _ in weights]


def tile(state: WorkerState, sight: str, layer: int, call: int, head: int, rows: list[int], cols: list[int]) -> dict[str, Any]:
    """Exact weights of a rectangle, row by row, computed from the queries and keys of a sighting."""
    sighting = state.sighting(sight)
    if sighting is None:
        raise RequestError("unknown_sight", "this sighting is no longer kept; inspect the text again", sight=sight)
    try:
        weights = sighting.head(layer, head, call=call).tile(rows=slice(*rows), cols=slice(*cols))
    except (ValueError, IndexError, KeyError) as error:
        raise RequestError("invalid", str(error)) from error
    return {"weights": [float(f"{w:.6g}") for w in weights.flatten().tolist()]}


def what_if(state: WorkerState, model: str, text: str, changes: list[dict[str, Any]], query: int | None = None) -> dict[str, Any]:
    """The effect of changes on the output: the candidates for the next token before and after, and the change at each token."""
    from ....sight import change
    from ....sight.effect import Effect, evaluation_mode

    inputs, _ = _inputs(state, model, text)
    opened = state.opened(model)
    with warnings.catch_warnings(), state.progress.follow(opened.model, passes=2), evaluation_mode(opened.model):
        warnings.simplefilter("ignore")
        before = _outcome(state, model, inputs)
        try:
            with change(opened.model) as changed:
                _apply(changed, changes)
                after = _outcome(state, model, inputs)
                effect = Effect.of(before, after, inputs)
        except IndexError as error:
            raise RequestError("invalid", str(error)) from error
    difference = effect.kl if effect.kl is not None else None if effect.cosine is None else 1 - effect.cosine
    each = [] if difference is None or difference.dim() != 2 else [_number(x) for x in difference[0, -MAX_EFFECTS:].tolist()]
    return {
        "measure": "kl" if effect.kl is not None else "cosine",
        "mean": _number(effect.mean_kl if effect.kl is not None else 1 - effect.mean_cosine),
        "each": each,
        "before": _candidates(opened, inputs, before.logits, query),
        "after": _candidates(opened, inputs, after.logits, query),
    }


def _inputs(state: WorkerState, model: str, text: str) -> tuple[Any, int]:
    """The model's inputs, truncated to the limits of the model and of the studio, and the number of tokens before that."""
    opened, left_out = state.opened(model), 0
    try:
        if state.library.find(model).kind == "translator":
            text, left_out = truncate(state.translator(model), text)
        inputs = state.encoded(model, text)
    except ValueError as error:
        raise RequestError("invalid", str(error)) from error
    length = opened.length(inputs) + left_out
    if not length:
        raise RequestError("invalid", "the text has no tokens; give at least one word")
    limit = min(MAX_TOKENS, opened.limit or MAX_TOKENS)
    if length > limit:
        inputs = opened.cut(inputs, limit)
    check_memory(free_bytes(), inspection_bytes(opened.model, min(length, limit)), f"reading {min(length, limit):,} tokens")
    state.set_threads(min(length, limit))
    return inputs, length


def truncate(opened: Translations, text: str) -> tuple[str, int]:
    """The text cut to the length the translator was trained on, since it has to translate it, and the number of tokens left out."""
    if opened.fits(text):
        return text, 0
    end = bisect.bisect_left(range(len(text)), True, key=lambda size: not opened.fits(text[: size + 1]))
    return text[:end], len(opened.encode([text])[0]) - len(opened.encode([text[:end]])[0])


def _watch(state: WorkerState, model: str, inputs: Any, changes: list[dict[str, Any]]) -> tuple[Any, Tensor | None]:
    """The sighting of one forward pass, and its logits."""
    from ....sight import change, watch
    from ....sight.effect import evaluation_mode

    opened = state.opened(model)
    tokens, source_tokens = opened.tokens(inputs)
    readings = _readings(max(len(row) for rows in (tokens, source_tokens) for row in rows or []))
    with warnings.catch_warnings(), state.progress.follow(opened.model, end=0.9), evaluation_mode(opened.model):
        warnings.simplefilter("ignore")
        try:
            changed: AbstractContextManager[Any] = change(opened.model) if changes else nullcontext()  # its hooks take time too
            with changed, watch(opened.model, readings, tokens=tokens) as sighting:
                _apply(changed, changes)
                logits = _outcome(state, model, inputs).logits
        except IndexError as error:
            raise RequestError("invalid", str(error)) from error
    sighting.model, sighting.source_tokens = model, source_tokens
    return sighting, logits


def _readings(length: int) -> list[Any]:
    """The readings of `watch`; for a short text the map has all its weights, which need not be computed again then."""
    from ....readings import Pooled
    from ....sight.watch import default_readings

    readings = default_readings()
    return readings if length > MAX_LABELLED else [*(r for r in readings if r.name != Pooled.name), Pooled(length, length)]


def _outcome(state: WorkerState, model: str, inputs: Any) -> Outcome:
    """The output of the model; of a translator without logits only the hidden states."""
    from ....sight.effect import Outcome, outcome

    result = outcome(state.opened(model).model, inputs)
    without_logits = state.library.find(model).kind == "translator" and result.logits is None
    return Outcome(result.hidden, None) if without_logits else result


def _apply(changed: Any, changes: list[dict[str, Any]]) -> None:
    """Apply the changes of a request to a `regard.change` block."""
    for entry in changes:
        heads = changed.layer(entry["layer"])
        if entry.get("head") is not None:
            heads = heads.head(entry["head"])
        kind, value = entry["what"], entry.get("value") or 0
        if kind == "mute":
            heads.mute()
        else:
            getattr(heads, kind)(value if kind == "temperature" else int(value))


def _candidates(opened: Any, inputs: Any, logits: Tensor | None, query: int | None) -> list[list[Any]]:
    """The most likely next tokens after a position: [[token, probability], …]."""
    if logits is None or logits.dim() != 3:
        return []
    position = logits.shape[1] - 1 if query is None else min(query, logits.shape[1] - 1)
    best = logits[0, position].double().softmax(-1).topk(min(CANDIDATES, logits.shape[-1]))
    return [[_token_text(opened, inputs, int(i)), _number(float(p))] for p, i in zip(best.values, best.indices, strict=True)]


def _token_text(opened: Any, inputs: Any, token: int) -> str:
    """A token id as readable text; the space before a word is written as "·"."""
    from ....sight.views.token_display import display_tokens

    ids = torch.tensor([[token]])
    token_inputs = (
        ids
        if isinstance(inputs, Tensor)
        else {**inputs, "input_ids": ids, "decoder_input_ids": ids}
        if isinstance(inputs, dict)
        else (*inputs[:2], ids)
    )
    shown = display_tokens(opened.tokens(token_inputs)[0][0])[0]
    return f"·{shown.text}" if shown.mark == "_" and shown.text else shown.label


def _number(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
