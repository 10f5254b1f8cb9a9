"""Arithmetic on sets of keys written as sorted, disjoint, half-open ranges.

A set is the last two axes of an int32 tensor (..., R, 2) of [start, stop); unused slots are [S, S) and come last.
Everything is vectorised over the leading axes, and no tensor here is larger than (rows × R).
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.tracing import readable

MAX_SPANS = 64
"""`Mask.spans` returns None when a row needs more ranges than this."""


def fits(rows: int, width: int) -> bool:
    """Whether to keep `width` ranges a row. Above MAX_SPANS only while small, since `&` may bring the number down again."""
    return width <= MAX_SPANS or (width <= 4 * MAX_SPANS and rows * width <= 1 << 20)


def _trim(start: Tensor, stop: Tensor, S: int) -> Tensor:
    """Drop the slots that no row uses; at least one stays."""
    width = start.shape[-1]
    if width > 1 and not start.numel():  # no rows
        width = 1
    elif width > 1 and readable(start):
        width = max(1, int((start < S).sum(-1).max()))
    return torch.stack((start[..., :width], stop[..., :width]), dim=-1).to(torch.int32)


def _compact(start: Tensor, stop: Tensor, S: int) -> Tensor:
    """Move empty slots to the end. The ranges are disjoint, so starts and stops sort apart and still pair up."""
    empty = start >= stop
    start, stop = start.masked_fill(empty, S), stop.masked_fill(empty, S)
    if start.shape[-1] > 1:
        start, stop = start.sort(-1).values, stop.sort(-1).values
    return _trim(start, stop, S)


def merge(spans: Tensor, S: int) -> Tensor:
    """The union of any ranges, overlapping and in any order, as sorted disjoint ranges.

    >>> merge(torch.tensor([[5, 7], [0, 2], [1, 3]]), 9).tolist()
    [[0, 3], [5, 7]]
    """
    start, stop = spans.clamp(0, S).unbind(-1)
    empty = start >= stop
    start, order = start.masked_fill(empty, S).sort(-1)
    reach = stop.masked_fill(empty, S).gather(-1, order).cummax(-1).values
    fresh = torch.ones_like(start, dtype=torch.bool)  # does a new range begin in this slot?
    fresh[..., 1:] = start[..., 1:] > reach[..., :-1]
    last = torch.ones_like(fresh)
    last[..., :-1] = fresh[..., 1:]
    # Both masked sequences increase, so sorting packs the k-th start against the k-th stop.
    return _trim(start.masked_fill(~fresh, S).sort(-1).values, reach.masked_fill(~last, S).sort(-1).values, S)


def union(a: Tensor, b: Tensor, S: int) -> Tensor:
    """Keys in a or in b.

    >>> union(torch.tensor([[0, 2], [8, 9]]), torch.tensor([[2, 4]]), 9).tolist()
    [[0, 4], [8, 9]]
    """
    lead = [n if m == 1 else m for n, m in zip(a.shape[:-2], b.shape[:-2], strict=True)]
    return merge(torch.cat((a.expand(*lead, -1, 2), b.expand(*lead, -1, 2)), dim=-2), S)


def complement(spans: Tensor, S: int) -> Tensor:
    """Keys of range(S) that are not in the set: R ranges leave at most R + 1 gaps.

    >>> complement(torch.tensor([[0, 2], [5, 7]]), 9).tolist()
    [[2, 5], [7, 9]]
    """
    start, stop = spans.unbind(-1)
    edge = start.new_zeros((*start.shape[:-1], 1))
    return _compact(torch.cat((edge, stop), dim=-1), torch.cat((start, edge + S), dim=-1), S)


def intersection(a: Tensor, b: Tensor, S: int) -> Tensor:
    """Keys in a and in b.

    >>> intersection(torch.tensor([[0, 4], [6, 9]]), torch.tensor([[3, 8]]), 9).tolist()
    [[3, 4], [6, 8]]
    """
    if min(a.shape[-2], b.shape[-2]) > 1:  # all pairs would cost Ra·Rb; the gaps only Ra + Rb
        return complement(union(complement(a, S), complement(b, S), S), S)
    start = torch.maximum(a[..., 0], b[..., 0])  # one side has a single slot and broadcasts
    return _compact(start, torch.minimum(a[..., 1], b[..., 1]), S)


def runs(keep: Tensor) -> Tensor | None:
    """The runs of True along the last axis of a bool tensor (..., S), as ranges; None when there are too many.

    >>> runs(torch.tensor([True, True, False, True])).tolist()
    [[0, 2], [3, 4]]
    """
    S = keep.shape[-1]
    flat = keep.reshape(keep.shape[:-1].numel(), S)
    begin, end = flat.clone(), flat.clone()
    begin[:, 1:] &= ~flat[:, :-1]
    end[:, :-1] &= ~flat[:, 1:]
    count = begin.sum(-1)
    width = max(1, int(count.max())) if count.numel() else 1
    if not fits(flat.shape[0], width):
        return None
    row, start = begin.nonzero(as_tuple=True)
    stop = end.nonzero(as_tuple=True)[1] + 1
    slot = torch.arange(row.numel(), device=keep.device) - (count.cumsum(0) - count)[row]
    out = torch.full((flat.shape[0], width, 2), S, dtype=torch.int32, device=keep.device)
    out[row, slot] = torch.stack((start, stop), dim=-1).to(torch.int32)
    return out.view(*keep.shape[:-1], width, 2)


def cut(spans: Tensor, keys: range) -> Tensor:
    """Ranges restricted to `keys` and counted from its first; ranges outside become empty.

    >>> cut(torch.tensor([[0, 2], [5, 9]]), range(1, 7)).tolist()
    [[0, 1], [4, 6]]
    """
    return spans.clamp(keys.start, keys.stop) - keys.start


def paint(spans: Tensor, first: int, last: int) -> Tensor:
    """Ranges (..., R, 2) → bool (..., last − first): which of the keys first … last − 1 are in the set.

    >>> paint(torch.tensor([[0, 2], [3, 4]]), 1, 5).tolist()
    [True, False, True, False]
    """
    keys = torch.arange(first, last, dtype=torch.int32, device=spans.device)
    visible = torch.zeros((*spans.shape[:-2], last - first), dtype=torch.bool, device=spans.device)
    for span in spans.unbind(-2):  # (..., 2), one slot at a time: a slot axis beside the keys would be R times larger
        visible |= (span[..., :1] <= keys) & (keys < span[..., 1:])
    return visible
