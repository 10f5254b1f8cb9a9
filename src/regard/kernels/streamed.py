"""Exact attention tile by tile, in plain torch on any device: O(N) memory forward and backward.

Any score, mask, choice, bias, dropout and reading. The forward keeps one running maximum and sum per row (Milakov and
Gimelshein 2018; Rabe and Staats 2021); the backward recomputes each tile from the saved lse (Dao et al. 2022, algorithm 4).

Axes: B batch, h heads, l rows and s columns of a tile, L queries, S keys, dv value width.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import torch
from torch import Tensor

from ..choices import Row, Sample, Softmax
from .dropout import keep
from .kernel import Result
from .reference import Reference, gather_picked, gradient
from .request import Request
from .streamed_backward import Backward
from .tiles import TILE, Tiles, finite, repeat_heads


class Streamed:
    """Tiles in plain torch: supports every request."""

    name = "streamed"

    def refuses(self, request: Request) -> str | None:
        return None

    def bytes(self, request: Request) -> int:
        B, h, L, S = request.sizes
        tiles = Tiles(request)
        element = tiles.dtype.itemsize
        width = 1 if request.score is None else request.score.width(request.query)
        tile = B * h * min(L, tiles.step_rows) * min(S, tiles.step_cols) * element
        rows = B * h * L * (request.value.shape[-1] + 2) * element
        total = rows + tile * (3 + 2 * (width > 1) * width)
        if request.needs_grad:
            total += element * (request.query.numel() + request.key.numel() + request.value.numel()) + tile * (4 + 2 * width)
        return total

    def reason(self, request: Request) -> str:
        return f"tiles in plain torch on {request.query.device.type}: any score, mask, choice and reading in linear memory"

    def run(self, request: Request) -> Result:
        if not request.needs_grad:
            with torch.no_grad():
                output, row_lse, picked, index = Forward(request).run()
        else:
            output, row_lse, picked, index = _Autograd.apply(request, *request.inputs())  # type: ignore[no-untyped-call]
        lse: Tensor | None = row_lse if isinstance(request.choice, Softmax | Sample) else None
        log_prob = None
        if request.choice.hard:
            hard = gather_picked(request.value, index)
            if isinstance(request.choice, Sample) and lse is not None:
                log_prob = picked - lse.masked_fill(index < 0, 0)
                if request.choice.straight_through:
                    hard = output + (hard - output).detach()
            output = hard
        readings = self.read(request, lse) if request.readings else {}
        return Result(output, lse, index if request.choice.hard else None, log_prob, readings)

    @torch.no_grad()
    def read(self, request: Request, lse: Tensor | None = None) -> dict[str, Any]:
        """All readings in one more pass over the tiles; the weights of a tile are computed, read and discarded."""
        tiles = Tiles(request)
        shape = request.reading_shape()
        states = [(reading, reading.start(shape)) for reading in request.readings]
        forward, soft = Forward(request), request.choice.distribution()
        for rows in tiles.row_blocks():
            block = slice(rows.start, rows.stop)
            row: Row | None = None
            if lse is not None:
                row = Row(lse[:, :, block], torch.ones_like(lse[:, :, block]))
            elif not request.choice.hard:
                row = tiles.fit(rows)
            index = forward.pick_largest(rows)[0] if row is None else None
            for tile in tiles.row(rows):
                if row is None:
                    assert index is not None
                    p = (torch.arange(tile.cols.start, tile.cols.stop, device=index.device) == index.unsqueeze(-1)).to(tile.z.dtype)
                else:
                    p = soft.weights(tile.z, row)
                z = tile.z if request.row_shift is None else tile.z + request.row_shift[:, :, block].unsqueeze(-1)
                for reading, state in states:
                    reading.add(state, p, z, rows, tile.cols)
        return {reading.name: reading.finish(state) for reading, state in states}


class Forward:
    """One forward pass over row blocks."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.tiles = Tiles(request)
        # 0 · NaN is NaN, so a hidden NaN value would reach the product: such values are set to 0 beforehand, and added back
        # for the rows that see them.
        clean = request.mask is None or finite(request.value)
        self.value = request.value if clean else request.value.nan_to_num(0, 0, 0)
        self.bad: list[int] = []
        if not clean:
            self.bad = (~request.value.isfinite()).any(-1).any(0).any(0).nonzero().flatten().tolist()

    def run(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Soft output, lse, scores of the picked keys, their index; empty tensors for what the choice does not define."""
        request, dtype = self.request, self.tiles.dtype
        B, h, L, _ = request.sizes
        device = request.query.device
        sample, softmax = isinstance(request.choice, Sample), isinstance(request.choice, Softmax)
        soft = not request.choice.hard or (isinstance(request.choice, Sample) and request.choice.straight_through)
        output_shape = (B, h, L, request.value.shape[-1]) if soft else (0,)
        output = torch.zeros(output_shape, dtype=request.value.dtype, device=device)
        lse = torch.full((B, h, L) if softmax or sample else (0,), -math.inf, dtype=dtype, device=device)
        picked = torch.zeros((B, h, L) if sample else (0,), dtype=dtype, device=device)
        index = torch.full((B, h, L) if request.choice.hard else (0,), -1, dtype=torch.int64, device=device)
        for rows in self.tiles.row_blocks():
            block = slice(rows.start, rows.stop)
            if softmax or sample:
                row_output, lse[:, :, block], peak, total = self.softmax(rows, gather=soft)
                if soft:
                    output[:, :, block] = row_output
                if sample:
                    index[:, :, block], picked[:, :, block] = self.draw(rows, peak, total)
            elif request.choice.hard:
                index[:, :, block] = self.pick_largest(rows)[0]
            else:
                output[:, :, block] = self.gather(rows, self.tiles.fit(rows))
        return output, lse, picked, index

    def softmax(self, rows: range, *, gather: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Softmax in one pass, rescaled whenever a larger score appears: output, lse, maximum, Σ exp(z − maximum)."""
        request = self.request
        B, h = request.sizes[:2]
        high = torch.full((B, h, len(rows)), -math.inf, dtype=self.tiles.dtype, device=request.query.device)
        total = torch.zeros_like(high)
        out = high.new_zeros(B, h, len(rows), request.value.shape[-1])
        if request.sinks is not None:
            high = request.sinks.to(high.dtype).view(1, -1, 1).expand_as(high).clone()
            total = (high > -math.inf).to(high.dtype)
        for tile in self.tiles.row(rows):
            above = torch.maximum(high, tile.z.amax(-1))
            base = above.masked_fill(above == -math.inf, 0)
            p = tile.z.sub_(base.unsqueeze(-1)).exp_()
            shrink = (high - base).exp_()
            total = total * shrink + p.sum(-1)
            if gather:
                out.mul_(shrink.unsqueeze(-1)).add_(self.product(p, rows, tile.cols, tile.visible))
            high = above
        nonempty = total != 0
        lse = torch.where(nonempty, high + total.log(), -math.inf)
        return (out / total.masked_fill(~nonempty, 1).unsqueeze(-1)), lse, high, total

    def product(self, p: Tensor, rows: range, cols: range, visible: Tensor | None) -> Tensor:
        """p · v over one tile, after dropout; hidden values never contribute."""
        request = self.request
        if request.dropout:
            B, h = request.sizes[:2]
            p = p * keep(request.seed, request.dropout, B, h, rows, cols, p.device) / (1 - request.dropout)
        out = p @ repeat_heads(self.value[:, :, cols.start : cols.stop].to(p.dtype), request.group)
        for key in self.bad:
            if key in cols:
                value = repeat_heads(request.value[:, :, key].to(p.dtype), request.group).unsqueeze(-2)  # (B, h, 1, dv)
                visible_bad = ~value.isfinite()
                if visible is not None:
                    visible_bad = visible_bad & visible.expand_as(p)[..., key - cols.start].unsqueeze(-1)
                out += p[..., key - cols.start].unsqueeze(-1) * value.where(visible_bad, 0)
        return out

    def gather(self, rows: range, row: Row) -> Tensor:
        """The output of a row block, given its thresholds."""
        request = self.request
        out = torch.zeros(*request.sizes[:2], len(rows), request.value.shape[-1], dtype=self.tiles.dtype, device=request.query.device)
        for tile in self.tiles.row(rows):
            out += self.product(request.choice.weights(tile.z, row), rows, tile.cols, tile.visible)
        return out

    def pick_largest(self, rows: range) -> tuple[Tensor, Tensor]:
        """The first largest key of each row and its score; −1 and −∞ on an empty row."""
        request = self.request
        high = torch.full((*request.sizes[:2], len(rows)), -math.inf, dtype=self.tiles.dtype, device=request.query.device)
        index = torch.full(high.shape, -1, dtype=torch.int64, device=high.device)
        for tile in self.tiles.row(rows):
            top, column = tile.z.max(-1)
            better = (top > high) | (top.isnan() & ~high.isnan())
            index = torch.where(better, column + tile.cols.start, index)
            high = torch.where(better, top, high)
        return index, high

    def draw(self, rows: range, peak: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        """Sample a key per row by inverting the distribution function at the row's uniform number: index and score."""
        request = self.request
        assert request.uniform is not None
        base = peak.masked_fill(peak == -math.inf, 0).unsqueeze(-1)
        # Float64 sums of exponentials that do not depend on the tiling, so that the sample does not either.
        mass = torch.zeros_like(peak, dtype=torch.float64)
        for tile in self.tiles.row(rows):
            mass += (tile.z - base).exp_().double().sum(-1)
        target = request.uniform[:, :, rows.start : rows.stop] * mass
        running = torch.zeros_like(mass)
        index = torch.full(peak.shape, -1, dtype=torch.int64, device=peak.device)
        last = index.clone()
        score, last_score = torch.zeros_like(peak), torch.zeros_like(peak)
        for tile in self.tiles.row(rows):
            e = (tile.z - base).exp().double()
            cumulative = running.unsqueeze(-1) + e.cumsum(-1)
            hit = (cumulative > target.unsqueeze(-1)) & (e > 0)
            column = hit.to(torch.int8).argmax(-1)
            new = hit.any(-1) & (index < 0)
            index = torch.where(new, column + tile.cols.start, index)
            score = torch.where(new, tile.z.gather(-1, column.unsqueeze(-1)).squeeze(-1), score)
            nonzero = e > 0
            final = e.shape[-1] - 1 - nonzero.flip(-1).to(torch.int8).argmax(-1)
            last = torch.where(nonzero.any(-1), final + tile.cols.start, last)
            last_score = torch.where(nonzero.any(-1), tile.z.gather(-1, final.unsqueeze(-1)).squeeze(-1), last_score)
            running = cumulative[..., -1]
        missed = index < 0  # rounding pushed u · total past the end: take the last key with any weight
        return torch.where(missed, last, index), torch.where(missed, last_score, score)


class _Autograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, request: Request, *inputs: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        output, lse, picked, index = Forward(request).run()
        ctx.save_for_backward(*inputs, output, lse, index)
        ctx.request = request
        ctx.mark_non_differentiable(index)
        ctx.set_materialize_grads(False)
        return output, lse, picked, index

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, output, lse, index = ctx.saved_tensors
        request: Request = ctx.request
        d_out, d_lse, d_picked = grads[:3]
        if torch.is_grad_enabled():
            return (None, *differentiate_twice(request, inputs, index, d_out, d_lse, d_picked))
        return (None, *Backward(request, inputs, ctx.needs_input_grad[1:]).run(output, lse, index, d_out, d_lse, d_picked))


def differentiate_twice(
    request: Request, inputs: list[Tensor | None], index: Tensor, d_out: Tensor | None, d_lse: Tensor | None, d_picked: Tensor | None
) -> list[Tensor | None]:
    """Gradients that can be differentiated again, through the dense reference; warns, because memory is quadratic."""
    need = Reference().bytes(request)
    if request.limit_bytes is not None and need > request.limit_bytes:
        raise MemoryError(
            f"double backward uses the dense reference and needs about {need:,} bytes, over limit_bytes={request.limit_bytes:,}; "
            "drop create_graph or raise the limit"
        )
    warnings.warn(f"double backward through attention builds the dense L×S matrix (about {need:,} bytes)", stacklevel=2)
    if isinstance(request.choice, Sample):
        raise NotImplementedError("double backward through a Sample is not defined; use Softmax where create_graph=True is needed")
    query, key, value = inputs[:3]
    assert query is not None and key is not None and value is not None
    with torch.enable_grad():
        fresh = dataclasses.replace(
            request,
            query=query,
            key=key,
            value=value,
            key_bias=inputs[3],
            bias=request.bias if inputs[4] is None else inputs[4],
            beta=request.beta if inputs[5] is None else inputs[5],
            sinks=inputs[6],
        )
        differentiated = [(i, x) for i, x in enumerate(inputs) if x is not None and x.requires_grad]
        results = gradient(fresh, [x for _, x in differentiated], {"output": d_out, "lse": d_lse})
    grads: list[Tensor | None] = [None] * len(inputs)
    for (i, _), grad in zip(differentiated, results, strict=True):
        grads[i] = grad
    return grads


__all__ = ["TILE", "Forward", "Streamed"]
