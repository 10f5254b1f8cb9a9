"""Attention rollout: how much of each input token reaches a query through all layers, residual connections included.

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
    """Compute rows of Π_l (ρ·I + (1 − ρ)·A_l) for some queries, (n, S); A_l are layer l's weights averaged over heads, ρ is `residual`.

    The product is taken from the last layer to the first, one tile of weights at a time, in O(n·S) memory. It needs the queries and keys of
    every self-attention layer (`watch(model, keep=True)`). Abnar and Zuidema 2020, section 3.
    """
    if not 0 <= residual <= 1:
        raise ValueError(f"residual is {residual}; expected a number between 0 and 1")
    layers = [seen for seen in sighting if seen.call == call and seen.kind != "cross"]
    layers = [seen for seen in layers if seen.kind == layers[0].kind]
    if not layers:
        raise ValueError(f"call {call} has no self-attention; rollout needs the self-attention layers of one forward pass")
    _check_layers(layers)
    L = len(layers[0].query_pos)
    rows = [range(L)[q] for q in queries]
    kept = layers[0].kept
    assert kept is not None
    flow = torch.zeros(len(rows), L, device=kept.spec.query.device)  # (n, S)
    flow[range(len(rows)), rows] = 1
    for seen in reversed(layers):
        flow = residual * flow + (1 - residual) * times_mean_weights(flow, seen, batch)
    return flow


def times_mean_weights(flow: Tensor, seen: Seen, batch: int) -> Tensor:
    """Multiply flow (n, L) by the layer's weights (L, S), averaged over heads."""
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


def _check_layers(layers: list[Seen]) -> None:
    L = len(layers[0].query_pos)
    for seen in layers:
        if seen.kept is None or seen.kept.lse is None:
            raise ValueError(
                f"layer {seen.layer} ({seen.name}) kept no queries and keys; watch(model, keep=True) keeps those of every layer"
            )
        if (len(seen.query_pos), len(seen.key_pos)) != (L, L):
            raise ValueError(
                f"layer {seen.layer} ({seen.name}) is {len(seen.query_pos)} × {len(seen.key_pos)}; rollout needs a row for every token, "
                f"{L} × {L}: watch a forward pass over the full text, not a decoding step"
            )
