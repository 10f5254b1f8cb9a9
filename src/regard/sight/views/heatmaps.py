"""Heat maps of heads: exact weights for short texts, pooled weights for long ones, and which cells are masked.

Axes: h heads, L queries, S keys, R × C cells of a map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.masks import Mask

if TYPE_CHECKING:
    from ..sighting import Seen

_STRIP_WEIGHTS = 1 << 22  # weights recomputed at once
RECOMPUTED_WEIGHTS = 1 << 28  # most weights recomputed for finer maps: a few seconds


def hidden_cells(mask: Mask | None, L: int, S: int, R: int, C: int, *, batch: int = 0, head: int = 0) -> Tensor | None:
    """Return which cells of an R × C map of L × S weights are completely masked, bool (R, C); None if none is or it is unknown.

    >>> from regard import causal
    >>> hidden_cells(causal(), 4, 4, 2, 2).int().tolist()
    [[0, 1], [0, 0]]
    """
    if not isinstance(mask, Mask) or not L or not S:
        return None
    b, h = (batch if mask.lead[0] > 1 else 0), (head if mask.lead[1] > 1 else 0)
    spans = mask.spans(L, S)
    if spans is not None:
        b, h = min(b, spans.shape[0] - 1), min(h, spans.shape[1] - 1)
        start, stop = spans[b, h].long().unbind(-1)  # (L, r)
        row = (torch.arange(L, device=start.device) * R // L).unsqueeze(-1).expand_as(start)
        used = stop > start
        row, start, stop = row[used], start[used] * C // S, (stop[used] - 1) * C // S + 1
        changes = torch.zeros(R, C + 1, dtype=torch.int32, device=start.device)
        one = torch.ones_like(row, dtype=torch.int32)
        changes.index_put_((row, start), one, accumulate=True)
        changes.index_put_((row, stop), -one, accumulate=True)
        hidden = changes.cumsum(-1)[:, :C] == 0
    elif L * S <= 1 << 24:
        dense = mask.dense(L, S)
        visible = dense[min(b, dense.shape[0] - 1), min(h, dense.shape[1] - 1)]
        hidden = pool(visible.float(), R, C) == 0
    else:
        return None
    return hidden if bool(hidden.any()) else None


def pool(weights: Tensor, R: int, C: int) -> Tensor:
    """Pool weights (…, L, S) to (…, R, C): a cell is the sum over its keys, averaged over its queries, so rows keep their sum."""
    *lead, L, S = weights.shape
    if (L, S) == (R, C):
        return weights
    map_column = torch.arange(S, device=weights.device) * C // S
    map_row = torch.arange(L, device=weights.device) * R // L
    by_column = weights.new_zeros(*lead, L, C).index_add_(-1, map_column, weights)
    pooled = weights.new_zeros(*lead, R, C).index_add_(-2, map_row, by_column)
    return pooled / torch.bincount(map_row, minlength=R).to(pooled.dtype).unsqueeze(-1)


def exact_weights(seen: Seen, batch: int, heads: tuple[int, ...] | None = None) -> Tensor | None:
    """Return the weights (h, L, S) of some heads: from a pooled reading of full size or kept queries and keys; None without either.

    Weights of recurrent attention, which may be negative, are drawn by their sizes.
    """
    heads = seen.head_ids if heads is None else heads
    pooled = seen.readings.get("pooled")
    if pooled is not None and tuple(pooled.shape[-2:]) == (len(seen.query_pos), len(seen.key_pos)):
        return pooled[batch, [seen.head_ids.index(head) for head in heads]].detach()  # type: ignore[no-any-return]
    if seen.kept is None:
        return None
    return torch.stack([seen.head(head).tile(batch=batch).abs() for head in heads])


def map_cells(
    seen: Seen, batch: int, side: int, heads: tuple[int, ...] | None = None, *, recompute: int = RECOMPUTED_WEIGHTS
) -> Tensor | None:
    """Return pooled maps (h, R, C) of some heads, R and C at most `side`; None without a pooled reading and kept queries and keys.

    Maps finer than the pooled reading are recomputed from kept queries and keys, if that takes at most `recompute` weights.
    """
    heads = seen.head_ids if heads is None else heads
    L, S = len(seen.query_pos), len(seen.key_pos)
    R, C = min(side, L), min(side, S)
    pooled = seen.readings.get("pooled")
    fine_enough = pooled is not None and pooled.shape[-2] >= R and pooled.shape[-1] >= C
    if not fine_enough and seen.kept is not None and len(heads) * L * S <= recompute:
        return torch.stack([_from_tiles(seen, batch, head, L, S, R, C) for head in heads])
    if pooled is None:
        return None
    R, C = (min(side, n) for n in pooled.shape[-2:])
    return pool(pooled[batch, [seen.head_ids.index(head) for head in heads]].detach().float(), R, C)


def _from_tiles(seen: Seen, batch: int, head: int, L: int, S: int, R: int, C: int) -> Tensor:
    """Recompute one map (R, C), a few of its rows at a time."""
    strips, row = [], 0
    while row < R:
        stop = row + 1
        first = -(-row * L // R)  # query i belongs to map row i·R // L
        while stop < R and (-(-(stop + 1) * L // R) - first) * S <= _STRIP_WEIGHTS:
            stop += 1
        last = -(-stop * L // R)
        weights = seen.head(head).tile(rows=slice(first, last), batch=batch).abs()
        map_row = torch.arange(first, last, device=weights.device) * R // L - row
        map_column = torch.arange(S, device=weights.device) * C // S
        by_column = weights.new_zeros(last - first, C).index_add_(-1, map_column, weights)
        strip = weights.new_zeros(stop - row, C).index_add_(0, map_row, by_column)
        strips.append(strip / torch.bincount(map_row, minlength=stop - row).to(strip.dtype).unsqueeze(-1))
        row = stop
    return torch.cat(strips)
