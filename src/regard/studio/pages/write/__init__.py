"""The Write page: a prompt through the layers of a language model to the next token, and which heads and MLPs its logit comes from.

Axes: l layers, L tokens, V vocabulary.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field, model_validator

from ...library import Library
from ...memory import check_memory, free_bytes, inspection_bytes
from ...page import Page, RequestBody, WorkerEndpoint
from ...request_error import RequestError
from ...worker_state import WorkerState

if TYPE_CHECKING:
    from ....sight.residual import ResidualPath

CANDIDATES = 12  # for the next token
READ_BY_LAYER = 5  # predictions after every layer and prefix
MAX_TOKENS = 256
ROUNDING = 1e-5  # of float32, as a share of the sizes of a logit's parts
LENS_WORK = 4e10  # multiplications the predictions after every layer may take; a large model gets fewer prefixes
PROMPTS = {"english": "I don't know what", "shakespeare": "ROMEO:\nBut, soft! what light"}
Id = Annotated[int, Field(ge=0, le=10**7)]
Ids = Annotated[list[Id], Field(min_length=1, max_length=4096)]


class Muted(RequestBody):
    """A head whose output is replaced by zero."""

    layer: Annotated[int, Field(ge=0, le=1000)]
    head: Annotated[int, Field(ge=0, le=1000)]


class WriteRequest(RequestBody):
    """A model, a prompt as text or as token ids, how the next token is drawn, and how many tokens to write first (0 or 1)."""

    model: Annotated[str, Field(max_length=120)]
    text: Annotated[str, Field(min_length=1, max_length=4000)] | None = None
    ids: Ids | None = None
    write: Annotated[int, Field(ge=0, le=1)] = 0
    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    top_k: Annotated[int, Field(ge=1, le=10**6)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    muted: Annotated[list[Muted], Field(max_length=64)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check(self) -> WriteRequest:
        if (self.text is None) == (self.ids is None):
            raise ValueError("give the prompt either as text or as ids")
        return self


class WhyRequest(RequestBody):
    """A model, the ids of a text, and the token whose logit after `position` is split into its parts."""

    model: Annotated[str, Field(max_length=120)]
    ids: Ids
    token: Id
    position: Annotated[int, Field(ge=0, le=4096)] | None = None
    muted: Annotated[list[Muted], Field(max_length=64)] = Field(default_factory=list)


def write(
    state: WorkerState, model: str, text: str | None = None, ids: list[int] | None = None, write: int = 0, temperature: float = 1.0,
    top_k: int | None = None, top_p: float | None = None, seed: int = 0, muted: list[dict[str, int]] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The tokens, what every block added, the predictions after every layer and prefix, and the next token's probabilities."""
    opened = state.generator(model)
    prompt, whole = _ids(opened, text, ids)
    sampling: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    path = _path(state, model, prompt, muted)
    written = None
    if write:
        from ....models.sampling import next_token

        generator = torch.Generator().manual_seed(seed)
        written = int(next_token(path.logits[-1], **sampling, generator=generator))
        prompt = [*prompt, written][-_limit(opened) :]
        path = _path(state, model, prompt, muted)
    return {
        "model": model, "ids": prompt, "tokens": _tokens(opened, prompt), "read": len(prompt), "whole": whole, "written": written,
        "ended": written is not None and written in getattr(opened, "stops", ()), "layers": len(path.mixed),
        "heads": int(path.model.config.heads), "added": _added(path), "lens": _lens(opened, path), "next": _next(opened, path, sampling),
    }  # fmt: skip


def why(
    state: WorkerState, model: str, ids: list[int], token: int, position: int | None = None, muted: list[dict[str, int]] | None = None
) -> dict[str, Any]:
    """The parts of one logit: embedding, every head, every MLP, biases; their sum is the logit."""
    opened = state.generator(model)
    prompt, _ = _ids(opened, None, ids)
    path = _path(state, model, prompt, muted)
    place = len(prompt) - 1 if position is None else position
    if place >= len(prompt) or token >= path.logits.shape[-1]:
        raise RequestError("invalid", f"token {token} after position {place} does not exist; the text has {len(prompt)} tokens")
    parts = path.contributions(token, place)
    total, logit = sum(part.value for part in parts), float(path.logits[place, token])
    return {
        "token": _tokens(opened, [token])[0], "position": place, "logit": _number(logit, 7), "sum": _number(total, 7),
        "error": _number(abs(total - logit), 2), "holds": abs(total - logit) <= ROUNDING * (1 + sum(abs(p.value) for p in parts)),
        "parts": [[p.kind, p.layer, p.head, _number(p.value)] for p in parts],
    }  # fmt: skip


