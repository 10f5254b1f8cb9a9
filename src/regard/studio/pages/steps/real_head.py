"""How a weight of a real head is computed, with the model's own numbers: only the columns that matter, the rest summed.

Axes: S keys, d head width, D model width.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from ...page import RequestBody
from ...request_error import RequestError
from ...worker_state import WorkerState
from ..look.inspection import truncate

COLUMNS = 6  # of a vector that are shown
KEYS = 6  # whose values are shown
MAX_TOKENS = 512
Number = Annotated[int, Field(ge=0, le=10_000)]


class RealHeadRequest(RequestBody):
    """A model, a text, and one weight: layer, head, query and key."""

    model: Annotated[str, Field(max_length=120)]
    text: Annotated[str, Field(min_length=1, max_length=20_000)]
    layer: Number
    head: Number
    query: Number
    key: Number | None = None
    kind: Literal["causal", "self", "encoder", "cross"] | None = None  # of the layer, as the Inspect page names it


def real_head(
    state: WorkerState, model: str, text: str, layer: int, head: int, query: int, key: int | None = None, kind: str | None = None
) -> dict[str, Any]:
    """Query, key, products, score, mask, softmax, values, the head's output and what it adds, with the model's numbers."""
    from ....sight.arithmetic import head_arithmetic

    opened = state.opened(model)
    if state.library.find(model).kind == "translator":
        text, _ = truncate(state.translator(model), text)  # as the Inspect page does, so that the positions are the same
    inputs = state.encoded(model, text)
    inputs = opened.cut(inputs, min(MAX_TOKENS, opened.limit or MAX_TOKENS))
    state.set_threads(1)
    try:
        steps = head_arithmetic(opened.model, inputs, layer=layer, head=head, query=query)
    except (IndexError, ValueError) as error:
        raise RequestError("invalid", str(error)) from error
    queries, keys = _tokens(opened.tokens(inputs), len(steps.weights), kind)
    chosen = int(steps.weights.argmax()) if key is None or key >= len(keys) else key
    order = steps.weights.argsort(descending=True)[:KEYS].tolist()
    shown = [*order, *([] if chosen in order else [chosen])]
    products = steps.query * steps.keys[chosen]
    return {
        "model": model, "layer": layer, "head": head, "name": steps.name, "query": query, "key": chosen, "width": len(steps.query),
        "tokens": keys, "query_token": queries[query] if query < len(queries) else str(query), "query_is_key": keys is queries,
        "terms": _columns(products, {"query": steps.query, "key": steps.keys[chosen]}), "product": _n(steps.products[chosen]),
        "factor": steps.factor, "scores": [_n(s) for s in steps.scores], "extra": _extra(steps, chosen),
        "weights": [_n(w) for w in steps.weights], "largest": _n(steps.scores.amax()),
        "total": _n((steps.scores - steps.scores.amax()).exp().sum()),
        "values": _values(steps, shown), "output": _columns(steps.output, {}), "output_length": _n(steps.output.norm()),
        "added": None if steps.added is None else _added(steps.added),
    }  # fmt: skip


def _tokens(tokens: tuple[Any, Any], count: int, kind: str | None) -> tuple[list[str], list[str]]:
    """The tokens of the queries and of the `count` keys; the same list where a layer attends to its own sequence."""
    from ....sight.views.token_display import display_tokens

    target, source = ([one.label for one in display_tokens((rows or [[]])[0])] for rows in tokens)
    if kind == "encoder":
        queries = keys = source
    else:
        queries, keys = target, source if kind == "cross" or (kind is None and len(target) != count) else target
    return queries, keys if len(keys) == count else [str(i) for i in range(count)]


def _added(vector: Tensor) -> dict[str, Any]:
    return {**_columns(vector, {}), "length": _n(vector.norm()), "width": len(vector)}


def _extra(steps: Any, key: int) -> float | None:
    """What the model adds to the scaled product (a bias, a soft cap); 0 for plain dot-product attention."""
    extra = float(steps.scores[key] - steps.factor * steps.products[key])
    return None if not math.isfinite(extra) else _n(extra) if abs(extra) > 1e-6 else 0.0


def _columns(vector: Tensor, beside: dict[str, Tensor]) -> dict[str, Any]:
    """The largest entries of a vector with those of others beside them, and how many are left out with which sum."""
    places = sorted(vector.abs().argsort(descending=True)[:COLUMNS].tolist())
    rest = [i for i in range(len(vector)) if i not in places]
    return {
        "places": places, "numbers": [_n(vector[i]) for i in places], "rest": len(rest), "rest_sum": _n(vector[rest].sum()),
        **{name: [_n(other[i]) for i in places] for name, other in beside.items()},
    }  # fmt: skip


def _values(steps: Any, keys: list[int]) -> dict[str, Any]:
    """The values of the heaviest keys at the output's largest entries, and what all other keys add there."""
    places = sorted(steps.output.abs().argsort(descending=True)[:COLUMNS].tolist())
    others = torch.ones(len(steps.weights), dtype=torch.bool)
    others[keys] = False
    return {
        "keys": keys, "places": places, "rows": [[_n(steps.values[k, i]) for i in places] for k in keys],
        "others": int(others.sum()), "others_weight": _n(steps.weights[others].sum()),
        "others_add": [_n(x) for x in (steps.weights[others] @ steps.values[others])[places]] if bool(others.any()) else [],
    }  # fmt: skip


def _n(value: Any) -> float | None:
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else None
