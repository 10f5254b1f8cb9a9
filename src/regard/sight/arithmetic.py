"""How one weight of a real head is computed: its query and key, products, score, mask, softmax, values and what the head adds.

Axes: S keys, d head width, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..kernels.kernel import Result
from ..kernels.request import Request
from ..layers.multihead import MultiHeadAttention
from .capture.captured import CapturedAttention
from .capture.model_hooks import LayerCall, ModelHooks
from .effect import call_model, evaluation_mode
from .recompute import WeightTile


@dataclass(frozen=True, eq=False)
class HeadArithmetic:
    """One query of one head, in float64. A score is factor · (query · key) + extra; hidden keys have the score −∞.

    query (d,); keys (S, d); products (S,): query · key; scores, weights (S,); values (S, dv); output (dv,) = weights · values;
    up (D, dv) is the head's part of W_O, and added (D,) = up · output; both None where the layer is not one of regard's.
    """

    name: str
    query: Tensor
    keys: Tensor
    products: Tensor
    factor: float
    scores: Tensor
    weights: Tensor
    values: Tensor
    output: Tensor
    up: Tensor | None
    added: Tensor | None


class _FirstCall(ModelHooks):
    """Keeps the request of one layer's first call."""

    def __init__(self, model: nn.Module, layer: int) -> None:
        super().__init__(model)
        self.wanted, self.layers = layer, 0
        self.request_and_name: tuple[Request, str] | None = None

    def observe(self, captured: CapturedAttention, call: LayerCall) -> Result | None:
        self.layers = max(self.layers, call.layer + 1)
        if call.layer == self.wanted and self.request_and_name is None:
            self.request_and_name = (captured.request, call.name)
        return None


@torch.no_grad()
def head_arithmetic(model: nn.Module, inputs: Any, *, layer: int, head: int, query: int) -> HeadArithmetic:
    """Run a model and return how one head computed the weights of one query. Layers are numbered as `watch` numbers them.

    >>> from regard.models import Gpt, GptConfig
    >>> model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16)).eval()
    >>> steps = head_arithmetic(model, torch.tensor([[3, 1, 4, 1]]), layer=1, head=0, query=2)
    >>> steps.weights.shape, round(float(steps.weights.sum()), 6), float(steps.weights[3])
    (torch.Size([4]), 1.0, 0.0)
    >>> bool(torch.allclose(steps.scores[:3], steps.factor * steps.products[:3]))
    True
    """
    first_call = _FirstCall(model, layer)
    first_call.open()
    try:
        with evaluation_mode(model):
            call_model(model, inputs)
    finally:
        first_call.close()
    if first_call.request_and_name is None:
        raise IndexError(f"layer is {layer}; the model ran layers 0 … {first_call.layers - 1}")
    request, name = first_call.request_and_name
    _, h, L, S = request.sizes
    if not (0 <= head < h and 0 <= query < L):
        raise IndexError(f"head {head}, query {query}: layer {layer} has heads 0 … {h - 1} and queries 0 … {L - 1}")
    if request.score is not None:
        raise ValueError(f"layer {layer} scores with {type(request.score).__name__}; only dot products are taken apart here")
    shared = head // request.group
    tile = WeightTile(request, [query], range(S))
    weights, _ = tile.weights(slice(0, 1), [head], None)
    scores = tile.scores(slice(0, 1), [head])[0, 0, 0]
    q, keys, values = (x.double() for x in (request.query[0, head, query], request.key[0, shared], request.value[0, shared]))
    beta = float(request.beta.expand(h)[head]) if isinstance(request.beta, Tensor) else request.beta
    output = weights[0, 0, 0].double() @ values
    module = model.get_submodule(name) if name else model
    up = module.value_up(head).double() if isinstance(module, MultiHeadAttention) else None
    return HeadArithmetic(
        name=name, query=q, keys=keys, products=keys @ q, factor=float(request.scale * beta), scores=scores,
        weights=weights[0, 0, 0].double(), values=values, output=output, up=up, added=None if up is None else up @ output,
    )  # fmt: skip
