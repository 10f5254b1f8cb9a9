"""Steps: attention by hand on a few words. Every number comes from `regard`, in float64.

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
from ...page import Endpoint, Number, Page, RequestBody

Row = Annotated[list[Number], Field(min_length=1, max_length=12)]
Matrix = Annotated[list[Row], Field(min_length=1, max_length=12)]
Temperature = Annotated[float, Field(ge=1e-3, le=1e3, allow_inf_nan=False)]


class Head(RequestBody):
    """The four maps of a head: query, key and value (d, k), and output (k, d), the way back."""

    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix


class StepsRequest(RequestBody):
    """Embeddings (n, d), heads, and the switches."""

    embeddings: Matrix
    heads: Annotated[list[Head], Field(min_length=1, max_length=4)]
    score: Literal["dot", "additive", "bilinear"] = "dot"
    scaled: bool = True
    mask: Literal["none", "causal", "window"] = "causal"
    window: Annotated[int, Field(ge=0, le=12)] = 1
    temperature: Temperature = 1.0
    choice: Literal["softmax", "sparsemax", "entmax15", "argmax", "sample"] = "softmax"
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    bilinear: Matrix | None = Field(None, description="W of the bilinear score (k, k); the unit matrix by default")
    additive: Annotated[list[Number], Field(max_length=12)] | None = Field(None, description="v of the additive score; ones by default")

    @model_validator(mode="after")
    def _fits(self) -> StepsRequest:
        d = len(self.embeddings[0])
        _check("embeddings", self.embeddings, len(self.embeddings), d)
        for number, head in enumerate(self.heads):
            k = len(head.query[0])
            for name in ("query", "key", "value"):
                _check(f"{name} of head {number}", getattr(head, name), d, k)
            _check(f"output of head {number}", head.output, k, d)
            if self.bilinear is not None:
                _check("bilinear", self.bilinear, k, k)
            if self.additive is not None and len(self.additive) != k:
                raise ValueError(f"additive has {len(self.additive)} numbers; expected {k}, one for each column of a head")
        return self


def _check(name: str, matrix: list[list[float]], rows: int, columns: int) -> None:
    if len(matrix) != rows or any(len(row) != columns for row in matrix):
        raise ValueError(f"{name} is {len(matrix)} × {sorted({len(row) for row in matrix})}; expected {rows} × {columns}")


def steps(asked: StepsRequest) -> dict[str, Any]:
    """Q, K, V → scores → scaled → masked → weights → what each head gives → ΔE → E + ΔE."""
    e = torch.tensor(asked.embeddings, dtype=torch.float64)
    heads = [_head(e, head, asked) for head in asked.heads]
    change = sum((head["change"] for head in heads), torch.zeros_like(e))
    proof = max(head.pop("error") for head in heads)
    shown = [{name: _plain(value) if isinstance(value, Tensor) else value for name, value in head.items()} for head in heads]
    return {"heads": shown, "change": _plain(change), "result": _plain(e + change), "proof": proof}


def _head(e: Tensor, head: Head, asked: StepsRequest) -> dict[str, Any]:
    from ....attention import observe

    wq, wk, wv, wo = (torch.tensor(x, dtype=torch.float64) for x in (head.query, head.key, head.value, head.output))
    q, k, v = e @ wq, e @ wk, e @ wv  # (n, k)
    width = q.shape[-1]
    score = _score(asked, width)
    raw = score(q, k)  # (n, n)
    factor = 1 / math.sqrt(width) if asked.scaled and asked.score != "additive" else 1.0
    scaled = raw * factor
    mask, choice = _mask(asked), _choice(asked, asked.temperature)
    generator = torch.Generator().manual_seed(asked.seed)
    # All at once, as a model would; the stages below must come to the same. Scaling is one more division, like the temperature.
    seen = observe(
        q, k, v, score=score, mask=mask, choice=_choice(asked, asked.temperature / factor), generator=generator, kernel="reference"
    )
    visible = torch.ones(len(e), len(e), dtype=torch.bool) if mask is None else mask.dense(len(e), len(e)).reshape(len(e), len(e))
    masked = scaled.masked_fill(~visible, -math.inf)
    weights = nn.functional.one_hot(seen.index, len(e)).double() if seen.index is not None else choice(masked)
    output = seen.output  # (n, k)
    return {
        "query": q, "key": k, "value": v, "raw": raw, "scaled": scaled, "masked": masked, "weights": weights, "output": output,
        "change": output @ wo, "factor": factor, "picked": None if seen.index is None else seen.index.tolist(),
        "log_prob": None if seen.log_prob is None else [round(x, 6) for x in seen.log_prob.tolist()],
        "error": float((weights @ v - output).abs().max()),
    }  # fmt: skip


def _score(asked: StepsRequest, width: int) -> Score:
    if asked.score == "additive":
        made: Score = Additive(width, width, hidden=width)
        values = {"U": torch.eye(width), "W": torch.eye(width), "v": torch.tensor(asked.additive or [1.0] * width)}
    elif asked.score == "bilinear":
        made = Bilinear(width, width)
        values = {"W": torch.eye(width) if asked.bilinear is None else torch.tensor(asked.bilinear)}
    else:
        return Dot()
    made = made.double()
    made.load_state_dict({name: value.double() for name, value in values.items()})
    return made.requires_grad_(False)


def _mask(asked: StepsRequest) -> Mask | None:
    return {"none": None, "causal": causal(), "window": window(asked.window, asked.window)}[asked.mask]


def _choice(asked: StepsRequest, temperature: float) -> Choice:
    kinds: dict[str, type[Choice]] = {
        "softmax": Softmax, "sparsemax": Sparsemax, "entmax15": Entmax15, "argmax": Argmax, "sample": Sample
    }  # fmt: skip
    return kinds[asked.choice](temperature)


class LookUpRequest(RequestBody):
    """A key that is asked for, on the way to another: `mix` 0 is `asked` itself, 1 is `toward`."""

    asked: Literal["apple", "banana", "cherry", "durian"] = "cherry"
    toward: Literal["apple", "banana", "cherry", "durian"] = "apple"
    mix: Annotated[float, Field(ge=0, le=1)] = 0.0
    temperature: Temperature = 0.2


def lookup(given: LookUpRequest) -> dict[str, Any]:
    """The crisp answer (none where no key equals the query) and the soft one, stage by stage."""
    from ....attention import attend
    from ....demos.lookup import PRICES

    names, values = list(PRICES), torch.tensor(list(PRICES.values()), dtype=torch.float64).unsqueeze(-1)
    g = torch.Generator().manual_seed(3)
    key = nn.functional.normalize(torch.randn(len(PRICES), 6, generator=g, dtype=torch.float64), dim=-1)
    query = torch.lerp(key[names.index(given.asked)], key[names.index(given.toward)], given.mix).unsqueeze(0)
    scores = Dot()(query, key)
    soft = Softmax(temperature=given.temperature)
    crisp = next((float(values[i]) for i in range(len(names)) if torch.equal(query[0], key[i])), None)
    return {
        "keys": names,
        "values": list(PRICES.values()),
        "crisp": crisp,
        "scores": _plain(scores)[0],
        "weights": _plain(soft(scores))[0],
        "soft": float(attend(query, key, values, score=Dot(), choice=soft)),
        "hard": float(attend(query, key, values, score=Dot(), choice=Argmax())),
    }


class WidthRequest(RequestBody):
    """The width d of queries and keys."""

    d: Annotated[int, Field(ge=1, le=4096)] = 64


def width(given: WidthRequest) -> dict[str, Any]:
    """Variance of the scores, the largest weight, the gradient that reaches the scores, and one row of weights; without and with 1/√d."""
    from ....demos.why_sqrt_d import measure
    from ....scores import ScaledDot

    found: dict[str, Any] = {"d": given.d}
    g = torch.Generator().manual_seed(7)
    q, k = torch.randn(1, 4096, generator=g, dtype=torch.float64), torch.randn(16, 4096, generator=g, dtype=torch.float64)
    with torch.enable_grad():
        for name, score in (("dot", Dot()), ("scaled", ScaledDot())):
            variance, largest, gradient = measure(score, given.d, queries=128)
            row = Softmax()(score(q[:, : given.d], k[:, : given.d]))[0]
            found[name] = {"variance": variance, "largest": largest, "gradient": gradient, "row": _plain(row)}
    return found


class DeskRequest(RequestBody):
    """What is wanted of the things on the desk: bright, to read, to drink, to write on."""

    query: Annotated[list[Number], Field(min_length=4, max_length=4)] = Field(default_factory=lambda: [0.0, 2.0, 0.0, 0.0])


def desk(given: DeskRequest) -> dict[str, Any]:
    """The weights of the things on a desk under two fixed queries and one of your own, and without any query."""
    from ....demos.two_queries import DESK, FEATURES, QUERIES, THINGS, run

    known, x = run(), torch.tensor(DESK, dtype=torch.float64)
    mine = Softmax()(Dot()(torch.tensor([given.query], dtype=torch.float64), x))[0]
    focused = {**known.focused, "yours": _plain(mine)}
    return {
        "things": list(THINGS), "features": list(FEATURES), "desk": [list(row) for row in DESK],
        "queries": {**{name: list(q) for name, q in QUERIES.items()}, "yours": given.query}, "salient": known.salient, "focused": focused,
    }  # fmt: skip


def _plain(values: Tensor) -> Any:
    """Nested lists; −∞ (masked) becomes null."""
    if values.dim() > 1:
        return [_plain(row) for row in values]
    return [x if math.isfinite(x) else None for x in values.tolist()]


PAGE = Page(
    name="steps",
    order=3,
    endpoints=(
        Endpoint("", steps, "Every stage of attention, with its numbers", StepsRequest),
        Endpoint("/lookup", lookup, "A dict's look-up beside the soft one", LookUpRequest),
        Endpoint("/width", width, "Why √d: random queries and keys of a width", WidthRequest),
        Endpoint("/desk", desk, "One input under several queries", DeskRequest),
    ),
)
