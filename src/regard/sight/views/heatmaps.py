"""Heat maps of heads: exact weights where the text is short, pooled ones where it is long, and which cells are masked.

Axes: h heads, L queries, S keys, R × C cells of a map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.masks import Mask

if TYPE_CHECKING:
    from ..sighting import Seen

_ENTRIES = 1 << 22  # weights of a pattern recomputed at once
RECOMPUTED_WEIGHTS = 1 << 28  # how many are recomputed for finer maps: a few seconds


def hidden_cells(mask: Mask | None, L: int, S: int, R: int, C: int, *, batch: int = 0, head: int = 0) -> Tensor | None:
    """Which cells of an R × C map of an L × S pattern are wholly masked, bool (R, C); None where none is or it is not known.

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


def pool(pattern: Tensor, R: int, C: int) -> Tensor:
    """(…, L, S) to (…, R, C): each cell the mass its queries put on its keys, a mean over queries; rows keep their sum."""
    *lead, L, S = pattern.shape
    if (L, S) == (R, C):
        return pattern
    across = torch.arange(S, device=pattern.device) * C // S
    down = torch.arange(L, device=pattern.device) * R // L
    narrow = pattern.new_zeros(*lead, L, C).index_add_(-1, across, pattern)
    small = pattern.new_zeros(*lead, R, C).index_add_(-2, down, narrow)
    return small / torch.bincount(down, minlength=R).to(small.dtype).unsqueeze(-1)


def exact_weights(seen: Seen, batch: int, heads: tuple[int, ...] | None = None) -> Tensor | None:
    """The whole pattern (h, L, S) of some heads where it is still known: a pooled map as fine as it, or kept queries and keys."""
    heads = seen.head_ids if heads is None else heads
    pooled = seen.readings.get("pooled")
    if pooled is not None and tuple(pooled.shape[-2:]) == (len(seen.query_pos), len(seen.key_pos)):
        return pooled[batch, [seen.head_ids.index(head) for head in heads]].detach()  # type: ignore[no-any-return]
    if seen.kept is None:
        return None
    return torch.stack([seen.head(head).tile(batch=batch) for head in heads])


def map_cells(
    seen: Seen, batch: int, side: int, heads: tuple[int, ...] | None = None, *, recompute: int = RECOMPUTED_WEIGHTS
) -> Tensor | None:
    """Pooled maps (h, R, C) of some heads, R and C at most `side`: recomputed from kept queries and keys where that is finer than the
    reading and there are at most `recompute` weights to compute. None where there is neither.
    """
    heads = seen.head_ids if heads is None else heads
    L, S = len(seen.query_pos), len(seen.key_pos)
    R, C = min(side, L), min(side, S)
    pooled = seen.readings.get("pooled")
    fine = pooled is not None and pooled.shape[-2] >= R and pooled.shape[-1] >= C
    if not fine and seen.kept is not None and len(heads) * L * S <= recompute:
        return torch.stack([_from_tiles(seen, batch, head, L, S, R, C) for head in heads])
    if pooled is None:
        return None
    R, C = (min(side, n) for n in pooled.shape[-2:])
    return pool(pooled[batch, [seen.head_ids.index(head) for head in heads]].detach().float(), R, C)


def _from_tiles(seen: Seen, batch: int, head: int, L: int, S: int, R: int, C: int) -> Tensor:
    """One map (R, C), a strip of whole map rows at a time."""
    strips, row = [], 0
    while row < R:
        stop = row + 1
        first = -(-row * L // R)  # query i belongs to map row i·R // L
        while stop < R and (-(-(stop + 1) * L // R) - first) * S <= _ENTRIES:
            stop += 1
        last = -(-stop * L // R)
        weights = seen.head(head).tile(rows=slice(first, last), batch=batch)
        down = torch.arange(first, last, device=weights.device) * R // L - row
        across = torch.arange(S, device=weights.device) * C // S
        narrow = weights.new_zeros(last - first, C).index_add_(-1, across, weights)
        strip = weights.new_zeros(stop - row, C).index_add_(0, down, narrow)
        strips.append(strip / torch.bincount(down, minlength=stop - row).to(strip.dtype).unsqueeze(-1))
        row = stop
    return torch.cat(strips)
