"""Readings and proof of weights that a model computed itself, read as they are.

Axes: B batch, h heads, L queries, S keys, l rows at once.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from ..choices import Softmax
from ..kernels.kernel import Result
from ..kernels.request import Request, accumulator
from .capture.captured import OwnWeights
from .proof import ROWS, Proof, sample_rows

_AT_ONCE = 1 << 22  # weights read at once


def read_weights(request: Request, weights: Tensor, scores: Tensor | None) -> Result:
    """Compute the request's readings and the lse from given weights and scores (B, h, L, S), a few rows at a time.

    Readings of weights that may be negative, as those of recurrent attention, are of their sizes.
    """
    B, h, L, S = weights.shape
    shape = request.reading_shape()
    states = [(reading, reading.start(shape)) for reading in request.readings]
    lse = shape.zeros(L) if isinstance(request.choice, Softmax) else None
    step = max(1, _AT_ONCE // max(1, B * h * S))
    for first in range(0, L if S else 0, step):
        rows = range(first, min(L, first + step))
        p = weights[:, :, rows.start : rows.stop].to(shape.dtype).nan_to_num(0).abs()
        z = p.log() if scores is None else scores[:, :, rows.start : rows.stop].detach().to(shape.dtype)
        for reading, state in states:
            reading.add(state, p, z, rows, range(S))
        if lse is not None:
            lse[:, :, rows.start : rows.stop] = _lse(request, rows)
    return Result(weights[..., :0], lse, readings={reading.name: reading.finish(state) for reading, state in states})


def _lse(request: Request, rows: range) -> Tensor:
    """Compute the lse of the request's own scores, from which `recompute` makes weights again: (B, h, l)."""
    from .recompute import WeightTile

    _, h, _, S = request.sizes
    return WeightTile(request, rows, range(S)).scores(slice(None), range(h)).logsumexp(-1)


def prove_weights(request: Request, own: OwnWeights, output: Tensor, *, rows: Literal["sampled", "full"] = "sampled") -> Proof:
    """Check that weights (B, h, L, S) sum to one, if they were normalised, and that they reproduce the model's output (B, h, L, dv)."""
    B, _, L, S = own.weights.shape
    checked = [i for i in (range(L) if rows == "full" or L <= ROWS else sample_rows(L)) if i not in own.unchecked]
    compute_eps = max(torch.finfo(accumulator(own.weights.dtype)).eps, torch.finfo(own.weights.dtype).eps)
    mass = own.weights.sum(-1, dtype=torch.float64)
    nonempty = mass != 0
    row_sum_error = float((mass - 1).masked_fill(~nonempty, 0).nan_to_num(0).abs().max()) if own.normalised and mass.numel() else 0.0
    error, relative = math.nan, 0.0
    if not own.dropout and checked and S and output.numel():
        error = relative = 0.0
        value = request.value.detach().double()
        for b in range(B):
            p = own.weights[b][:, checked].double()
            difference = (p @ value[b] - output[b][:, checked].double()).abs()
            bound = (p.abs() @ value[b].abs().amax(-1, keepdim=True)).squeeze(-1)
            row_error = difference.amax(-1)
            error = max(error, float(row_error.nan_to_num(0).max()))
            relative = max(relative, float((row_error / (bound + torch.finfo(torch.float32).tiny)).nan_to_num(0).max()))
    storage_eps = max(torch.finfo(x.dtype).eps for x in (own.weights, request.value, output))
    holds = row_sum_error <= 64 * compute_eps * max(1, math.log2(S + 1)) and relative <= 16 * storage_eps * max(1, math.log2(S + 1))
    made = f"the model's own weights; recomputed from {own.recomputed_from}"
    mask = "" if request.mask is None else repr(request.mask)
    return Proof(row_sum_error, error, 0 if math.isnan(error) else len(checked), mask, made, holds)
