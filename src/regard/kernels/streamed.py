"""Exact attention tile by tile, in plain torch on any device: O(N) memory forward and backward.

Any score, mask, choice, bias, dropout and reading. The forward keeps one running maximum and sum per row (Milakov and
Gimelshein 2018; Rabe and Staats 2021); the backward recomputes each tile from the saved lse (Dao et al. 2022, algorithm 4).

Axes: B batch, h heads, l rows and s columns of a tile, L queries, S keys, dv value width.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..choices import Row, Sample, Softmax
from ..tracing import batched_gradient, compiling
from .kernel import Result, refuses_transforms
from .reading_gradients import attach_gradients
from .reference import gather_picked
from .request import Request
from .second_order import differentiable_gradients, one_by_one
from .streamed_backward import Backward
from .streamed_forward import Forward
from .tiles import TILE, Tiles


class Streamed:
    """Tiles in plain torch: supports every request but those of transforms and graphs."""

    name = "streamed"

    def refuses(self, request: Request) -> str | None:
        return "a loop over tiles does not fit into a graph" if compiling() else refuses_transforms(request)

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
        readings = attach_gradients(request, self.read(request, lse), lse) if request.readings else {}
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
        if any(map(batched_gradient, grads[:3])):
            return (None, *one_by_one(partial(_Autograd.gradients, ctx, inputs, output, lse, index), grads[:3]))
        return (None, *_Autograd.gradients(ctx, inputs, output, lse, index, *grads[:3]))

    @staticmethod
    def gradients(
        ctx: Any,
        inputs: list[Tensor | None],
        output: Tensor,
        lse: Tensor,
        index: Tensor,
        d_out: Tensor | None,
        d_lse: Tensor | None,
        d_picked: Tensor | None,
    ) -> list[Tensor | None]:
        if torch.is_grad_enabled():  # create_graph: the gradient will be differentiated again
            return differentiable_gradients(ctx.request, inputs, d_out, d_lse)
        return Backward(ctx.request, inputs, ctx.needs_input_grad[1:]).run(output, lse, index, d_out, d_lse, d_picked)


__all__ = ["TILE", "Forward", "Streamed"]
