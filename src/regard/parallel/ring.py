"""Ring attention over a sharded sequence: every rank's queries attend to every rank's keys, block by block, merged by lse.

The next block of keys and values is exchanged while one is computed (Liu, Zaharia and Abbeel 2023, "Ring attention with blockwise
transformers"; zigzag: Brandon et al. 2023, "Striped attention"). In the backward pass the blocks are exchanged again, and their gradients
are sent back.

Axes: B batch, h heads, k key heads, L queries and S keys of the whole sequence, n of this rank's, d width, dv value width.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..biases import Bias
from ..kernels.axes import tile_slice
from ..kernels.request import Input, Request, accumulator
from ..masks import Mask
from . import block
from .exchange import Exchange, Posted
from .layout import Layout

MIN_PIECE = 512  # positions; pieces are not cut shorter


@dataclasses.dataclass(frozen=True, eq=False)
class Rectangle:
    """A run of this rank's queries and a run of one rank's keys."""

    whole_rows: range  # positions in the whole sequence
    whole_cols: range
    rows: slice  # positions in this rank's queries
    cols: slice  # positions in the other rank's keys
    mask: Mask | None


def _runs(layout: Layout, rank: int) -> Iterator[tuple[range, slice]]:
    """A rank's positions as runs, and the slice of its tensors for each. Long runs are cut to limit the kernels' memory."""
    start = 0
    for piece in layout.pieces(rank):
        parts = max(1, min(4, len(piece) // MIN_PIECE)) if layout.ranks > 1 else 1
        for i in range(parts):
            run = piece[i * len(piece) // parts : (i + 1) * len(piece) // parts]
            if len(run):
                yield run, slice(start, start + len(run))
            start += len(run)


class Ring:
    """One sharded attention: this rank's tensors (`request`, without mask and bias), the mask and bias of the whole, and the layouts."""

    def __init__(
        self, request: Request, mask: Mask | None, bias: Tensor | Bias | None, queries: Layout, keys: Layout, exchange: Exchange
    ) -> None:
        self.request, self.mask, self.bias = request, mask, bias
        self.queries, self.keys, self.exchange = queries, keys, exchange
        self._rectangles: dict[int, list[Rectangle]] = {}
        self._needs: dict[tuple[int, int], bool] = {}

    def inputs(self) -> list[Tensor | None]:
        """The differentiable tensors, in the order of `Request.inputs`."""
        return dataclasses.replace(self.request, bias=self.bias).inputs()

    def own_block(self) -> list[Tensor]:
        """The tensors of this rank's keys that are sent to other ranks."""
        return [x for x in (self.request.key, self.request.value, self.request.key_bias) if x is not None]

    def empty(self, rank: int) -> list[Tensor]:
        """Uninitialised tensors to receive another rank's block."""
        size = self.keys.size(rank)
        return [x.new_empty((*x.shape[:2], size, *x.shape[3:])) for x in self.own_block()]

    def needs(self, rank: int, other: int) -> bool:
        """Whether any key of `other` may be visible to any query of `rank`, by the mask's verdicts alone."""
        if (rank, other) not in self._needs:
            mask, (L, S) = self.mask, (self.queries.length, self.keys.length)
            pairs = ((rows, cols) for rows in self.queries.pieces(rank) for cols in self.keys.pieces(other) if len(rows) and len(cols))
            self._needs[rank, other] = any(mask is None or mask.verdict(rows, cols, L, S) != "none" for rows, cols in pairs)
        return self._needs[rank, other]

    def rectangles(self, other: int) -> list[Rectangle]:
        """The rectangles of this rank's queries and another rank's keys that are not entirely hidden."""
        if other not in self._rectangles:
            L, S = self.queries.length, self.keys.length
            rectangles = []
            for rows, row_slice in _runs(self.queries, self.exchange.rank):
                for cols, col_slice in _runs(self.keys, other):
                    verdict = "all" if self.mask is None else self.mask.verdict(rows, cols, L, S)
                    if verdict != "none":
                        mask = None if verdict == "all" or self.mask is None else self.mask.part(rows, cols, L, S)
                        rectangles.append(Rectangle(rows, cols, row_slice, col_slice, mask))
            self._rectangles[other] = rectangles
        return self._rectangles[other]

    def part(self, rectangle: Rectangle, key_block: Sequence[Tensor]) -> Request:
        """The request of one rectangle; `key_block` is the block that holds its keys."""
        request, bias = self.request, self.bias
        rows, cols = rectangle.rows, rectangle.cols
        key_bias = key_block[2][:, :, cols] if len(key_block) > 2 else None
        if isinstance(bias, Bias):
            bias = bias.part(rectangle.whole_rows, rectangle.whole_cols, self.queries.length, self.keys.length)
        elif bias is not None:
            bias = tile_slice(bias, range(rows.start, rows.stop), rectangle.whole_cols)
        return dataclasses.replace(
            request,
            query=request.query[:, :, rows],
            key=key_block[0][:, :, cols],
            value=key_block[1][:, :, cols],
            key_bias=key_bias,
            mask=rectangle.mask,
            bias=bias,
            sinks=None,  # merged once, after all blocks
            # A different dropout seed for each rectangle, determined by its position in the whole sequence.
            seed=request.seed ^ (self._number(rectangle) * 0x9E3779B97F4A7C15 & (1 << 62) - 1) if request.dropout else 0,
        )

    def _number(self, rectangle: Rectangle) -> int:
        """A number that is unique among the rectangles of the whole pattern."""
        return rectangle.whole_rows.start * self.keys.length + rectangle.whole_cols.start

    def blocks(self) -> Iterator[tuple[int, Sequence[Tensor] | None]]:
        """Every rank with its block of keys, this rank first; None for a block that is not needed here."""
        return self.exchange.blocks(self.own_block(), self.empty, self.needs)

    def forward(self) -> tuple[Tensor, Tensor]:
        """Output (B, h, n, dv) and lse (B, h, n)."""
        request = self.request
        B, h, n, _ = request.sizes
        dtype = accumulator(request.query.dtype)
        output = torch.zeros(B, h, n, request.value.shape[-1], dtype=dtype, device=request.query.device)
        lse = torch.full((B, h, n), -math.inf, dtype=dtype, device=request.query.device)
        for other, key_block in self.blocks():
            for rectangle in self.rectangles(other) if key_block is not None else ():
                assert key_block is not None
                merge(output, lse, rectangle.rows, *block.forward(self.part(rectangle, key_block)))
            del key_block
        if request.sinks is not None:
            merge(output, lse, slice(0, n), None, request.sinks.to(dtype).view(1, -1, 1).expand_as(lse))
        return output.to(request.value.dtype), lse

    def backward(
        self, needs: Sequence[bool], output: Tensor, lse: Tensor, d_out: Tensor | None, d_lse: Tensor | None
    ) -> list[Tensor | None]:
        """Gradients of `inputs`: of keys and values summed over all ranks, of replicated tensors this rank's share."""
        exchange, dtype = self.exchange, accumulator(self.request.query.dtype)
        inputs = self.inputs()
        grads: list[Tensor | None] = [
            torch.zeros_like(x, dtype=dtype, memory_format=torch.contiguous_format) if x is not None and need else None
            for x, need in zip(inputs, needs, strict=True)
        ]
        self._sinks(grads, output, lse, d_out, d_lse)
        key_inputs = [index for index in (Input.KEY, Input.VALUE, Input.KEY_BIAS) if grads[index] is not None]
        pending: tuple[Posted, Posted, list[Tensor]] | None = None  # gradients exchanged while the next block is computed
        for step, (other, key_block) in enumerate(self.blocks()):
            block_grads: dict[int, Tensor] = {}
            if key_block is not None:
                block_grads = {index: self._block_gradient(index, grads, other) for index in key_inputs}
                for rectangle in self.rectangles(other):
                    rows = rectangle.rows
                    d_rows = (None if x is None else x[:, :, rows] for x in (d_out, d_lse))
                    results = block.backward(
                        self.part(rectangle, key_block), needs, output[:, :, rows], lse[:, :, rows].contiguous(), *d_rows
                    )
                    self._add(grads, block_grads, rectangle, results)
            del key_block
            self._receive(pending, key_inputs, grads)
            pending = None
            if step and key_inputs:
                source = (exchange.rank + step) % exchange.ranks
                received = [torch.empty_like(grad) for index in key_inputs if (grad := grads[index]) is not None]
                received = received if self.needs(source, exchange.rank) else []
                pending = (*exchange.post(other, list(block_grads.values()), source, received), received)
        self._receive(pending, key_inputs, grads)
        return [None if g is None or x is None else g.to(x.dtype) for g, x in zip(grads, inputs, strict=True)]

    def _block_gradient(self, index: int, grads: list[Tensor | None], other: int) -> Tensor:
        """The tensor that accumulates the gradient of a rank's keys: this rank's own, or zeros to be sent to the other rank."""
        own = grads[index]
        assert own is not None
        return own if other == self.exchange.rank else own.new_zeros((*own.shape[:2], self.keys.size(other), *own.shape[3:]))

    def _add(self, grads: list[Tensor | None], block_grads: dict[int, Tensor], rectangle: Rectangle, results: dict[int, Tensor]) -> None:
        """Add the gradients of one rectangle."""
        for index, grad in results.items():
            total = grads[index]
            assert total is not None
            if index == Input.QUERY:
                total[:, :, rectangle.rows] += grad
            elif index in (Input.KEY, Input.VALUE, Input.KEY_BIAS):
                block_grads[index][:, :, rectangle.cols] += grad
            elif index == Input.BIAS:
                part = tile_slice(total, range(rectangle.rows.start, rectangle.rows.stop), rectangle.whole_cols)
                part += grad
            else:
                total += grad

    @staticmethod
    def _receive(pending: tuple[Posted, Posted, list[Tensor]] | None, key_inputs: Sequence[int], grads: list[Tensor | None]) -> None:
        """Wait for the gradients that another rank computed for this rank's keys, and add them."""
        if pending is None:
            return
        sending, receiving, received = pending
        receiving.wait()
        for index, part in zip(key_inputs, received, strict=False):  # received is empty if the other rank sees none of these keys
            total = grads[index]
            assert total is not None
            total += part
        sending.wait()

    def _sinks(self, grads: list[Tensor | None], output: Tensor, lse: Tensor, d_out: Tensor | None, d_lse: Tensor | None) -> None:
        """Add the gradient of the sinks, which have a weight and no value: dz = p · (0 − mean), mean = dO·O − dlse."""
        total, sinks = grads[Input.SINKS], self.request.sinks
        if total is None or sinks is None:
            return
        mean = torch.zeros_like(lse)
        if d_out is not None:
            mean = (d_out.to(lse.dtype) * output.to(lse.dtype)).sum(-1)
        if d_lse is not None:
            mean = mean - d_lse
        weight = (sinks.to(lse.dtype).view(1, -1, 1) - lse.masked_fill(lse == -math.inf, 0)).exp()
        total -= (weight * mean).sum((0, 2))


