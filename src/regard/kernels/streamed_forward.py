"""The forward pass of `streamed`: one running maximum and sum per row, or a choice's own thresholds; picks and samples.

Axes: B batch, h heads, l rows and s columns of a tile, L queries, S keys, dv value width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..choices import Row, Sample, Softmax
from .dropout import keep, scale
from .request import Request
from .tiles import Tiles, finite, repeat_heads


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
            p = p * keep(request.seed, request.dropout, B, h, rows, cols, p.device) * scale(request.dropout)
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


__all__ = ["Forward"]
