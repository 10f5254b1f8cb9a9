"""Attention rollout: what reaches a query through all layers, the residual stream counted in.

Axes: h heads, n chosen queries, L queries, S keys, l rows and s columns of a tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..kernels.tiles import Tiles

if TYPE_CHECKING:
    from .sighting import Seen, Sighting


@torch.no_grad()
def rollout(sighting: Sighting, queries: Iterable[int] = (-1,), *, batch: int = 0, residual: float = 0.5, call: int = 0) -> Tensor:
    """Rows of Π_l (ρ·I + (1 − ρ)·A_l) for some queries, (n, S); A_l is layer l's pattern, the mean over heads, and ρ the residual's share.

    Multiplied from the top layer down, one tile of a pattern at a time: O(n·S) memory. It needs the queries and keys of every
    self-attention layer (`watch(model, keep=True)`). Abnar and Zuidema 2020, section 3.
    """
    if not 0 <= residual <= 1:
        raise ValueError(f"residual is {residual}; it is a share between 0 and 1")
    layers = [seen for seen in sighting if seen.call == call and seen.kind != "cross"]
    layers = [seen for seen in layers if seen.kind == layers[0].kind]
    if not layers:
        raise ValueError(f"no self-attention was seen in call {call}; rollout follows a text through its own layers")
    _check(layers)
    L = len(layers[0].query_pos)
    chosen = [range(L)[q] for q in queries]
    first = layers[0].kept
    assert first is not None
    flow = torch.zeros(len(chosen), L, device=first.spec.query.device)
    flow[range(len(chosen)), chosen] = 1
    for seen in reversed(layers):
        flow = residual * flow + (1 - residual) * through(seen, flow, batch)
    return flow


def through(seen: Seen, flow: Tensor, batch: int) -> Tensor:
    """flow (n, L) times the layer's mean pattern (L, S)."""
    kept = seen.kept
    assert kept is not None and kept.lse is not None
    tiles = Tiles(kept.spec)
    out = flow.new_zeros(flow.shape[0], kept.spec.key.shape[2])
    for rows in tiles.row_blocks():
        part = flow[:, rows.start : rows.stop]
        if not bool(part.any()):
            continue
        lse = kept.lse[:, :, rows.start : rows.stop].unsqueeze(-1)
        lse = lse.masked_fill(lse == -math.inf, 0)
        for tile in tiles.row(rows):
            p = (tile.z[batch] - lse[batch]).exp().mean(0)  # (l, s)
            out[:, tile.cols.start : tile.cols.stop] += part @ p.to(part.dtype)
    return out


def _check(layers: list[Seen]) -> None:
    L = len(layers[0].query_pos)
    for seen in layers:
        if seen.kept is None or seen.kept.lse is None:
            raise ValueError(
                f"layer {seen.layer} ({seen.name}) kept no queries and keys; watch(model, keep=True) keeps those of every layer"
            )
        if (len(seen.query_pos), len(seen.key_pos)) != (L, L):
            raise ValueError(
                f"layer {seen.layer} ({seen.name}) is {len(seen.query_pos)} × {len(seen.key_pos)}; rollout needs every token's own row, "
                f"{L} × {L}: watch one whole forward pass, not a step of a generation"
            )
