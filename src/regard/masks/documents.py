"""Masks for several texts packed into one sequence: each query sees the keys of its own document.

B batch, L queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.masks import ranges
from regard.masks.mask import Mask, Size, Verdict
from regard.masks.patterns import integer_tensor
from regard.masks.stored import Stored


@dataclass(frozen=True, repr=False, eq=False)
class Documents(Stored):
    """Queries and keys of the same document see each other."""

    tensor: Tensor  # (B, S) document ids of the keys, or of the queries (B, L) when `keys` is set
    keys: Tensor | None  # (B, S) document ids of the keys, when they are another sequence
    flat: bool  # built from one list for all sequences

    @property
    def lead(self) -> tuple[int, int]:
        B = self.tensor.shape[0]
        return B if self.keys is None or B != 1 else self.keys.shape[0], 1

    @property
    def size(self) -> Size:
        return (None, self.tensor.shape[1]) if self.keys is None else (self.tensor.shape[1], self.keys.shape[1])

    def check_size(self, L: int, S: int) -> None:
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
    def _ordered(self) -> NDArray[np.int64] | None:
        """(S, B), documents numbered in order of appearance, when each is contiguous; None when some are split."""
        if self.keys is not None:
            return None
        change = (self.tensor[:, 1:] != self.tensor[:, :-1]).numpy(force=True)
        order = np.pad(change.cumsum(1), ((0, 0), (min(1, self.tensor.shape[1]), 0)))
        for ids, number in zip(self.tensor, order, strict=True):
            if len(number) and ids.unique().numel() != number[-1] + 1:
                return None
        return np.ascontiguousarray(order.T)

    @cached_property
    def _sequences(self) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """The documents of the queries and of the keys, sequence by sequence, on the host."""
        queries, keys = (
            t.expand(self.lead[0], -1).numpy(force=True) for t in (self.tensor, self.tensor if self.keys is None else self.keys)
        )
        return list(zip(queries, keys, strict=True))

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        self.check_size(L, S)
        if self.keys is None:
            r0, r1 = r0 + S - L, r1 + S - L
        number = self._ordered
        if number is not None:  # the corners of the rectangle decide
            first_query, last_query, first_key, last_key = number[r0], number[r1 - 1], number[c0], number[c1 - 1]
            if ((last_query < first_key) | (last_key < first_query)).all():
                return "none"
            return "all" if ((last_query <= first_key) & (last_key <= first_query)).all() else None
        verdicts: set[Verdict] = set()
        for queries, keys in self._sequences:
            if len({queries[r] == keys[c] for r in (r0, r1 - 1) for c in (c0, c1 - 1)}) > 1:
                return None  # the corners differ: most rectangles are decided here
            a, b = set(queries[r0:r1].tolist()), set(keys[c0:c1].tolist())
            verdicts.add("none" if a.isdisjoint(b) else "all" if len(a) == len(b) == 1 else None)
            if len(verdicts) > 1 or None in verdicts:
                return None
        return verdicts.pop() if verdicts else "none"

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        queries, keys = self._ids(L, S, device)
        return queries[:, None, r0:r1, None] == keys[:, None, None, c0:c1]

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        self.check_size(L, S)
        queries, keys = self._ids(L, S, device)
        B = self.lead[0]
        if not (B and L and S):
            return torch.full((B, 1, L, 1, 2), S, dtype=torch.int32, device=queries.device)
        queries, keys = queries.expand(B, L), keys.expand(B, S)
        begin = torch.ones((B, S), dtype=torch.bool, device=keys.device)
        begin[:, 1:] = keys[:, 1:] != keys[:, :-1]
        if self._ordered is not None:  # each run is a document
            run = begin.flatten().cumsum(0).view(B, S)[:, S - L :] - 1
            return _ranges(begin)[run][:, None, :, None]  # (B, 1, L, 1, 2)
        # Number the (sequence, document) pairs 0 … n − 1.
        numbers, index = torch.unique(torch.cat((keys, queries), dim=1), return_inverse=True)
        index = index + torch.arange(B, device=index.device)[:, None] * numbers.numel()
        pairs, index = torch.unique(index, return_inverse=True)
        keys, queries = index[:, :S], index[:, S:]
        # Each run of equal numbers is a range of its pair; the k-th run of a pair goes to slot k.
        pair, order = keys[begin].sort(stable=True)
        count = torch.bincount(pair, minlength=pairs.numel())
        width = int(count.max())
        if not ranges.fits(B * L, width):
            return None
        slot = torch.arange(pair.numel(), device=pair.device) - (count.cumsum(0) - count)[pair]
        table = torch.full((pairs.numel(), width, 2), S, dtype=torch.int32, device=pair.device)
        table[pair, slot] = _ranges(begin)[order]
        return table[queries][:, None]  # (B, 1, L, R, 2)

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        queries, keys = self._ids(L, S, None)
        return Documents(queries[:, rows.start : rows.stop], keys[:, cols.start : cols.stop], False)

    def contents(self) -> tuple[object, ...]:
        return (*super().contents(), *(() if self.keys is None else (self.keys,)))

    def __repr__(self) -> str:
        return f"documents({', '.join(self._ids_text(t) for t in (self.tensor, self.keys) if t is not None)})"

    def _ids_text(self, ids: Tensor) -> str:
        if ids.numel() > 16:
            return f"<{ids.shape[0]}×{ids.shape[1]} ids>" if not self.flat else f"<{ids.shape[1]} ids>"
        return str(ids[0].tolist() if self.flat else ids.tolist())


def _ranges(begin: Tensor) -> Tensor:
    """The ranges [start, stop) of consecutive runs, int32 (n, 2), from flags (B, S) that mark where each run begins."""
    start = begin.nonzero(as_tuple=True)[1]
    stop = start.roll(-1)
    return torch.stack((start, stop.masked_fill(stop == 0, begin.shape[1])), dim=-1).to(torch.int32)


def _rows(ids: Tensor) -> Tensor:
    return ids[None] if ids.ndim == 1 else ids


def documents(
    ids: Sequence[int] | Sequence[Sequence[int]] | Tensor, key_ids: Sequence[int] | Sequence[Sequence[int]] | Tensor | None = None
) -> Mask:
    """Document mask, for several texts packed into one sequence: a query sees the keys of its own document.

    ids: a number per position, (S,) or (B, S); with fewer queries than keys the queries are the last L. A document need not be contiguous.
    key_ids: (S,) or (B, S) when the keys are another sequence; ids is then (L,) or (B, L).

    Returns the mask. Raises ValueError if ids and key_ids are of different numbers of sequences.

    >>> documents([0, 0, 7]).dense(3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    queries = integer_tensor(ids, "document ids", least=-(1 << 63), dims=(1, 2))
    keys = None if key_ids is None else integer_tensor(key_ids, "document key_ids", least=-(1 << 63), dims=(1, 2))
    flat = queries.ndim == 1 and (keys is None or keys.ndim == 1)
    queries, keys = _rows(queries), None if keys is None else _rows(keys)
    if keys is not None and queries.shape[0] != keys.shape[0] and 1 not in (queries.shape[0], keys.shape[0]):
        raise ValueError(
            f"documents got ids for {queries.shape[0]} sequences but key_ids for {keys.shape[0]}; pass the same number of each"
        )
    return Documents(queries, keys, flat)