def merge(output: Tensor, lse: Tensor, rows: slice, part: Tensor | None, part_lse: Tensor) -> None:
    """Merge the partial output and lse of more keys into rows of output (B, h, n, dv) and lse (B, h, n), in place.

    part None: weight without a value, as of sinks.

    >>> output, lse = torch.zeros(1, 1, 1, 1), torch.full((1, 1, 1), -math.inf)
    >>> for value in (1.0, 3.0):
    ...     merge(output, lse, slice(0, 1), torch.full((1, 1, 1, 1), value), torch.zeros(1, 1, 1))
    >>> output.item(), round(lse.exp().item(), 4)
    (2.0, 2.0)
    """
    old = lse[:, :, rows]
    new = torch.logaddexp(old, part_lse)
    base = new.masked_fill(new == -math.inf, 0)
    output[:, :, rows].mul_((old - base).exp().unsqueeze(-1))
    if part is not None:
        output[:, :, rows].addcmul_(part.to(output.dtype), (part_lse - base).exp().unsqueeze(-1))
    lse[:, :, rows] = new


class Autograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ring: Ring, *inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        output, lse = ring.forward()
        ctx.save_for_backward(*inputs, output, lse)
        ctx.ring = ring
        ctx.set_materialize_grads(False)
        return output, lse

    @staticmethod
    def backward(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "ring attention does not support double backward; drop create_graph=True, or use regard.attend in one process"
            )
        *_, output, lse = ctx.saved_tensors  # also raises if an input was modified in place
        return (None, *ctx.ring.backward(ctx.needs_input_grad[1:], output, lse, d_out, d_lse))


__all__ = ["Autograd", "Rectangle", "Ring", "merge"]
