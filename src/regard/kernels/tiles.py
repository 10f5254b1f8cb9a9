"""Compute the scores one rectangle of the L×S pattern at a time, for the `streamed` kernel.

Axes: B batch, h heads, l rows and s columns of a tile, L queries, S keys, d width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..biases import Bias
from ..choices import Row
from .axes import tile_slice
from .reference import per_head
from .request import Request, accumulator

TILE = 1 << 20  # entries of a tile over all batches and heads: 4 MB in float32, to fit in cache


class Tile(NamedTuple):
    """The scores of one rectangle."""

    rows: range
    cols: range
    visible: Tensor | None  # None: every pair is visible
    z: Tensor  # (B, h, l, s), −∞ where masked


def repeat_heads(x: Tensor, group: int) -> Tensor:
    """Key heads repeated for the query heads that share them: (B, k, …) → (B, h, …)."""
    return x.repeat_interleave(group, 1) if group > 1 else x


class Tiles:
    """Divides a request into rectangles and computes their scores in the accumulation dtype."""

    def __init__(self, request: Request, budget: int = TILE) -> None:
        self.request = request
        self.dtype = accumulator(request.query.dtype)
        B, h, L, S = request.sizes
        width = 1 if request.score is None else request.score.width(request.query)
        entries = max(1, budget // max(1, B * h * width))
        # Nearly square, for efficient matrix products; the whole of a side that is short.
        side = 1 << max(4, int(math.log2(entries)) // 2)
        self.step_rows = max(1, min(L, max(side, entries // max(1, S))))
        self.step_cols = max(1, min(S, max(16, entries // self.step_rows)))
        self.beta = per_head(request.beta, self.dtype)

    def row_blocks(self) -> Iterator[range]:
        """All rows, in blocks."""
        L = self.request.query.shape[2]
        return (range(i, min(i + self.step_rows, L)) for i in range(0, L, self.step_rows))

    def col_blocks(self, rows: range) -> Iterator[tuple[range, Tensor | None]]:
        """The column blocks of a row block, with their mask (None: all visible); entirely hidden blocks are skipped."""
        request = self.request
        L, S = request.query.shape[2], request.key.shape[2]
        for j in range(0, S, self.step_cols):
            cols = range(j, min(j + self.step_cols, S))
            if request.mask is None:
                yield cols, None
                continue
            visible = request.mask.tile(rows, cols, L, S, device=request.query.device)
            if isinstance(visible, Tensor):
                yield cols, visible
            elif visible == "all":
                yield cols, None

    def row(self, rows: range) -> Iterator[Tile]:
        """Every tile of a row block, left to right."""
        q = self.query(rows)
        for cols, visible in self.col_blocks(rows):
            z = self.raw(q, self.key(cols), rows, cols) * self.beta
            yield Tile(rows, cols, visible, z if visible is None else z.masked_fill_(~visible, -math.inf))

    def fit(self, rows: range) -> Row:
        """The thresholds of a row block, by `Choice.fit`; zeros where nothing is visible."""
        request = self.request
        if next(self.col_blocks(rows), None) is None:
            zeros = torch.zeros(*request.sizes[:2], len(rows), dtype=self.dtype, device=request.query.device)
            return Row(zeros, zeros)
        return request.choice.fit(lambda: (tile.z for tile in self.row(rows)))

    def query(self, rows: range) -> Tensor:
        return self.request.query[:, :, rows.start : rows.stop].to(self.dtype)

    def key(self, cols: range) -> Tensor:
        return repeat_heads(self.request.key[:, :, cols.start : cols.stop].to(self.dtype), self.request.group)

    def raw(self, q: Tensor, k: Tensor, rows: range, cols: range) -> Tensor:
        """Scores before temperature and mask: (B, h, l, s)."""
        s = self.dots(q, k, cols) if self.request.score is None else self.request.score.tile(q, k)
        bias = self.bias(rows, cols)
        return s if bias is None else s + bias

    def dots(self, q: Tensor, k: Tensor, cols: range) -> Tensor:
        """cap(scale · q·k + key_bias) of a tile."""
        request = self.request
        s = (q * request.scale) @ k.mT
        if request.key_bias is not None:
            s += repeat_heads(request.key_bias[:, :, cols.start : cols.stop].to(self.dtype), request.group).unsqueeze(-2)
        return s if request.cap is None else s.div_(request.cap).tanh_().mul_(request.cap)

    def bias(self, rows: range, cols: range) -> Tensor | None:
        """The request's bias in a tile."""
        request = self.request
        if isinstance(request.bias, Bias):
            L, S = request.query.shape[2], request.key.shape[2]
            return request.bias.tile(rows, cols, L, S, device=request.query.device, dtype=self.dtype)
        return None if request.bias is None else tile_slice(request.bias, rows, cols).to(self.dtype)


def finite(x: Tensor) -> bool:
    """Whether a tensor holds no NaN or inf, judged by its sum (an overflow only leads to the slower path)."""
    return math.isfinite(x.detach().sum().item())  # torch.isfinite takes four times as long for one number
