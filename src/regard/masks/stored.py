"""Masks that hold a tensor: padding, documents, block layouts, ranges and dense patterns. They are equal only to themselves.

B batch, h heads, L queries, S keys. The tensors are not copied: do not write to them afterwards. What a tile needs to know about them is
read to the host once and kept, so that asking for a tile never waits for a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.masks import ranges
from regard.masks.mask import Mask, Tile
from regard.masks.patterns import Keys, whole_numbers


class Stored(Mask):
    """A mask around one tensor."""

    tensor: Tensor

    @property
    def device(self) -> torch.device:
        return self.tensor.device

    def _on(self, tensor: Tensor, device: torch.device | None) -> Tensor:
        if device is None or tensor.device == device:
            return tensor
        return self._remember(("moved", id(tensor), device), lambda: tensor.to(device))


class Rectangles:
    """Verdicts on rectangles of a pattern cut into blocks, by summed-area tables of blocks that hold anything and blocks that are full."""

    def __init__(self, some: NDArray[np.bool_], full: NDArray[np.bool_], block: int) -> None:
        self.block = block
        self.some, self.full = (np.pad(t, ((1, 0), (1, 0))).cumsum(0).cumsum(1) for t in (some, full))

    def verdict(self, r0: int, r1: int, c0: int, c1: int) -> Literal["all", "none"] | None:
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
    def size(self) -> tuple[int, int]:
        return self.tensor.shape[1], self.tensor.shape[1]

    def _fit(self, L: int, S: int) -> None:
        if self.tensor.shape[1] != S:
            raise ValueError(f"{self!r} covers {self.tensor.shape[1]} keys but there are {S}; build it with one column per key")

    @cached_property
    def _counts(self) -> tuple[list[int], list[int]]:
        """How many of the first j keys some sequence keeps, and how many all do."""
        some, every = self.tensor.any(0), self.tensor.all(0)
        return tuple([0, *t.cumsum(0).tolist()] for t in (some, every))  # type: ignore[return-value]

    def _tile(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tile:
        some, every = self._counts
        if len(some) != S + 1:
            self._fit(L, S)
        if some[c1] == some[c0]:
            return "none"
        if every[c1] - every[c0] == c1 - c0:
            return "all"
        return self._on(self.tensor, device)[:, None, None, c0:c1]

    def _spans(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        self._fit(L, S)
        return ranges.runs(self._on(self.tensor, device)[:, None, None])

    def __repr__(self) -> str:
        return f"padding(<bool {self.tensor.shape[0]}×{self.tensor.shape[1]}>)"


@dataclass(frozen=True, repr=False, eq=False)
class Documents(Stored):
    """Queries and keys of the same document see each other."""

    tensor: Tensor  # (B, S) numbers of the keys' documents, or of the queries' (B, L) when `keys` is given
    keys: Tensor | None
    flat: bool

    @property
    def lead(self) -> tuple[int, int]:
        return max(self.tensor.shape[0], 1 if self.keys is None else self.keys.shape[0]), 1

    @property
    def size(self) -> tuple[int, int]:
        return self.tensor.shape[1], (self.tensor if self.keys is None else self.keys).shape[1]

    def _fit(self, L: int, S: int) -> None:
        rows, cols = self.size
        if cols != S:
            raise ValueError(f"{self!r} numbers {cols} keys but there are {S}; pass one document number per key")
        if self.keys is None and L > S:
            raise ValueError(f"{self!r} numbers {S} positions but there are {L} queries; pass key_ids when queries and keys differ")
        if self.keys is not None and rows != L:
            raise ValueError(f"{self!r} numbers {rows} queries but there are {L}; pass one document number per query as ids")

    def _ids(self, L: int, S: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """The document of each query (B, L) and of each key (B, S)."""
        ids = self._on(self.tensor, device)
        return (ids[:, S - L :], ids) if self.keys is None else (ids, self._on(self.keys, device))

    @cached_property
    def _host(self) -> tuple[NDArray[Any], NDArray[Any], bool]:
        """Documents of queries (L, B) and keys (S, B) on the host, and whether each document is one run, numbered in order."""
        ids = self.tensor.numpy(force=True)
        if self.keys is not None:
            return ids.T, self.keys.numpy(force=True).T, False
        change = ids[:, 1:] != ids[:, :-1]
        order = np.pad(change.cumsum(1), ((0, 0), (1, 0))) if ids.shape[1] else ids
        if all(len(np.unique(row)) == count[-1] + 1 for row, count in zip(ids, order, strict=True) if len(row)):
            ids = order
        else:
            return ids.T, ids.T, False
        ids = np.ascontiguousarray(ids.T)
        return ids, ids, True

    def _verdict(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Literal["all", "none"] | None:
        queries, keys, ordered = self._host
        if self.keys is None:
            r0, r1 = r0 + S - L, r1 + S - L
        if ordered:  # the ends of the rectangle tell
            first_query, last_query, first_key, last_key = queries[r0], queries[r1 - 1], keys[c0], keys[c1 - 1]
            if ((last_query < first_key) | (last_key < first_query)).all():
                return "none"
            return "all" if ((last_query <= first_key) & (last_key <= first_query)).all() else None
        same = queries[r0:r1, None] == keys[None, c0:c1]
        return "all" if same.all() else None if same.any() else "none"

    def _tile(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tile:
        self._fit(L, S)
        found = self._verdict(r0, r1, c0, c1, L, S)
        if found is not None:
            return found
        queries, keys = self._ids(L, S, device)
        return queries[:, None, r0:r1, None] == keys[:, None, None, c0:c1]

    def _spans(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        self._fit(L, S)
        queries, keys = self._ids(L, S, device)
        B = self.lead[0]
        if not (B and L and S):
            return torch.full((B, 1, L, 1, 2), S, dtype=torch.int32, device=queries.device)
        queries, keys = queries.expand(B, L), keys.expand(B, S)
        # Number the (sequence, document) pairs 0 … n − 1.
        numbers, place = torch.unique(torch.cat((keys, queries), dim=1), return_inverse=True)
        place = place + torch.arange(B, device=place.device)[:, None] * numbers.numel()
        pairs, place = torch.unique(place, return_inverse=True)
        keys, queries = place[:, :S], place[:, S:]
        # Each run of equal numbers is a range of its pair; the k-th run of a pair goes to slot k.
        begin = torch.ones((B, S), dtype=torch.bool, device=keys.device)
        begin[:, 1:] = keys[:, 1:] != keys[:, :-1]
        sequence, start = begin.nonzero(as_tuple=True)
        stop = torch.cat((start[1:], start.new_full((1,), S)))
        stop = torch.where(stop == 0, S, stop)  # the next run begins the next sequence
        pair, order = keys[sequence, start].sort(stable=True)
        count = torch.bincount(pair, minlength=pairs.numel())
        width = int(count.max())
        if width > ranges.WORKING_SPANS:
            return None
        slot = torch.arange(pair.numel(), device=pair.device) - (count.cumsum(0) - count)[pair]
        table = torch.full((pairs.numel(), width, 2), S, dtype=torch.int32, device=pair.device)
        table[pair, slot] = torch.stack((start[order], stop[order]), dim=-1).to(torch.int32)
        return table[queries][:, None]  # (B, 1, L, R, 2)

    def __repr__(self) -> str:
        return f"documents({', '.join(self._written(t) for t in (self.tensor, self.keys) if t is not None)})"

    def _written(self, ids: Tensor) -> str:
        if ids.numel() > 16:
            return f"<{ids.shape[0]}×{ids.shape[1]} ids>" if not self.flat else f"<{ids.shape[1]} ids>"
        return str(ids[0].tolist() if self.flat else ids.tolist())


@dataclass(frozen=True, repr=False, eq=False)
class Dense(Stored):
    """A pattern written out, bool (B|1, h|1, L, S)."""

    tensor: Tensor

    @property
    def lead(self) -> tuple[int, int]:
        return self.tensor.shape[0], self.tensor.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        return self.tensor.shape[2], self.tensor.shape[3]

    def _fit(self, L: int, S: int) -> None:
        if self.size != (L, S):
            raise ValueError(f"{self!r} is {self.size[0]} queries × {self.size[1]} keys but the inputs are {L} × {S}; slice or rebuild it")

    @cached_property
    def _blocks(self) -> Rectangles:
        block = 32
        (L, S), at = self.size, self.tensor.flatten(0, 1)
        some, full = at.any(0), at.all(0)
        down, across = -L % block, -S % block
        pad = torch.nn.functional.pad
        cut = (-(-L // block), block, -(-S // block), block)
        some = pad(some, (0, across, 0, down)).view(cut).any(3).any(1)
        full = pad(full, (0, across, 0, down), value=True).view(cut).all(3).all(1)
        return Rectangles(some.numpy(force=True), full.numpy(force=True), block)

    def _tile(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tile:
        self._fit(L, S)
        return self._blocks.verdict(r0, r1, c0, c1) or self._on(self.tensor, device)[:, :, r0:r1, c0:c1]

    def _spans(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        self._fit(L, S)
        return ranges.runs(self._on(self.tensor, device))

    def __repr__(self) -> str:
        return f"dense(<bool {'×'.join(map(str, self.tensor.shape))}>)"


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

    def _fit(self, L: int, S: int) -> None:
        need = -(-L // self.block), -(-S // self.block)
        if tuple(self.tensor.shape[1:]) != need:
            raise ValueError(
                f"{self!r} has {self.tensor.shape[1]} × {self.tensor.shape[2]} blocks but {L} queries × {S} keys "
                f"in blocks of {self.block} need {need[0]} × {need[1]}; rebuild the layout or change the block size"
            )

    @cached_property
    def _blocks(self) -> Rectangles:
        return Rectangles(self.tensor.any(0).numpy(force=True), self.tensor.all(0).numpy(force=True), self.block)

    def _tile(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tile:
        self._fit(L, S)
        found = self._blocks.verdict(r0, r1, c0, c1)
        if found is not None:
            return found
        layout = self._on(self.tensor, device)
        rows = torch.arange(r0, r1, device=layout.device) // self.block
        cols = torch.arange(c0, c1, device=layout.device) // self.block
        return layout[:, rows[:, None], cols][None]

    def _spans(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        self._fit(L, S)
        found = ranges.runs(self._on(self.tensor, device))  # (h, block rows, R, 2) counted in blocks
        if found is None:
            return None
        found = (found * self.block).clamp(max=S)
        return found[:, torch.arange(L, device=found.device) // self.block][None]

    def __repr__(self) -> str:
        return f"block_sparse(<bool {'×'.join(map(str, self.tensor.shape))}>, {self.block})"


@dataclass(frozen=True, repr=False, eq=False)
class Spans(Stored):
    """The ranges themselves, (B|1, h|1, L, R, 2), merged; unused slots end past any key."""

    tensor: Tensor
    last: int  # the largest stop of a range that is not empty

    @property
    def lead(self) -> tuple[int, int]:
        return self.tensor.shape[0], self.tensor.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        return self.tensor.shape[2], self.last

    def _fit(self, L: int, S: int) -> None:
        if self.tensor.shape[2] != L:
            raise ValueError(f"{self!r} describes {self.tensor.shape[2]} queries but there are {L}; pass one set of ranges per query")
        if self.last > S:
            raise ValueError(f"{self!r} reaches key {self.last - 1} but there are only {S} keys (0 … {S - 1})")

    @cached_property
    def _host(self) -> NDArray[np.int32]:
        return self.tensor.numpy(force=True)

    def _tile(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tile:
        self._fit(L, S)
        start, stop = (self._host[:, :, r0:r1, :, side] for side in (0, 1))
        if not ((start < c1) & (stop > c0)).any():
            return "none"
        if ((start <= c0) & (stop >= c1)).any(-1).all():
            return "all"
        return ranges.paint(self._on(self.tensor, device)[:, :, r0:r1], c0, c1)

    def _spans(self, L: int, S: int, device: torch.device | None) -> Tensor:
        self._fit(L, S)
        return self._on(self.tensor, device).clamp(max=S)

    def __repr__(self) -> str:
        return f"from_spans(<{'×'.join(map(str, self.tensor.shape))}>)"


def _flags(given: object, what: str) -> Tensor:
    found = given if isinstance(given, Tensor) else torch.as_tensor(given)
    if found.dtype != torch.bool:
        raise ValueError(
            f"{what} must be bool with True = may look, but got {found.dtype}; compare it (mask > 0), or use from_sdpa for floats"
        )
    return found


def _rows(ids: Tensor) -> Tensor:
    return ids[None] if ids.ndim == 1 else ids


def padding(lengths: Sequence[int] | Tensor, side: Literal["right", "left"] = "right") -> Mask:
    """No query sees padding keys. Padded queries still look; what they return is for the caller to ignore.

    lengths: how many keys of each sequence are real (B,), with the padding on the given `side`; or a bool (B, S), True where real.

    >>> padding([2, 3]).dense(1, 3)[:, 0].int().tolist()
    [[[1, 1, 0]], [[1, 1, 1]]]
    >>> padding([2, 3], side="left").dense(1, 3)[0, 0].int().tolist()
    [[0, 1, 1]]
    """
    if side not in ("right", "left"):
        raise ValueError(f"padding side is {side!r}; pass 'right' or 'left'")
    found = lengths if isinstance(lengths, Tensor) else torch.as_tensor(lengths)
    if found.dtype == torch.bool:
        if found.ndim != 2:
            raise ValueError(f"a bool padding mask must be (B, S), but got shape {tuple(found.shape)}; add the missing axis with [None]")
        return KeepKeys(found)
    counts = tuple(whole_numbers(lengths, "padding lengths").tolist())
    text = f"padding({list(counts)})" if side == "right" else f"padding({list(counts)}, side='left')"
    return Keys(counts, "first" if side == "right" else "last", text, exact=True)


def documents(
    ids: Sequence[int] | Sequence[Sequence[int]] | Tensor, key_ids: Sequence[int] | Sequence[Sequence[int]] | Tensor | None = None
) -> Mask:
    """A query sees the keys of its own document: several texts packed into one sequence.

    ids: a number per position, (S,) or (B, S); with fewer queries than keys the queries are the last L. A document may lie in pieces.
    key_ids: (S,) or (B, S) when the keys are another sequence; ids is then (L,) or (B, L).

    >>> documents([0, 0, 7]).dense(3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    found = whole_numbers(ids, "document ids", least=-(1 << 63), dims=(1, 2))
    keys = None if key_ids is None else whole_numbers(key_ids, "document key_ids", least=-(1 << 63), dims=(1, 2))
    flat = found.ndim == 1 and (keys is None or keys.ndim == 1)
    found, keys = _rows(found), None if keys is None else _rows(keys)
    if keys is not None and found.shape[0] != keys.shape[0] and 1 not in (found.shape[0], keys.shape[0]):
        raise ValueError(f"documents got ids for {found.shape[0]} sequences but key_ids for {keys.shape[0]}; pass the same number of each")
    return Documents(found, keys, flat)


def dense(pattern: Tensor) -> Mask:
    """A pattern written out: bool (L, S), (B, L, S) or (B|1, h|1, L, S). It is not copied.

    >>> dense(torch.tensor([[True, False], [True, True]])).draw(2, 2)
    '██··\\n████'
    """
    found = _flags(pattern, "a dense mask")
    if found.ndim not in (2, 3, 4):
        raise ValueError(f"a dense mask must be (L, S), (B, L, S) or (B, h, L, S), but got shape {tuple(found.shape)}")
    return Dense(found[None, None] if found.ndim == 2 else found[:, None] if found.ndim == 3 else found)


def block_sparse(layout: Tensor, block: int) -> Mask:
    """Square blocks of the pattern switched on or off (Sparse Transformers, arXiv:1904.10509).

    layout: bool (block rows, block columns), or (h, block rows, block columns), ⌈L/block⌉ × ⌈S/block⌉ counted from the start.

    >>> block_sparse(torch.eye(2, dtype=torch.bool), 2).dense(3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    found = _flags(layout, "a block layout")
    if found.ndim not in (2, 3):
        raise ValueError(
            f"a block layout must be (block rows, block columns), with heads in front if they differ, but got {tuple(found.shape)}"
        )
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise ValueError(f"block is {block!r}; pass the side of a block, a whole number ≥ 1")
    return BlockSparse(found[None] if found.ndim == 2 else found, block)


def from_spans(spans: Tensor) -> Mask:
    """The ranges each query sees, as `Mask.spans` gives them: whole numbers (L, R, 2) or (B|1, h|1, L, R, 2), half-open [start, stop).

    They may overlap and come in any order; start ≥ stop is an unused slot.

    >>> from_spans(torch.tensor([[[0, 1]], [[0, 2]]])).dense(2, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    found = whole_numbers(spans, "spans", dims=(3, 5))
    if found.shape[-1] != 2:
        raise ValueError(f"spans must end in an axis of 2, [start, stop), but got shape {tuple(found.shape)}")
    found = found[None, None] if found.ndim == 3 else found
    stops = found[..., 1][found[..., 0] < found[..., 1]]
    last = int(stops.max()) if stops.numel() else 0
    if not found.shape[-2]:
        found = found.new_zeros((*found.shape[:-2], 1, 2))
    beyond = 2**31 - 1
    merged = ranges.merge(found, beyond)
    return Spans(merged, last)
