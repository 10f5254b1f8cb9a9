"""The Steps page: attention over a few words, step by step. Every number comes from `regard`, in float64.

Axes: n words, d width of an embedding, k width of a head.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from ....choices import Argmax, Choice, Entmax15, Sample, Softmax, Sparsemax
from ....masks import Mask, causal, window
from ....scores import Additive, Bilinear, Dot, Score
from ...page import Endpoint, Number, Page, RequestBody, WorkerEndpoint
from .real_head import RealHeadRequest, real_head

Row = Annotated[list[Number], Field(min_length=1, max_length=12)]
Matrix = Annotated[list[Row], Field(min_length=1, max_length=12)]
Temperature = Annotated[float, Field(ge=1e-3, le=1e3, allow_inf_nan=False)]


class Head(RequestBody):
    """The four matrices of a head: query, key and value (d, k), and output (k, d)."""

    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix


class StepsRequest(RequestBody):
    """Embeddings (n, d), heads, and the settings of the computation."""

    embeddings: Matrix
    heads: Annotated[list[Head], Field(min_length=1, max_length=4)]
    score: Literal["dot", "additive", "bilinear"] = "dot"
    scaled: bool = True
    mask: Literal["none", "causal", "window"] = "causal"
    window: Annotated[int, Field(ge=0, le=12)] = 1
    temperature: Temperature = 1.0
    choice: Literal["softmax", "sparsemax", "entmax15", "argmax", "sample"] = "softmax"
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    bilinear: Matrix | None = Field(None, description="W of the bilinear score (k, k); the identity by default")
    additive: Annotated[list[Number], Field(max_length=12)] | None = Field(None, description="v of the additive score; ones by default")

    @model_validator(mode="after")
    def _check_shapes(self) -> StepsRequest:
        d = len(self.embeddings[0])
        _check_shape("embeddings", self.embeddings, len(self.embeddings), d)
        for number, head in enumerate(self.heads):
            k = len(head.query[0])
            for name in ("query", "key", "value"):
                _check_shape(f"{name} of head {number}", getattr(head, name), d, k)
            _check_shape(f"output of head {number}", head.output, k, d)
            if self.bilinear is not None:
                _check_shape("bilinear", self.bilinear, k, k)
            if self.additive is not None and len(self.additive) != k:
                raise ValueError(f"additive has {len(self.additive)} numbers; expected {k}, one for each column of a head")
        return self


def _check_shape(name: str, matrix: list[list[float]], rows: int, columns: int) -> None:
    """Raise ValueError unless the matrix is rows × columns."""
    if len(matrix) != rows or any(len(row) != columns for row in matrix):
        raise ValueError(f"{name} is {len(matrix)} × {sorted({len(row) for row in matrix})}; expected {rows} × {columns}")


def steps(request: StepsRequest) -> dict[str, Any]:
    """Q, K, V → scores → scaled → masked → weights → output of each head → ΔE → E + ΔE."""
    e = torch.tensor(request.embeddings, dtype=torch.float64)
    heads = [_head(e, head, request) for head in request.heads]
    change = sum((head["change"] for head in heads), torch.zeros_like(e))
    proof = max(head.pop("error") for head in heads)
    head_results = [{name: _to_lists(value) if isinstance(value, Tensor) else value for name, value in head.items()} for head in heads]
    return {"heads": head_results, "change": _to_lists(change), "result": _to_lists(e + change), "proof": proof}


def _head(e: Tensor, head: Head, request: StepsRequest) -> dict[str, Any]:
    from ....attention import observe

    wq, wk, wv, wo = (torch.tensor(x, dtype=torch.float64) for x in (head.query, head.key, head.value, head.output))
    q, k, v = e @ wq, e @ wk, e @ wv  # (n, k)
    width = q.shape[-1]
    score = _score(request, width)
    raw = score(q, k)  # (n, n)
    factor = 1 / math.sqrt(width) if request.scaled and request.score != "additive" else 1.0
    scaled = raw * factor
    mask, choice = _mask(request), _choice(request, request.temperature)
    generator = torch.Generator().manual_seed(request.seed)
    # The whole computation in one call; the steps below must give the same. The scale is applied through the temperature.
    attended = observe(
        q, k, v, score=score, mask=mask, choice=_choice(request, request.temperature / factor), generator=generator, kernel="reference"
    )
    visible = torch.ones(len(e), len(e), dtype=torch.bool) if mask is None else mask.dense(len(e), len(e)).reshape(len(e), len(e))
    masked = scaled.masked_fill(~visible, -math.inf)
    weights = nn.functional.one_hot(attended.index, len(e)).double() if attended.index is not None else choice(masked)
    output = attended.output  # (n, k)
    return {
        "query": q, "key": k, "value": v, "raw": raw, "scaled": scaled, "masked": masked, "weights": weights, "output": output,
        "change": output @ wo, "factor": factor, "picked": None if attended.index is None else attended.index.tolist(),
        "log_prob": None if attended.log_prob is None else [round(x, 6) for x in attended.log_prob.tolist()],
        "error": float((weights @ v - output).abs().max()),
    }  # fmt: skip


def _score(request: StepsRequest, width: int) -> Score:
    if request.score == "additive":
        score: Score = Additive(width, width, hidden=width)
        values = {"U": torch.eye(width), "W": torch.eye(width), "v": torch.tensor(request.additive or [1.0] * width)}
    elif request.score == "bilinear":
        score = Bilinear(width, width)
        values = {"W": torch.eye(width) if request.bilinear is None else torch.tensor(request.bilinear)}
    else:
        return Dot()
    score = score.double()
    score.load_state_dict({name: value.double() for name, value in values.items()})
    return score.requires_grad_(False)


def _mask(request: StepsRequest) -> Mask | None:
    return {"none": None, "causal": causal(), "window": window(request.window, request.window)}[request.mask]


def _choice(request: StepsRequest, temperature: float) -> Choice:
    kinds: dict[str, type[Choice]] = {
        "softmax": Softmax, "sparsemax": Sparsemax, "entmax15": Entmax15, "argmax": Argmax, "sample": Sample
    }  # fmt: skip
    return kinds[request.choice](temperature)


class LookUpRequest(RequestBody):
    """A query between two keys: `mix` 0 is the key `asked`, 1 is the key `toward`."""

    asked: Literal["apple", "banana", "cherry", "durian"] = "cherry"
    toward: Literal["apple", "banana", "cherry", "durian"] = "apple"
    mix: Annotated[float, Field(ge=0, le=1)] = 0.0
    temperature: Temperature = 0.2


def lookup(request: LookUpRequest) -> dict[str, Any]:
    """The value of a dict lookup (null if no key equals the query) and the soft lookup, step by step."""
    from ....attention import attend
    from ....demos.lookup import PRICES

    names, values = list(PRICES), torch.tensor(list(PRICES.values()), dtype=torch.float64).unsqueeze(-1)
    g = torch.Generator().manual_seed(3)
    key = nn.functional.normalize(torch.randn(len(PRICES), 6, generator=g, dtype=torch.float64), dim=-1)
    query = torch.lerp(key[names.index(request.asked)], key[names.index(request.toward)], request.mix).unsqueeze(0)
    scores = Dot()(query, key)
    soft = Softmax(temperature=request.temperature)
    crisp = next((float(values[i]) for i in range(len(names)) if torch.equal(query[0], key[i])), None)
    return {
        "keys": names,
        "values": list(PRICES.values()),
        "crisp": crisp,
        "scores": _to_lists(scores)[0],
        "weights": _to_lists(soft(scores))[0],
        "soft": float(attend(query, key, values, score=Dot(), choice=soft)),
        "hard": float(attend(query, key, values, score=Dot(), choice=Argmax())),
    }


class WidthRequest(RequestBody):
    """The width d of queries and keys."""

    d: Annotated[int, Field(ge=1, le=4096)] = 64


def width(request: WidthRequest) -> dict[str, Any]:
    """Variance of the scores, largest weight, gradient with respect to the scores, and one row of weights, without and with 1/√d."""
    from ....demos.why_sqrt_d import measure
    from ....scores import ScaledDot

    result: dict[str, Any] = {"d": request.d}
    g = torch.Generator().manual_seed(7)
    q, k = torch.randn(1, 4096, generator=g, dtype=torch.float64), torch.randn(16, 4096, generator=g, dtype=torch.float64)
    with torch.enable_grad():
        for name, score in (("dot", Dot()), ("scaled", ScaledDot())):
            variance, largest, gradient = measure(score, request.d, queries=128)
            row = Softmax()(score(q[:, : request.d], k[:, : request.d]))[0]
            result[name] = {"variance": variance, "largest": largest, "gradient": gradient, "row": _to_lists(row)}
    return result


class DeskRequest(RequestBody):
    """A query over the features of the things on a desk: bright, to read, to drink, to write on."""

    query: Annotated[list[Number], Field(min_length=4, max_length=4)] = Field(default_factory=lambda: [0.0, 2.0, 0.0, 0.0])


def desk(request: DeskRequest) -> dict[str, Any]:
    """The weights of the things on a desk under two fixed queries and the given one, and without a query."""
    from ....demos.two_queries import DESK, FEATURES, QUERIES, THINGS, run

    fixed, x = run(), torch.tensor(DESK, dtype=torch.float64)
    own = Softmax()(Dot()(torch.tensor([request.query], dtype=torch.float64), x))[0]
    focused = {**fixed.focused, "yours": _to_lists(own)}
    return {
        "things": list(THINGS), "features": list(FEATURES), "desk": [list(row) for row in DESK],
        "queries": {**{name: list(q) for name, q in QUERIES.items()}, "yours": request.query}, "salient": fixed.salient, "focused": focused,
    }  # fmt: skip


def _to_lists(values: Tensor) -> Any:
    """Nested lists, in which −∞ (masked) becomes null."""
    if values.dim() > 1:
        return [_to_lists(row) for row in values]
    return [x if math.isfinite(x) else None for x in values.tolist()]


PAGE = Page(
    name="steps",
    order=4,
    endpoints=(
        Endpoint("", steps, "Every step of attention, with its numbers", StepsRequest),
        Endpoint("/lookup", lookup, "Dict lookup and soft lookup", LookUpRequest),
        Endpoint("/width", width, "Why √d: random queries and keys of a width", WidthRequest),
        Endpoint("/desk", desk, "One input under several queries", DeskRequest),
        WorkerEndpoint("/head", real_head, "How a weight of a real head is computed", RealHeadRequest, seconds=120),
    ),
)
