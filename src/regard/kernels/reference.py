"""The dense reference implementation: attention as in a textbook, in any dtype, differentiated by autograd.

Every other kernel is compared with it. It can be asked for some of the queries alone (`rows`); where the numbers of a tensor cannot be
read (`regard.tracing`), it takes the way that is right for any of them.

Axes: B batch, h heads, L queries, S keys, d width.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..biases import Bias
from ..choices import Sample, Softmax, draw, logsumexp
from ..masks import Mask
from ..readings import Differentiable
from ..tracing import readable
from .axes import tile_slice
from .dropout import keep, scale
from .kernel import Result
from .request import Request, accumulator


def scores(request: Request, rows: range | None = None) -> tuple[Tensor, Tensor | None]:
    """Stage one: the scores z (B, h, L, S) of all queries or of `rows`, −∞ where hidden, and the mask (None: everything is visible)."""
    L, S = request.query.shape[2], request.key.shape[2]
    dtype = accumulator(request.query.dtype)
    rows = range(L) if rows is None else rows
    q = request.query[:, :, rows.start : rows.stop].to(dtype)
    k = request.key.to(dtype).repeat_interleave(request.group, 1)
    key_bias = None if request.key_bias is None else request.key_bias.to(dtype).repeat_interleave(request.group, 1).unsqueeze(-2)

    def pairs(q: Tensor, k: Tensor, key_bias: Tensor | None) -> Tensor:
        if request.score is not None:
            return request.score.tile(q, k)
        s = q @ k.mT * request.scale
        if key_bias is not None:
            s = s + key_bias
        return s if request.cap is None else request.cap * torch.tanh(s / request.cap)

    finite = q.isfinite().all(-1).unsqueeze(-1) & k.isfinite().all(-1).unsqueeze(-2)  # (B, h, L, S)
    if request.mask is None or (readable(finite) and bool(finite.all())):
        s = pairs(q, k, key_bias)
    else:  # 0 · NaN is NaN, so a hidden NaN would reach the gradient: differentiate only the finite pairs
        bias = None if key_bias is None else key_bias.nan_to_num(0, 0, 0)
        s = pairs(q.nan_to_num(0, 0, 0), k.nan_to_num(0, 0, 0), bias).where(finite, pairs(q, k, key_bias).detach())
    if isinstance(request.bias, Bias):
        s = s + request.bias.tile(rows, range(S), L, S, device=q.device, dtype=dtype)
    elif request.bias is not None:
        s = s + tile_slice(request.bias, rows, range(S)).to(dtype)
    z = s * per_head(request.beta, dtype)
    visible = None if request.mask is None else _visible(request.mask, rows, request)
    return (z if visible is None else z.masked_fill(~visible, -math.inf)), visible


def _visible(mask: Mask, rows: range, request: Request) -> Tensor:
    """The mask of these rows, bool (B, h, rows, S)."""
    B, h, L, S = request.sizes
    tile = mask.tile(rows, range(S), L, S, device=request.query.device)
    if isinstance(tile, str):
        tile = torch.full((1, 1, 1, 1), tile == "all", device=request.query.device)
    return tile.expand(B, h, len(rows), S)


def per_head(beta: float | Tensor, dtype: torch.dtype) -> float | Tensor:
    """The inverse temperature, shaped to multiply scores (B, h, L, S)."""
    return beta.to(dtype).view(-1, 1, 1) if isinstance(beta, Tensor) else beta


def gather(p: Tensor, value: Tensor, visible: Tensor | None) -> Tensor:
    """Stage three: Σ p·v, (B, h, L, dv). Hidden values never contribute, not even NaN (0 · NaN is NaN)."""
    if visible is None:
        return p @ value
    bad = ~value.isfinite()
    if readable(bad) and not bool(bad.any()):
        return p @ value
    out = p @ value.masked_fill(bad, 0)
    if not readable(bad):  # which keys are bad is not known: rows that see one become NaN
        return out.masked_fill(visible.to(p.dtype) @ bad.to(p.dtype) > 0, math.nan)
    for key in bad.any(-1).any(0).any(0).nonzero().flatten().tolist():
        visible_bad = visible[..., key].unsqueeze(-1) & bad[..., key, :].unsqueeze(-2)
        out = out + p[..., key].unsqueeze(-1) * value[..., key, :].unsqueeze(-2).where(visible_bad, 0)
    return out


def gather_picked(value: Tensor, index: Tensor) -> Tensor:
    """The picked value of each row: value (B, k, S, dv), index (B, h, L) → (B, h, L, dv); zero where index is −1."""
    B, h, _ = index.shape
    if not value.shape[2]:
        return value.new_zeros(*index.shape, value.shape[-1])
    batch = torch.arange(B, device=index.device).view(-1, 1, 1)
    head = torch.arange(h, device=index.device).view(-1, 1) // (h // value.shape[1] if value.shape[1] else 1)
    return value[batch, head, index.clamp(min=0)].masked_fill((index < 0).unsqueeze(-1), 0)


class Reference:
    """Dense and readable: score → choose → gather."""

    name = "reference"

    def refuses(self, request: Request) -> str | None:
        return None

    def bytes(self, request: Request) -> int:
        B, h, L, S = request.sizes
        element = 8 if request.query.dtype == torch.float64 else 4
        width = 1 if request.score is None else request.score.width(request.query)
        return B * h * L * S * element * (2 + width + (3 if request.needs_grad else 0))

    def reason(self, request: Request) -> str:
        return "requested: the dense reference"

    def run(self, request: Request, rows: range | None = None) -> Result:
        B, h, L, S = request.sizes
        rows = range(L) if rows is None else rows
        z, visible = scores(request, rows)
        value = request.value.to(z.dtype).repeat_interleave(request.group, 1)
        lse: Tensor | None = None
        index: Tensor | None = None
        log_prob: Tensor | None = None
        if isinstance(request.choice, Softmax | Sample):
            columns = [z] if request.sinks is None else [z, request.sinks.to(z.dtype).view(-1, 1, 1).expand(B, h, len(rows), 1)]
            lse = logsumexp(torch.cat(columns, -1))
        if request.choice.hard:
            p, output, index, log_prob = self._hard(request, rows, z, value, visible, lse)
        else:
            p = (z - lse.masked_fill(lse == -math.inf, 0).unsqueeze(-1)).exp() if lse is not None else request.choice.dense(z)
            kept = p
            if request.dropout:
                kept = p * keep(request.seed, request.dropout, B, h, rows, range(S), p.device) * scale(request.dropout)
            output = gather(kept, value, visible)
        readings: dict[str, Any] = {}
        for reading in request.readings:
            if isinstance(reading, Differentiable) and reading.grad:
                readings[reading.name] = reading.dense(p, self._shifted(request, z))
                continue
            state = reading.start(request.reading_shape())
            if L and S:
                reading.add(state, p.detach(), self._shifted(request, z.detach()), rows, range(S))
            readings[reading.name] = reading.finish(state)
        return Result(output.to(request.value.dtype), lse, index, log_prob, readings)

    @staticmethod
    def _hard(
        request: Request, rows: range, z: Tensor, value: Tensor, visible: Tensor | None, lse: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Weights, output, index and log-probability of a hard choice."""
        S = z.shape[-1]
        if isinstance(request.choice, Sample):
            assert request.uniform is not None and lse is not None
            index = draw(z, request.uniform[:, :, rows.start : rows.stop])
        else:
            index = z.argmax(-1) if S else z.new_full(z.shape[:-1], -1, dtype=torch.int64)
            index = index.masked_fill((z == -math.inf).all(-1), -1)
        output = gather_picked(request.value.to(z.dtype), index)
        empty = index < 0
        if lse is None:
            p = torch.zeros_like(z)
            return (p.scatter(-1, index.clamp(min=0).unsqueeze(-1), (~empty).to(p.dtype).unsqueeze(-1)) if S else p), output, index, None
        p = (z - lse.masked_fill(lse == -math.inf, 0).unsqueeze(-1)).exp()
        picked = z.gather(-1, index.clamp(min=0).unsqueeze(-1)).squeeze(-1) if S else z.new_zeros(z.shape[:-1])
        log_prob = picked.masked_fill(empty, 0) - lse.masked_fill(empty, 0)
        assert isinstance(request.choice, Sample)
        if request.choice.straight_through:
            soft = gather(p, value, visible)
            output = soft + (output - soft).detach()
        return p, output, index, log_prob

    @staticmethod
    def _shifted(request: Request, z: Tensor) -> Tensor:
        """The scores with the request's row_shift."""
        return z if request.row_shift is None else z + request.row_shift.to(z.dtype).unsqueeze(-1)
