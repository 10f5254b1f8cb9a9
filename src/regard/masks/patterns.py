"""Masks defined by a few numbers: bands around the diagonal, key intervals, global tokens. They hold no tensors.

B batch, L queries, S keys. With align="end" query i is at position i + S − L (the queries are the last L of the S), with "start" at i.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from regard.masks import ranges
from regard.masks.mask import Mask, Verdict
from regard.tracing import outlives_trace

Align = Literal["end", "start"]


def integer_tensor(numbers: object, name: str, *, least: int = 0, dims: tuple[int, ...] = (1,)) -> Tensor:
    """Convert a sequence, array or tensor to a tensor of integers; raise a ValueError with `name` in it if that is impossible."""
    tensor = numbers if isinstance(numbers, Tensor) else torch.as_tensor(numbers)
    if tensor.numel() == 0 and not isinstance(numbers, Tensor):
        tensor = tensor.long()
    if tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex():
        raise ValueError(f"{name} must be whole numbers, but got {tensor.dtype}; convert them with .long()")
    if tensor.ndim not in dims:
        shapes = " or ".join(f"{n}-D" for n in dims)
        raise ValueError(f"{name} must be {shapes}, but got shape {tuple(tensor.shape)}")
    if tensor.numel() and int(tensor.min()) < least:
        raise ValueError(f"{name} must be at least {least}, but the smallest is {int(tensor.min())}")
    return tensor


@dataclass(frozen=True, repr=False)
class Band(Mask):
    """Keys from `left` before the query's position to `right` after it."""

    left: int | None
    right: int | None
    align: Align

    @property
    def _preview_keys(self) -> int:
        return max(12, 3 * (self.left or 0), 3 * (self.right or 0))

    def _edges(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> tuple[int, int, int, int]:
        """The band inside a tile, low ≤ column − row ≤ high, and the smallest and largest column − row of the tile."""
        position = r0 - c0 + (S - L if self.align == "end" else 0)  # of the first row, relative to the first column
        lowest, highest = r0 - r1 + 1, c1 - c0 - 1
        low = lowest if self.left is None else max(position - self.left, lowest)
        high = highest if self.right is None else min(position + self.right, highest)
        return low, high, lowest, highest

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        low, high, lowest, highest = self._edges(r0, r1, c0, c1, L, S)
        if low > high:
            return "none"
        return "all" if low == lowest and high == highest else None

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        low, high, _, _ = self._edges(r0, r1, c0, c1, L, S)
        return _band(low, high, r1 - r0, c1 - c0, device)

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor:
        position = torch.arange(L, dtype=torch.int32, device=device) + (S - L if self.align == "end" else 0)
        widest = L + S  # a wider window shows no more keys, and would overflow int32
        start = torch.zeros_like(position) if self.left is None else (position - min(self.left, widest)).clamp(0, S)
        stop = torch.full_like(position, S) if self.right is None else (position + (min(self.right, widest) + 1)).clamp(0, S)
        empty = start >= stop
        return torch.stack((start.masked_fill(empty, S), stop.masked_fill(empty, S)), dim=-1).view(1, 1, L, 1, 2)

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        shift = rows.start - cols.start + (S - L if self.align == "end" else 0)  # position of row 0, relative to column 0
        return Band(None if self.left is None else self.left - shift, None if self.right is None else self.right + shift, "start")

    def __repr__(self) -> str:
        align = "" if self.align == "end" else f"align={self.align!r}"
        if self.left is None and self.right == 0:
            return f"causal({align})"
        return f"window({self.left}, {self.right}{align and ', ' + align})"


_bands: dict[tuple[int, int, int, int, torch.device | None], Tensor] = {}


def _band(low: int, high: int, n: int, m: int, device: torch.device | None) -> Tensor:
    """(1, 1, n, m): low ≤ column − row ≤ high. A tiling needs few different ones, so the last 32 are cached."""
    key = (low, high, n, m, device)
    cached = _bands.get(key)
    if cached is not None and (torch.compiler.is_compiling() or not torch._C._len_torch_dispatch_stack()):
        return cached
    with torch.inference_mode(False):  # cached tensors must be usable in training too
        band = torch.ones((n, m), dtype=torch.bool, device=device)
        band = (band.tril(high) if high < m - 1 else band).triu(low)[None, None]
    if n * m <= 1 << 18 and outlives_trace(band):
        if len(_bands) >= 32:
            _bands.pop(next(iter(_bands)), None)
        _bands[key] = band
    return band


@dataclass(frozen=True, repr=False)
class Keys(Mask):
    """The same interval of keys for every query of a sequence: the first n, or the last n."""

    n: tuple[int, ...]  # one per sequence, or one for all
    side: Literal["first", "last"]
    text: str  # the repr
    exact: bool  # n counts real keys, so it cannot exceed S

    @property
    def lead(self) -> tuple[int, int]:
        return len(self.n), 1

    @property
    def _preview_keys(self) -> int:
        return max(12, self._most * 3 // 2)

    @cached_property
    def _least(self) -> int:
        return min(self.n, default=0)

    @cached_property
    def _most(self) -> int:
        return max(self.n, default=0)

    def check_size(self, L: int, S: int) -> None:
        if self.exact and self._most > S:
            raise ValueError(
                f"{self!r} has a length of {self._most} but there are only {S} keys; lengths count the keys that are not padding"
            )

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        if self.exact and self._most > S:
            self.check_size(L, S)
        near, far = (c0, c1) if self.side == "first" else (S - c1, S - c0)  # distances from the side that n counts from
        if near >= self._most:
            return "none"
        return "all" if far <= self._least else None

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        return self.remember(("flags", S, device), lambda: self._flags(S, device))[..., c0:c1]

    def _flags(self, S: int, device: torch.device | None) -> Tensor:
        spans = self.key_ranges(1, S, device)[:, :, :, 0]
        return ranges.paint(spans[..., None, :], 0, S)  # (B, 1, 1, S)

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor:
        self.check_size(L, S)
        n = torch.tensor([min(count, S) for count in self.n], dtype=torch.int32, device=device)
        start, stop = (torch.zeros_like(n), n) if self.side == "first" else (S - n, torch.full_like(n, S))
        start, stop = start.masked_fill(n == 0, S), stop.masked_fill(n == 0, S)
        return torch.stack((start, stop), dim=-1).view(-1, 1, 1, 1, 2)

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        if self.side == "first":
            n = tuple(min(max(count - cols.start, 0), len(cols)) for count in self.n)
        else:
            n = tuple(min(max(cols.stop - (S - count), 0), len(cols)) for count in self.n)
        return Keys(n, self.side, f"{self!r} from {cols.start}", exact=False)

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class GlobalTokens(Mask):
    """Positions that see every key and are visible to every query."""

    positions: tuple[tuple[int, ...], ...]  # one sorted tuple per sequence, or one for all
    flat: bool  # built from one list for all sequences

    @property
    def lead(self) -> tuple[int, int]:
        return len(self.positions), 1

    @property
    def _preview_keys(self) -> int:
        return max(12, self._some[-1] + 4 if self._some else 0)

    @cached_property
    def _some(self) -> list[int]:
        return sorted({p for row in self.positions for p in row})

    @cached_property
    def _every(self) -> list[int]:
        return sorted(set(self.positions[0]).intersection(*self.positions[1:])) if self.positions else []

    def check_size(self, L: int, S: int) -> None:
        if self._some and self._some[-1] >= S:
            raise ValueError(f"{self!r} names position {self._some[-1]} but there are only {S} keys (0 … {S - 1})")

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        some, every = self._some, self._every
        if some and some[-1] >= S:
            self.check_size(L, S)
        p0, p1 = r0 + S - L, r1 + S - L
        rows, cols = self._count(p0, p1), self._count(c0, c1)
        if not rows and not cols:
            return "none"
        if rows == r1 - r0 and bisect_left(every, p1) - bisect_left(every, p0) == rows:
            return "all"
        if cols == c1 - c0 and bisect_left(every, c1) - bisect_left(every, c0) == cols:
            return "all"
        return None

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        keys, queries = self.remember(("flags", L, S, device), lambda: self._flags(L, S, device))
        keys, queries = keys[..., c0:c1], queries[..., r0:r1, :]
        if not self._count(r0 + S - L, r1 + S - L):
            return keys  # the same for every row: it broadcasts
        return queries | keys if self._count(c0, c1) else queries

    def _count(self, first: int, last: int) -> int:
        """How many of the positions first … last − 1 are global in some sequence."""
        return bisect_left(self._some, last) - bisect_left(self._some, first)

    def _flags(self, L: int, S: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """Which keys (B, 1, 1, S) and which queries (B, 1, L, 1) are global."""
        flags = torch.zeros((len(self.positions), max(L, S)), dtype=torch.bool)
        before = max(L - S, 0)  # queries before position 0
        for row, positions in zip(flags, self.positions, strict=True):
            row[[p + before for p in positions]] = True
        flags = flags.to(device) if device is not None else flags
        return flags[:, None, None, before:], flags[:, None, max(S - L, 0) :, None]

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        self.check_size(L, S)
        keys, queries = self._flags(L, S, device)
        global_keys = ranges.runs(keys)  # (B, 1, 1, R, 2)
        if global_keys is None:
            return None
        all_keys = torch.full_like(global_keys, S)
        all_keys[..., 0, 0] = 0
        return torch.where(queries[..., None], all_keys, global_keys)

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        """Global keys as visible columns, global queries as fully visible rows, of this rectangle only."""
        from regard.masks.stored import KeepKeys, from_spans

        first = rows.start + S - L
        keys = torch.zeros(len(self.positions), len(cols), dtype=torch.bool)
        queries = torch.zeros(len(self.positions), 1, len(rows), 1, 2, dtype=torch.int32)
        for sequence, positions in enumerate(self.positions):
            for position in positions:
                if position in cols:
                    keys[sequence, position - cols.start] = True
                if 0 <= position - first < len(rows):
                    queries[sequence, 0, position - first, 0, 1] = len(cols)
        return KeepKeys(keys) | from_spans(queries)

    def __repr__(self) -> str:
        if self.flat:
            return f"global_tokens({list(self.positions[0])})"
        slots = max(map(len, self.positions), default=0)
        return f"global_tokens({[list(row) + [-1] * (slots - len(row)) for row in self.positions]})"


def _aligned(align: str) -> Align:
    if align not in ("end", "start"):
        raise ValueError(f"align is {align!r}; pass 'end' (the queries are the last L positions) or 'start' (the first L)")
    return "end" if align == "end" else "start"


# Masks are immutable, so all callers share one causal mask and the ranges cached in it.
_CAUSAL: dict[Align, Band] = {"end": Band(None, 0, "end"), "start": Band(None, 0, "start")}


def causal(align: Align = "end") -> Mask:
    """Causal mask: query i sees keys j ≤ i + S − L with align="end", j ≤ i with "start".

    The two differ only when L ≠ S: use "end" for a decoder with cached keys; torch's `is_causal=True` is "start".

    align: "end" or "start".

    Returns the mask.

    >>> causal().dense(2, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    >>> causal(align="start").dense(2, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    return _CAUSAL[_aligned(align)]


def window(left: int | None, right: int | None, align: Align = "end") -> Mask:
    """Sliding window: a query sees keys from `left` positions before its own to `right` after it.

    left, right: how far; 0 is its own position, None is unbounded on that side.
    align: "end" counts from the last query and the last key, "start" from the first, as in :func:`causal`.

    Returns the mask. Raises ValueError for a negative number.

    >>> window(1, 0).dense(3, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    for name, bound in (("left", left), ("right", right)):
        if bound is None:
            continue
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise ValueError(f"window {name} is {bound!r}; pass a whole number of positions, or None for no bound")
        if bound < 0:
            raise ValueError(f"window {name} is {bound}; pass a number of positions ≥ 0, or None for no bound")
    return Band(left, right, _aligned(align))


def prefix(n: int | Sequence[int] | Tensor) -> Mask:
    """Every query sees the first n keys; `causal() | prefix(n)` is a prefix LM.

    n: a number, or one per sequence (B,).

    Returns the mask.

    >>> (causal() | prefix(2)).dense(3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    """
    if isinstance(n, int) and not isinstance(n, bool):
        counts, text = integer_tensor([n], "prefix"), str(n)
    else:
        counts = integer_tensor(n, "prefix", dims=(0, 1))
        counts, text = counts.reshape(-1), str(counts.tolist())
    return Keys(tuple(counts.tolist()), "first", f"prefix({text})", exact=False)


def global_tokens(ids: Sequence[int] | Sequence[Sequence[int]] | Tensor) -> Mask:
    """Global tokens: these positions see every key, and are visible to every query (Longformer, arXiv:2004.05150 §3.1).

    ids: positions (G,), or (B, G) per sequence with −1 for unused slots. Query i is at position i + S − L.

    Returns the mask. Raises ValueError for negative positions other than −1.

    >>> global_tokens([1]).dense(3, 3)[0, 0].int().tolist()
    [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
    """
    positions = integer_tensor(ids, "global_tokens positions", least=-1, dims=(1, 2))
    if positions.ndim == 1 and positions.numel() and int(positions.min()) < 0:
        raise ValueError(
            f"global_tokens got position {int(positions.min())}; positions count from 0 (−1 only fills up rows of a (B, G) tensor)"
        )
    rows = positions.tolist() if positions.ndim == 2 else [positions.tolist()]
    return GlobalTokens(tuple(tuple(sorted({p for p in row if p >= 0})) for row in rows), flat=positions.ndim == 1)
