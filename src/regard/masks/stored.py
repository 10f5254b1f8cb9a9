"""Masks that hold a tensor: padding, block layouts, ranges and dense patterns. They are equal only to themselves.

B batch, h heads, L queries, S keys. The tensors are not copied: do not write to them afterwards. Which rectangles are all visible or all
hidden is read to the host once, so that `covers` never waits for a device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.masks import ranges
from regard.masks.mask import Mask, Size, Verdict
from regard.masks.patterns import Keys, integer_tensor
from regard.tracing import readable


class Stored(Mask):
    """A mask around one tensor."""

    tensor: Tensor

    @property
    def device(self) -> torch.device:
        return self.tensor.device

    def contents(self) -> tuple[object, ...]:
        return repr(self), self.tensor

    def _on(self, tensor: Tensor, device: torch.device | None) -> Tensor:
        if device is None or tensor.device == device:
            return tensor
        return self.remember(("moved", id(tensor), device), lambda: tensor.to(device))


class BlockCounts:
    """Summed-area tables over the blocks of a pattern, which decide whether a rectangle is all visible or all hidden.

    some, full: bool (block rows, block columns), whether any pair and whether every pair of a block is visible.
    """

    def __init__(self, some: NDArray[np.bool_], full: NDArray[np.bool_], block: int) -> None:
        self.block = block
        self.some, self.full = (np.pad(t, ((1, 0), (1, 0))).cumsum(0).cumsum(1) for t in (some, full))

    def verdict(self, r0: int, r1: int, c0: int, c1: int) -> Verdict:
        block = self.block
        a, b, c, d = r0 // block, (r1 - 1) // block + 1, c0 // block, (c1 - 1) // block + 1
        t = self.some
        if t[b, d] - t[a, d] - t[b, c] + t[a, c] == 0:
            return "none"
        t = self.full
        if t[b, d] - t[a, d] - t[b, c] + t[a, c] == (b - a) * (d - c):
            return "all"
        return None


@dataclass(frozen=True, repr=False, eq=False)
class KeepKeys(Stored):
    """The same keys for every query of a sequence, by a bool (B, S)."""

    tensor: Tensor

    @property
    def lead(self) -> tuple[int, int]:
        return self.tensor.shape[0], 1

    @property
    def size(self) -> Size:
        return None, self.tensor.shape[1]

    def check_size(self, L: int, S: int) -> None:
        if self.tensor.shape[1] != S:
            raise ValueError(f"{self!r} covers {self.tensor.shape[1]} keys but there are {S}; build it with one column per key")

    @cached_property
    def _counts(self) -> tuple[list[int], list[int]]:
        """How many of the first j keys some sequence keeps, and how many all do."""
        some, every = self.tensor.any(0), self.tensor.all(0)
        return tuple([0, *t.cumsum(0).tolist()] for t in (some, every))  # type: ignore[return-value]

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        if not readable(self.tensor):
            return None
        some, every = self._counts
        if len(some) != S + 1:
            self.check_size(L, S)
        if some[c1] == some[c0]:
            return "none"
        if every[c1] - every[c0] == c1 - c0:
            return "all"
        return None

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        return self._on(self.tensor, device)[:, None, None, c0:c1]

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        self.check_size(L, S)
        return ranges.runs(self._on(self.tensor, device)[:, None, None]) if readable(self.tensor) else None

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        return KeepKeys(self.tensor[:, cols.start : cols.stop])

    def pattern(self, L: int) -> Tensor:
        return self.tensor[:, None, None].expand(-1, -1, L, -1)

    def __repr__(self) -> str:
        return f"padding(<bool {self.tensor.shape[0]}×{self.tensor.shape[1]}>)"


@dataclass(frozen=True, repr=False, eq=False)
class Dense(Stored):
    """An explicit pattern, bool (…, h|1, L|1, S|1), that broadcasts from the right. `tensor` is (B|1, h|1, L|1, S|1)."""

    tensor: Tensor
    lead_axes: tuple[int, ...]  # the axes in front of (h, L, S) as they were given; `tensor` holds them as one

    @property
    def lead(self) -> tuple[int, int]:
        return self.tensor.shape[0], self.tensor.shape[1]

    @property
    def size(self) -> Size:
        L, S = self.tensor.shape[2:]
        return None if L == 1 else L, None if S == 1 else S

    def check_size(self, L: int, S: int) -> None:
        rows, cols = self.tensor.shape[2:]
        if rows not in (1, L) or cols not in (1, S):
            raise ValueError(f"{self!r} is {rows} queries × {cols} keys but the inputs are {L} × {S}; slice or rebuild it")

    def check(self, B: int, h: int, L: int, S: int) -> None:
        batch, heads = self.lead
        if batch == 1 and heads == B != h and heads != 1:
            raise ValueError(
                f"{self!r} has {heads} heads but the inputs have {h}: masks broadcast from the right, so three axes are (heads, queries, "
                f"keys); if its first axis is the batch of {B}, pass m[:, None]"
            )
        super().check(B, h, L, S)

    def aligned(self, axes: tuple[int, ...]) -> Mask:
        if len(axes) == 2 and len(self.lead_axes) < 2:
            return self
        return self.remember(("aligned", axes), lambda: self._aligned(axes or (1,)))

    def _aligned(self, axes: tuple[int, ...]) -> Mask:
        own_axes = (*self.lead_axes, self.tensor.shape[1])
        if len(axes) == 1 and own_axes[:-1] == axes and own_axes[-1] == 1:
            return self  # (B, 1, L, S) for inputs without heads
        if len(own_axes) > len(axes) and set(own_axes[: len(own_axes) - len(axes)]) == {1}:
            own_axes = own_axes[len(own_axes) - len(axes) :]
        if len(own_axes) > len(axes) or any(n not in (1, size) for n, size in zip(own_axes[::-1], axes[::-1], strict=False)):
            raise ValueError(
                f"{self!r} does not broadcast from the right to inputs whose axes before (positions, features) are {axes}; reshape it"
            )
        tensor = self.tensor.reshape(*(1,) * (len(axes) - len(own_axes)), *own_axes, *self.tensor.shape[2:])
        lead, heads = (axes[:-1], tensor.shape[-3]) if len(axes) > 1 else (tensor.shape[:1], 1)
        if any(n != 1 for n in tensor.shape[: len(lead)]):
            tensor = tensor.expand(*lead, *tensor.shape[len(lead) :])
        count = math.prod(tensor.shape[: len(lead)])
        return Dense(tensor.reshape(count, heads, *tensor.shape[-2:]), (count,))

    @cached_property
    def _blocks(self) -> BlockCounts:
        block = 32
        (L, S), patterns = self.tensor.shape[2:], self.tensor.flatten(0, 1)  # (B · h, L, S)
        some, full = patterns.any(0), patterns.all(0)
        down, across = -L % block, -S % block
        pad = torch.nn.functional.pad
        blocked = (-(-L // block), block, -(-S // block), block)
        some = pad(some, (0, across, 0, down)).view(blocked).any(3).any(1)
        full = pad(full, (0, across, 0, down), value=True).view(blocked).all(3).all(1)
        return BlockCounts(some.numpy(force=True), full.numpy(force=True), block)

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        self.check_size(L, S)
        if not readable(self.tensor):
            return None
        rows, cols = self._cut(r0, r1, c0, c1)
        return self._blocks.verdict(rows.start, rows.stop, cols.start, cols.stop)

    def _cut(self, r0: int, r1: int, c0: int, c1: int) -> tuple[slice, slice]:
        """The rows and columns of the tensor that hold a rectangle: an axis of 1 holds all of them."""
        rows, cols = self.tensor.shape[2:]
        return slice(0, 1) if rows == 1 else slice(r0, r1), slice(0, 1) if cols == 1 else slice(c0, c1)

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        return self._on(self.tensor, device)[:, :, *self._cut(r0, r1, c0, c1)]

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        self.check_size(L, S)
        return ranges.runs(self._on(self.tensor, device).expand(-1, -1, -1, S)) if readable(self.tensor) else None

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        return Dense(self.tensor[:, :, *self._cut(rows.start, rows.stop, cols.start, cols.stop)], self.tensor.shape[:1])

    def pattern(self, L: int) -> Tensor | None:
        return None if self.tensor.shape[3] == 1 else self.tensor.expand(-1, -1, L, -1)  # one column: its ranges are shorter

    def __repr__(self) -> str:
        return f"dense(<bool {'×'.join(map(str, (*self.lead_axes, *self.tensor.shape[1:])))}>)"


@dataclass(frozen=True, repr=False, eq=False)
class BlockSparse(Stored):
    """A layout of square blocks, bool (h|1, block rows, block columns)."""

    tensor: Tensor
    block: int

    @property
    def lead(self) -> tuple[int, int]:
        return 1, self.tensor.shape[0]

    @property
    def size(self) -> tuple[int, int]:
        return self.tensor.shape[1] * self.block, self.tensor.shape[2] * self.block

    def check_size(self, L: int, S: int) -> None:
        need = -(-L // self.block), -(-S // self.block)
        if tuple(self.tensor.shape[1:]) != need:
            raise ValueError(
                f"{self!r} has {self.tensor.shape[1]} × {self.tensor.shape[2]} blocks but {L} queries × {S} keys "
                f"in blocks of {self.block} need {need[0]} × {need[1]}; rebuild the layout or change the block size"
            )

    @cached_property
    def _blocks(self) -> BlockCounts:
        return BlockCounts(self.tensor.any(0).numpy(force=True), self.tensor.all(0).numpy(force=True), self.block)

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        self.check_size(L, S)
        return self._blocks.verdict(r0, r1, c0, c1)

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        block = self.block
        visible = self._on(self.tensor, device)[:, r0 // block : (r1 - 1) // block + 1, c0 // block : (c1 - 1) // block + 1]
        if visible.shape[1] > 1:  # within one block all rows are the same and broadcast
            visible = visible.repeat_interleave(block, 1)[:, r0 % block :][:, : r1 - r0]
        if visible.shape[2] > 1:
            visible = visible.repeat_interleave(block, 2)[:, :, c0 % block :][:, :, : c1 - c0]
        return visible[None]

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        self.check_size(L, S)
        runs = ranges.runs(self._on(self.tensor, device))  # (h, block rows, R, 2) counted in blocks
        if runs is None or not ranges.fits(runs.shape[0] * L, runs.shape[2]):
            return None
        runs = (runs * self.block).clamp(max=S)
        return runs[:, torch.arange(L, device=runs.device) // self.block][None]

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        """The key ranges of these rows, unless a row needs too many."""
        first, last = rows.start // self.block, (rows.stop - 1) // self.block + 1
        runs = ranges.runs(self.tensor[:, first:last])  # (h, block rows, R, 2) counted in blocks
        if runs is None:
            return super().part(rows, cols, L, S)
        row = torch.arange(rows.start, rows.stop, device=runs.device) // self.block - first
        return from_spans(ranges.cut(runs * self.block, cols)[None, :, row])

    def __repr__(self) -> str:
        return f"block_sparse(<bool {'×'.join(map(str, self.tensor.shape))}>, {self.block})"


@dataclass(frozen=True, repr=False, eq=False)
class Spans(Stored):
    """Key ranges, (B|1, h|1, L, R, 2), sorted and disjoint; unused slots lie past any key."""

    tensor: Tensor
    last: int  # the largest stop of a range that is not empty

    @property
    def lead(self) -> tuple[int, int]:
        return self.tensor.shape[0], self.tensor.shape[1]

    @property
    def size(self) -> Size:
        return self.tensor.shape[2], None

    @property
    def _preview_keys(self) -> int:
        return max(1, self.last)

    def check_size(self, L: int, S: int) -> None:
        if self.tensor.shape[2] != L:
            raise ValueError(f"{self!r} describes {self.tensor.shape[2]} queries but there are {L}; pass one set of ranges per query")
        if self.last > S:
            raise ValueError(f"{self!r} reaches key {self.last - 1} but there are only {S} keys (0 … {S - 1})")

    @cached_property
    def _host(self) -> NDArray[np.int32]:
        return self.tensor.numpy(force=True)

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        self.check_size(L, S)
        start, stop = (self._host[:, :, r0:r1, :, side] for side in (0, 1))
        if not ((start < c1) & (stop > c0)).any():
            return "none"
        return "all" if ((start <= c0) & (stop >= c1)).any(-1).all() else None

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        return ranges.paint(self._on(self.tensor, device)[:, :, r0:r1], c0, c1)

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor:
        self.check_size(L, S)
        return self._on(self.tensor, device).clamp(max=S)

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        return from_spans(ranges.cut(self.tensor[:, :, rows.start : rows.stop], cols))

    def __repr__(self) -> str:
        return f"from_spans(<{'×'.join(map(str, self.tensor.shape))}>)"


def _bool_tensor(flags: object, name: str) -> Tensor:
    tensor = flags if isinstance(flags, Tensor) else torch.as_tensor(flags)
    if tensor.dtype != torch.bool:
        raise ValueError(
            f"{name} must be bool with True = visible, but got {tensor.dtype}; compare it (mask > 0), or use from_sdpa for floats"
        )
    return tensor


def padding(lengths: Sequence[int] | Tensor, side: Literal["right", "left"] = "right") -> Mask:
    """Hide padding keys from every query. Padding queries still attend; ignore their output.

    lengths: how many keys of each sequence are real (B,), with the padding on the given `side`; or a bool (B, S), True where real.

    side: where the padding is, "right" or "left".

    Returns the mask. Raises ValueError for another side, or tensors of another shape.

    >>> padding([2, 3]).dense(1, 3)[:, 0].int().tolist()
    [[[1, 1, 0]], [[1, 1, 1]]]
    >>> padding([2, 3], side="left").dense(1, 3)[0, 0].int().tolist()
    [[0, 1, 1]]
    """
    if side not in ("right", "left"):
        raise ValueError(f"padding side is {side!r}; pass 'right' or 'left'")
    tensor = lengths if isinstance(lengths, Tensor) else torch.as_tensor(lengths)
    if tensor.dtype == torch.bool:
        if tensor.ndim != 2:
            raise ValueError(f"a bool padding mask must be (B, S), but got shape {tuple(tensor.shape)}; add the missing axis with [None]")
        return KeepKeys(tensor)
    if tensor.ndim == 2:
        raise ValueError(
            f"padding lengths must be (B,), but got shape {tuple(tensor.shape)}; a 0/1 mask (B, S) goes through from_hf or .bool()"
        )
    counts = tuple(integer_tensor(lengths, "padding lengths").tolist())
    text = f"padding({list(counts)})" if side == "right" else f"padding({list(counts)}, side='left')"
    return Keys(counts, "first" if side == "right" else "last", text, exact=True)


def dense(pattern: Tensor) -> Mask:
    """A mask from an explicit bool pattern, True = visible, that broadcasts from the right to (batch, heads, L, S). It is not copied.

    As torch's `attn_mask`: (L, S) is shared by all, three axes are (heads, L, S), and an axis of 1 stands for any size, as in the padding
    mask (B, 1, 1, S). For one pattern per sequence write `dense(m[:, None])`. Inputs without heads, (B, L, d), take (B, L, S); those with
    more leading axes, (…, heads, L, d), as many in front.

    pattern: the bool tensor.

    Returns the mask. Raises ValueError for another dtype (`regard.from_additive` reads floats).

    >>> dense(torch.tensor([[True, False], [True, True]])).draw(2, 2)
    '██··\\n████'
    """
    pattern = _bool_tensor(pattern, "a dense mask")
    if pattern.ndim < 2:
        raise ValueError(f"a dense mask must be (L, S), (h, L, S) or (B, h, L, S), but got shape {tuple(pattern.shape)}")
    pattern = pattern.reshape((1,) * (4 - pattern.ndim) + pattern.shape)
    return Dense(pattern.flatten(0, -4), tuple(pattern.shape[:-3]))


def block_sparse(layout: Tensor, block: int) -> Mask:
    """Block-sparse mask: square blocks of the pattern are visible or hidden as a whole (Sparse Transformers, arXiv:1904.10509).

    layout: bool (block rows, block columns), or (h, block rows, block columns), ⌈L/block⌉ × ⌈S/block⌉ counted from the start.

    block: the side of a block, in positions.

    Returns the mask. Raises ValueError for a layout with another number of axes, or a block below 1.

    >>> block_sparse(torch.eye(2, dtype=torch.bool), 2).dense(3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    layout = _bool_tensor(layout, "a block layout")
    if layout.ndim not in (2, 3):
        raise ValueError(
            f"a block layout must be (block rows, block columns), with heads in front if they differ, but got {tuple(layout.shape)}"
        )
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise ValueError(f"block is {block!r}; pass the side of a block, a whole number ≥ 1")
    return BlockSparse(layout[None] if layout.ndim == 2 else layout, block)


def from_spans(spans: Tensor) -> Mask:
    """A mask from the key ranges visible to each query: half-open [start, stop).

    spans: whole numbers (L, R, 2) or (B|1, h|1, L, R, 2), the form `Mask.spans` returns. Ranges may overlap and come in any order;
        start ≥ stop is an unused slot.

    Returns the mask. Raises ValueError for another shape.

    >>> from_spans(torch.tensor([[[0, 1]], [[0, 2]]])).dense(2, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    spans = integer_tensor(spans, "spans", dims=(3, 5)).long()
    if spans.shape[-1] != 2:
        raise ValueError(f"spans must end in an axis of 2, [start, stop), but got shape {tuple(spans.shape)}")
    spans = spans[None, None] if spans.ndim == 3 else spans
    stops = spans[..., 1][spans[..., 0] < spans[..., 1]]
    last = int(stops.max()) if stops.numel() else 0
    if not spans.shape[-2]:
        spans = spans.new_zeros((*spans.shape[:-2], 1, 2))
    beyond = 2**31 - 1
    return Spans(ranges.merge(spans, beyond), last)