def _ids(opened: Any, text: str | None, ids: list[int] | None) -> tuple[list[int], int]:
    """The last tokens the model can read, and how many there were."""
    size = opened.model.config.vocabulary
    if ids is not None and max(ids) >= size:
        raise RequestError("invalid", f"id {max(ids)} is not in the vocabulary of {size:,} tokens")
    tokens = list(ids) if ids is not None else opened.encode(text)
    if not tokens:
        raise RequestError("invalid", "the text has no tokens; give at least one word")
    return tokens[-_limit(opened) :], len(tokens)


def _limit(opened: Any) -> int:
    return min(MAX_TOKENS, opened.limit or MAX_TOKENS)


def _path(state: WorkerState, model: str, ids: list[int], muted: list[dict[str, int]] | None) -> ResidualPath:
    from ....sight import change
    from ....sight.residual import residual_path

    opened = state.generator(model)
    config = opened.model.config
    if wrong := [one for one in muted or [] if one["layer"] >= config.layers or one["head"] >= config.heads]:
        place = f"layer {wrong[0]['layer']}, head {wrong[0]['head']}"
        raise RequestError(
            "invalid", f"{place} cannot be muted: {model} has {config.layers} layers of {config.heads} heads, counted from 0"
        )
    state.set_threads(len(ids))
    check_memory(free_bytes(), inspection_bytes(opened.model, len(ids)), f"reading {len(ids):,} tokens")
    try:
        with change(opened.model) as changed:
            for one in muted or []:
                changed.layer(one["layer"]).head(one["head"]).mute()
            return residual_path(opened.model, torch.tensor(ids))
    except (IndexError, ValueError) as error:
        raise RequestError("invalid", str(error)) from error


def _tokens(opened: Any, ids: list[int]) -> list[str]:
    """Tokens as readable text; the space before a word is written as "·", a space alone as "␣"."""
    from ....sight.views.token_display import display_tokens

    return [f"·{one.text}" if one.mark == "_" and one.text else one.label for one in display_tokens(opened.token_texts(ids))]


def _added(path: ResidualPath) -> dict[str, Any]:
    """Lengths of vectors: the stream before each block, and what attention and MLP of each block added, (l, L) each."""
    return {
        "stream": [[_number(x, 4) for x in row] for row in path.states.norm(dim=-1).tolist()],
        "attention": [[_number(x, 4) for x in row] for row in path.attention.norm(dim=-1).tolist()],
        "mlp": [[_number(x, 4) for x in row] for row in path.mlp.norm(dim=-1).tolist()],
    }


def _lens(opened: Any, path: ResidualPath) -> dict[str, Any]:
    """The most likely tokens after every layer and prefix: first (a position) and rows[layer][position] = [[token, probability], …]."""
    width, vocabulary = path.states.shape[-1], path.logits.shape[-1]
    most = max(1, int(LENS_WORK / (len(path.states) * width * vocabulary)))
    first = max(0, len(path.ids) - most)
    values, ids = path.predictions(READ_BY_LAYER, range(first, len(path.ids)))
    names = dict(zip(ids.unique().tolist(), _tokens_one_by_one(opened, ids.unique().tolist()), strict=True))
    rows = [
        [[[names[i], _number(p, 6)] for p, i in zip(pv, iv, strict=True)] for pv, iv in zip(values_of, ids_of, strict=True)]
        for values_of, ids_of in zip(values.tolist(), ids.tolist(), strict=True)
    ]
    return {"first": first, "rows": rows}


def _tokens_one_by_one(opened: Any, ids: list[int]) -> list[str]:
    """Tokens that do not follow each other, so that bytes of different characters are not joined."""
    return [_tokens(opened, [i])[0] for i in ids]


def _next(opened: Any, path: ResidualPath, sampling: dict[str, Any]) -> list[dict[str, Any]]:
    """The most likely next tokens: their logit, probability, and the probability they are drawn with."""
    from ....models.sampling import next_distribution

    logits = path.logits[-1]
    drawn = next_distribution(logits, **sampling)
    probabilities = logits.double().softmax(-1)
    best = logits.topk(min(CANDIDATES, logits.shape[-1])).indices.tolist()
    return [
        {"id": i, "token": _tokens(opened, [i])[0], "logit": _number(float(logits[i])), "p": _number(float(probabilities[i])),
         "drawn": _number(float(drawn[i]))} for i in best
    ]  # fmt: skip


def _number(value: float, digits: int = 5) -> float | None:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def initial_request(library: Library) -> dict[str, Any] | None:
    """A prompt for the included English model, or for another language model."""
    names = [name for name, model in library.models.items() if model.writes]
    if not names:
        return None
    name = next((n for n in PROMPTS if n in names), names[0])
    return {"model": name, "text": PROMPTS.get(name, "the quick brown")}


PAGE = Page(
    name="write",
    order=5,
    endpoints=(
        WorkerEndpoint("", write, "Where the next token comes from", WriteRequest, seconds=120),
        WorkerEndpoint("/why", why, "The parts of one logit", WhyRequest, seconds=120),
    ),
    initial_request=initial_request,
)
