"""Attention over a sharded sequence: every rank's queries meet every rank's keys, block by block, merged by lse.

Blocks of keys and values travel while the block before is computed (Liu, Zaharia and Abbeel 2023, "Ring attention with blockwise
transformers"; zigzag: Brandon et al. 2023, "Striped attention"). Backward, the blocks travel again and their gradients go home.

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
from ..kernels.request import Input, Request, accumulator
from ..kernels.tiles import tile_slice
from ..masks import Mask
from . import block
from .exchange import Exchange, Posted
from .layout import Layout

SHORT = 512  # positions; a piece is cut no shorter


@dataclasses.dataclass(frozen=True, eq=False)
class Rectangle:
    """A piece of this rank's queries against a piece of one rank's keys: where it lies in the whole, and in the two ranks' tensors."""

    whole_rows: range
    whole_cols: range
    rows: slice
    cols: slice
    mask: Mask | None


def _runs(layout: Layout, rank: int) -> Iterator[tuple[range, slice]]:
    """A rank's positions in runs, and where each lies in its tensors. Long ones are cut: a kernel's own room grows with its call."""
    at = 0
    for piece in layout.pieces(rank):
        parts = max(1, min(4, len(piece) // SHORT)) if layout.ranks > 1 else 1
        for i in range(parts):
            run = piece[i * len(piece) // parts : (i + 1) * len(piece) // parts]
            if len(run):
                yield run, slice(at, at + len(run))
            at += len(run)


class Ring:
    """One sharded attention: this rank's tensors (`request`, without mask and bias), the whole's mask and bias, and who holds what."""

    def __init__(
        self, request: Request, mask: Mask | None, bias: Tensor | Bias | None, queries: Layout, keys: Layout, exchange: Exchange
    ) -> None:
        self.request, self.mask, self.bias = request, mask, bias
        self.queries, self.keys, self.exchange = queries, keys, exchange
        self._rectangles: dict[int, list[Rectangle]] = {}
        self._wanted: dict[tuple[int, int], bool] = {}

    def inputs(self) -> list[Tensor | None]:
        """What is differentiated, in the order of the kernels' inputs."""
        return dataclasses.replace(self.request, bias=self.bias).inputs()

    def travelling(self) -> list[Tensor]:
        """What of a rank's keys the others need."""
        return [x for x in (self.request.key, self.request.value, self.request.key_bias) if x is not None]

    def empty(self, rank: int) -> list[Tensor]:
        """Room for another rank's block."""
        size = self.keys.size(rank)
        return [x.new_empty((*x.shape[:2], size, *x.shape[3:])) for x in self.travelling()]

    def wanted(self, rank: int, other: int) -> bool:
        """Whether any query of a rank may look at any key of another, as far as the mask can tell without building a tile."""
        if (rank, other) not in self._wanted:
            mask, (L, S) = self.mask, (self.queries.length, self.keys.length)
            pairs = ((rows, cols) for rows in self.queries.pieces(rank) for cols in self.keys.pieces(other) if len(rows) and len(cols))
            self._wanted[rank, other] = any(mask is None or mask.verdict(rows, cols, L, S) != "none" for rows, cols in pairs)
        return self._wanted[rank, other]

    def rectangles(self, other: int) -> list[Rectangle]:
        """What this rank's queries see of another rank's keys, piece by piece."""
        if other not in self._rectangles:
            L, S = self.queries.length, self.keys.length
            found = []
            for rows, down in _runs(self.queries, self.exchange.rank):
                for cols, across in _runs(self.keys, other):
                    verdict = "all" if self.mask is None else self.mask.verdict(rows, cols, L, S)
                    if verdict != "none":
                        mask = None if verdict == "all" or self.mask is None else self.mask.part(rows, cols, L, S)
                        found.append(Rectangle(rows, cols, down, across, mask))
            self._rectangles[other] = found
        return self._rectangles[other]

    def part(self, rectangle: Rectangle, held: Sequence[Tensor]) -> Request:
        """The attention of one rectangle; `held` is the block its keys are in."""
        request, bias = self.request, self.bias
        rows, cols = rectangle.rows, rectangle.cols
        key_bias = held[2][:, :, cols] if len(held) > 2 else None
        if isinstance(bias, Bias):
            bias = bias.part(rectangle.whole_rows, rectangle.whole_cols, self.queries.length, self.keys.length)
        elif bias is not None:
            bias = tile_slice(bias, range(rows.start, rows.stop), rectangle.whole_cols)
        return dataclasses.replace(
            request,
            query=request.query[:, :, rows],
            key=held[0][:, :, cols],
            value=held[1][:, :, cols],
            key_bias=key_bias,
            mask=rectangle.mask,
            bias=bias,
            sinks=None,  # in the denominator once, not once a block
            # Each rectangle drops weights by a hash of its own; its place in the whole, not the order of work, decides.
            seed=request.seed ^ (self._place(rectangle) * 0x9E3779B97F4A7C15 & (1 << 62) - 1) if request.dropout else 0,
        )

    def _place(self, rectangle: Rectangle) -> int:
        """A number that no other rectangle of the whole pattern has."""
        return rectangle.whole_rows.start * self.keys.length + rectangle.whole_cols.start

    def blocks(self) -> Iterator[tuple[int, Sequence[Tensor] | None]]:
        return self.exchange.blocks(self.travelling(), self.empty, self.wanted)

    def forward(self) -> tuple[Tensor, Tensor]:
        """Output (B, h, n, dv) and lse (B, h, n)."""
        request = self.request
        B, h, n, _ = request.sizes
        dtype = accumulator(request.query.dtype)
        output = torch.zeros(B, h, n, request.value.shape[-1], dtype=dtype, device=request.query.device)
        lse = torch.full((B, h, n), -math.inf, dtype=dtype, device=request.query.device)
        for other, held in self.blocks():
            for rectangle in self.rectangles(other) if held is not None else ():
                assert held is not None
                merge(output, lse, rectangle.rows, *block.forward(self.part(rectangle, held)))
            del held
        if request.sinks is not None:
            merge(output, lse, slice(0, n), None, request.sinks.to(dtype).view(1, -1, 1).expand_as(lse))
        return output.to(request.value.dtype), lse

    def backward(
        self, needs: Sequence[bool], output: Tensor, lse: Tensor, d_out: Tensor | None, d_lse: Tensor | None
    ) -> list[Tensor | None]:
        """Gradients of `inputs`. Those of keys and values come from every rank; of what all ranks hold alike, each has its own share."""
        exchange, dtype = self.exchange, accumulator(self.request.query.dtype)
        inputs = self.inputs()
        grads: list[Tensor | None] = [
            torch.zeros_like(x, dtype=dtype, memory_format=torch.contiguous_format) if x is not None and need else None
            for x, need in zip(inputs, needs, strict=True)
        ]
        self._sinks(grads, output, lse, d_out, d_lse)
        home = [place for place in (Input.KEY, Input.VALUE, Input.KEY_BIAS) if grads[place] is not None]
        late: tuple[Posted, Posted, list[Tensor]] | None = None  # gradients under way while the next block is computed
        for step, (other, held) in enumerate(self.blocks()):
            theirs: dict[int, Tensor] = {}
            if held is not None:
                theirs = {place: self._gradient(place, grads, other, dtype) for place in home}
                for rectangle in self.rectangles(other):
                    rows = rectangle.rows
                    lines = (None if x is None else x[:, :, rows] for x in (d_out, d_lse))
                    found = block.backward(self.part(rectangle, held), needs, output[:, :, rows], lse[:, :, rows].contiguous(), *lines)
                    self._add(grads, theirs, rectangle, found)
            del held
            self._arrive(late, home, grads)
            late = None
            if step and home:
                who = (exchange.rank + step) % exchange.ranks
                back = [torch.empty_like(grad) for place in home if (grad := grads[place]) is not None]
                back = back if self.wanted(who, exchange.rank) else []
                late = (*exchange.post(other, list(theirs.values()), who, back), back)
        self._arrive(late, home, grads)
        return [None if g is None or x is None else g.to(x.dtype) for g, x in zip(grads, inputs, strict=True)]

    def _gradient(self, place: int, grads: list[Tensor | None], other: int, dtype: torch.dtype) -> Tensor:
        """Where the gradient of a rank's keys is added up: at home, or on a sheet to be sent there."""
        own = grads[place]
        assert own is not None
        return own if other == self.exchange.rank else own.new_zeros((*own.shape[:2], self.keys.size(other), *own.shape[3:]))

    def _add(self, grads: list[Tensor | None], theirs: dict[int, Tensor], rectangle: Rectangle, found: dict[int, Tensor]) -> None:
        for place, grad in found.items():
            total = grads[place]
            assert total is not None
            if place == Input.QUERY:
                total[:, :, rectangle.rows] += grad
            elif place in (Input.KEY, Input.VALUE, Input.KEY_BIAS):
                theirs[place][:, :, rectangle.cols] += grad
            elif place == Input.BIAS:
                part = tile_slice(total, range(rectangle.rows.start, rectangle.rows.stop), rectangle.whole_cols)
                part += grad
            else:
                total += grad

    @staticmethod
    def _arrive(late: tuple[Posted, Posted, list[Tensor]] | None, home: Sequence[int], grads: list[Tensor | None]) -> None:
        """Take what another rank found for this rank's keys."""
        if late is None:
            return
        going, coming, back = late
        coming.wait()
        for place, part in zip(home, back, strict=False):  # nothing comes back from a rank that saw nothing
            total = grads[place]
            assert total is not None
            total += part
        going.wait()

    def _sinks(self, grads: list[Tensor | None], output: Tensor, lse: Tensor, d_out: Tensor | None, d_lse: Tensor | None) -> None:
        """A sink has a weight and no value: dz = p · (0 − mean), mean = dO·O − dlse."""
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
    """Add what was found over more keys to some rows of output (B, h, n, dv) and lse (B, h, n), in place; no part: mass without value.

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
                "a second derivative through a ring is not defined; drop create_graph=True, or attend in one process with regard.attend"
            )
        *_, output, lse = ctx.saved_tensors  # also tells when an input was changed in between
        return (None, *ctx.ring.backward(ctx.needs_input_grad[1:], output, lse, d_out, d_lse))


__all__ = ["Autograd", "Rectangle", "Ring", "merge"]
