"""The scores of one rectangle of the L×S pattern at a time: what `streamed` is made of.

Axes: B batch, h heads, l rows and s columns of a tile, L queries, S keys, d width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..biases import Bias
from .reference import per_head
from .spec import Spec, accumulator

TILE = 1 << 20  # entries of a tile over all batches and heads: 4 MB in float32, a cache's worth


class Tile(NamedTuple):
    """One rectangle, ready to be chosen from."""

    rows: range
    cols: range
    visible: Tensor | None  # None: every pair may look
    z: Tensor  # (B, h, l, s), −∞ where masked


def spread(x: Tensor, group: int) -> Tensor:
    """Key heads repeated for the query heads that share them: (B, k, …) → (B, h, …)."""
    return x.repeat_interleave(group, 1) if group > 1 else x


class Tiles:
    """Cuts a Spec into rectangles and computes their scores, forward and backward, in the accumulation dtype."""

    def __init__(self, spec: Spec, budget: int = TILE) -> None:
        self.spec = spec
        self.dtype = accumulator(spec.query.dtype)
        B, h, L, S = spec.sizes
        width = 1 if spec.score is None else spec.score.width(spec.query)
        entries = max(1, budget // max(1, B * h * width))
        # Nearly square, long enough in both directions for the matrix products; all of the short side if it fits.
        side = 1 << max(4, int(math.log2(entries)) // 2)
        self.step_rows = max(1, min(L, max(side, entries // max(1, S))))
        self.step_cols = max(1, min(S, max(16, entries // self.step_rows)))
        self.beta = per_head(spec.beta, self.dtype)

    def row_blocks(self) -> Iterator[range]:
        L = self.spec.query.shape[2]
        return (range(i, min(i + self.step_rows, L)) for i in range(0, L, self.step_rows))

    def col_blocks(self, rows: range) -> Iterator[tuple[range, Tensor | None]]:
        """The column blocks a row block looks at, with who sees whom; blocks nobody sees are left out."""
        spec = self.spec
        L, S = spec.query.shape[2], spec.key.shape[2]
        for j in range(0, S, self.step_cols):
            cols = range(j, min(j + self.step_cols, S))
            if spec.mask is None:
                yield cols, None
                continue
            seen = spec.mask.tile(rows, cols, L, S, device=spec.query.device)
            if isinstance(seen, Tensor):
                yield cols, seen
            elif seen == "all":
                yield cols, None

    def row(self, rows: range) -> Iterator[Tile]:
        """Every tile of a row block, left to right."""
        q = self.query(rows)
        for cols, visible in self.col_blocks(rows):
            z = self.raw(q, self.key(cols), rows, cols) * self.beta
            yield Tile(rows, cols, visible, z if visible is None else z.masked_fill_(~visible, -math.inf))

    def query(self, rows: range) -> Tensor:
        return self.spec.query[:, :, rows.start : rows.stop].to(self.dtype)

    def key(self, cols: range) -> Tensor:
        return spread(self.spec.key[:, :, cols.start : cols.stop].to(self.dtype), self.spec.group)

    def raw(self, q: Tensor, k: Tensor, rows: range, cols: range) -> Tensor:
        """Scores before temperature and mask: (B, h, l, s)."""
        s = self.dots(q, k, cols) if self.spec.score is None else self.spec.score.tile(q, k)
        bias = self.bias(rows, cols)
        return s if bias is None else s + bias

    def dots(self, q: Tensor, k: Tensor, cols: range) -> Tensor:
        spec = self.spec
        s = (q * spec.scale) @ k.mT
        if spec.key_bias is not None:
            s += spread(spec.key_bias[:, :, cols.start : cols.stop].to(self.dtype), spec.group).unsqueeze(-2)
        return s if spec.cap is None else s.div_(spec.cap).tanh_().mul_(spec.cap)

    def bias(self, rows: range, cols: range) -> Tensor | None:
        spec = self.spec
        if isinstance(spec.bias, Bias):
            L, S = spec.query.shape[2], spec.key.shape[2]
            return spec.bias.tile(rows, cols, L, S, device=spec.query.device, dtype=self.dtype)
        return None if spec.bias is None else window(spec.bias, rows, cols).to(self.dtype)


def window(x: Tensor, rows: range, cols: range) -> Tensor:
    """The part of a broadcastable (B|1, h|1, L|1, S|1) tensor that belongs to a tile."""
    x = x if x.shape[-2] == 1 else x[..., rows.start : rows.stop, :]
    return x if x.shape[-1] == 1 else x[..., cols.start : cols.stop]


def finite(x: Tensor) -> bool:
    """Whether a tensor holds no NaN or inf, told from its sum (an overflow only costs the slower path)."""
    return bool(torch.isfinite(x.detach().sum()))
