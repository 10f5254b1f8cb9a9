"""One rectangle of a larger pattern, as a pattern of its own: what a block of a sharded sequence sees.

The mask of a block is the mask of the whole, looked at with rows and columns counted from the block's corner. Masks that are a few
numbers stay a few numbers; those that hold a tensor are sliced.

Axes: B batch, h heads, L queries and S keys of the whole, l and s of the rectangle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from ..biases import Bias
from ..masks import Mask, from_spans, ranges
from ..masks.documents import Documents
from ..masks.heads import PerHead
from ..masks.mask import And, Everything, Not, Or, Verdict
from ..masks.patterns import Band, GlobalTokens, Keys
from ..masks.stored import BlockSparse, Dense, KeepKeys, Spans


@dataclass(frozen=True, eq=False)
class Whole:
    """Where a rectangle lies: rows × cols of L × S."""

    rows: range
    cols: range
    L: int
    S: int


def mask_of(mask: Mask, at: Whole) -> Mask:
    """The part of a mask that lies in a rectangle, as a mask of l × s.

    >>> from regard.masks import causal
    >>> mask_of(causal(), Whole(range(4, 6), range(3, 6), 8, 8)).dense(2, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    rows, cols, L, S = at.rows, at.cols, at.L, at.S
    match mask:
        case Everything():
            return mask
        case Not():
            return ~mask_of(mask.mask, at)
        case And():
            return reduce(Mask.__and__, (mask_of(part, at) for part in mask.parts))
        case Or():
            return reduce(Mask.__or__, (mask_of(part, at) for part in mask.parts))
        case PerHead():
            return PerHead(tuple(mask_of(part, at) for part in mask.parts))
        case Band():
            shift = rows.start - cols.start + (S - L if mask.align == "end" else 0)  # where row 0 stands, counted from column 0
            left, right = mask.left, mask.right
            return Band(None if left is None else left - shift, None if right is None else right + shift, "start")
        case Keys():
            if mask.side == "first":
                n = tuple(min(max(count - cols.start, 0), len(cols)) for count in mask.n)
            else:
                n = tuple(min(max(cols.stop - (S - count), 0), len(cols)) for count in mask.n)
            return Keys(n, mask.side, f"{mask!r} from {cols.start}", exact=False)
        case GlobalTokens():
            return _global_tokens(mask, at)
        case KeepKeys():
            return KeepKeys(mask.tensor[:, cols.start : cols.stop])
        case Dense():
            return Dense(mask.tensor[:, :, rows.start : rows.stop, cols.start : cols.stop])
        case BlockSparse() if (layout := _block_rows(mask, at)) is not None:
            return layout
        case Spans():
            return from_spans(_cut(mask.tensor[:, :, rows.start : rows.stop], cols))
        case Documents():
            queries, keys = mask._ids(L, S, None)
            return Documents(queries[:, rows.start : rows.stop], keys[:, cols.start : cols.stop], False)
        case _:
            return Part(mask, at)


def _cut(spans: Tensor, cols: range) -> Tensor:
    """Ranges of keys counted from the first of `cols`, within them."""
    return spans.clamp(cols.start, cols.stop) - cols.start


def _block_rows(mask: BlockSparse, at: Whole) -> Mask | None:
    """The ranges of the blocks these rows lie in; None when a row needs too many."""
    first, last = at.rows.start // mask.block, (at.rows.stop - 1) // mask.block + 1
    found = ranges.runs(mask.tensor[:, first:last])  # (h, block rows, R, 2) counted in blocks
    if found is None:
        return None
    row = torch.arange(at.rows.start, at.rows.stop, device=found.device) // mask.block - first
    return from_spans(_cut(found * mask.block, at.cols)[None, :, row])


def _global_tokens(mask: GlobalTokens, at: Whole) -> Mask:
    """Rows that see everything, or columns that everyone sees: flags as long as the rectangle's sides."""
    first = at.rows.start + at.S - at.L
    keys = torch.zeros(len(mask.positions), len(at.cols), dtype=torch.bool)
    queries = torch.zeros(len(mask.positions), 1, len(at.rows), 1, 2, dtype=torch.int32)
    for sequence, positions in enumerate(mask.positions):
        for p in positions:
            if p in at.cols:
                keys[sequence, p - at.cols.start] = True
            if 0 <= p - first < len(at.rows):
                queries[sequence, 0, p - first, 0, 1] = len(at.cols)
    return KeepKeys(keys) | from_spans(queries)


class Part(Mask):
    """A rectangle of any mask, asked of the mask itself."""

    def __init__(self, mask: Mask, at: Whole) -> None:
        self.mask, self.at = mask, at

    @property
    def lead(self) -> tuple[int, int]:
        return self.mask.lead

    @property
    def device(self) -> torch.device | None:
        return self.mask.device

    def _verdict(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        at = self.at
        return self.mask._verdict(r0 + at.rows.start, r1 + at.rows.start, c0 + at.cols.start, c1 + at.cols.start, at.L, at.S)

    def _fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        at = self.at
        return self.mask._fill(r0 + at.rows.start, r1 + at.rows.start, c0 + at.cols.start, c1 + at.cols.start, at.L, at.S, device)

    def _spans(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        found = self.mask.spans(self.at.L, self.at.S, device=device)
        if found is None:
            return None
        return ranges.merge(_cut(found[:, :, self.at.rows.start : self.at.rows.stop], self.at.cols), S)

    def __repr__(self) -> str:
        return f"{self.mask!r} at {self.at.rows} × {self.at.cols}"


class BiasPart(Bias):
    """A rectangle of a bias: rows and columns counted from its corner."""

    def __init__(self, bias: Bias, at: Whole) -> None:
        super().__init__()
        self.bias, self.at = bias, at

    def tile(
        self, rows: range, cols: range, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        at = self.at
        down = range(rows.start + at.rows.start, rows.stop + at.rows.start)
        across = range(cols.start + at.cols.start, cols.stop + at.cols.start)
        return self.bias.tile(down, across, at.L, at.S, device=device, dtype=dtype)

    def check(self, heads: int) -> None:
        self.bias.check(heads)


__all__ = ["BiasPart", "Part", "Whole", "mask_of"]
