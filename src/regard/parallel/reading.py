"""Readings of a sharded attention: each rank reads its own rows, then the states are merged, and every rank has the result.

The keys are exchanged once more, now that the lse is known; p = exp(z − lse) of a tile is computed, read and discarded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..choices import Row
from ..kernels.request import accumulator
from ..kernels.tiles import Tiles
from ..readings import Reading, Shape
from .exchange import Exchange
from .ring import Ring


@torch.no_grad()
def read(ring: Ring, readings: Sequence[Reading], lse: Tensor) -> dict[str, Any]:
    """The readings of the whole sequence (all queries, all keys, in order), the same on every rank."""
    request = ring.request
    B, h, _, _ = request.sizes
    dtype = accumulator(request.query.dtype)
    norms = None
    if any(reading.needs_value_norms for reading in readings):
        norms = torch.zeros(B, h, ring.keys.length, dtype=dtype, device=request.query.device)
    shape = Shape(B, h, ring.queries.length, ring.keys.length, request.query.device, dtype, norms)
    states = [reading.start(shape) for reading in readings]
    for other, keys in ring.blocks():
        for rectangle in ring.rectangles(other) if keys is not None else ():
            assert keys is not None
            part = ring.part(rectangle, keys)
            tiles = Tiles(part)
            if norms is not None:
                norms[:, :, rectangle.whole_cols.start : rectangle.whole_cols.stop] = (
                    part.value.to(dtype).norm(dim=-1).repeat_interleave(part.group, 1)
                )
            for rows in tiles.row_blocks():
                row_lse = lse[:, :, rectangle.rows][:, :, rows.start : rows.stop]
                row = Row(row_lse, torch.ones_like(row_lse))
                whole_rows = range(rectangle.whole_rows.start + rows.start, rectangle.whole_rows.start + rows.stop)
                for tile in tiles.row(rows):
                    whole_cols = range(rectangle.whole_cols.start + tile.cols.start, rectangle.whole_cols.start + tile.cols.stop)
                    p = request.choice.weights(tile.z, row)
                    for reading, state in zip(readings, states, strict=True):
                        reading.add(state, p, tile.z, whole_rows, whole_cols)
    merged = [_merge(ring.exchange, reading, state) for reading, state in zip(readings, states, strict=True)]
    return {reading.name: reading.finish(state) for reading, state in zip(readings, merged, strict=True)}


def _merge(exchange: Exchange, reading: Reading, state: Any) -> Any:
    """Merge the states from the first rank to the last, then send the result back to all."""
    rank, last = exchange.rank, exchange.ranks - 1
    if rank:
        before = _like(state)
        exchange.post(rank, (), rank - 1, list(_tensors(before)))[1].wait()
        state = reading.merge(before, state)
    merged = [x.contiguous() for x in _tensors(state)]
    if rank < last:
        exchange.post(rank + 1, merged, rank, ())[0].wait()
        state = _like(state)
        exchange.post(rank, (), rank + 1, list(_tensors(state)))[1].wait()
        merged = list(_tensors(state))
    if rank:
        exchange.post(rank - 1, merged, rank, ())[0].wait()
    return state


def _tensors(state: Any) -> Iterator[Tensor]:
    """The tensors of a state, always in the same order."""
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, dict):
        for key in sorted(state):
            yield from _tensors(state[key])
    elif isinstance(state, tuple | list):
        for part in state:
            yield from _tensors(part)
    elif dataclasses.is_dataclass(state):
        for field in dataclasses.fields(state):
            yield from _tensors(getattr(state, field.name))


def _like(state: Any) -> Any:
    """A state of the same structure with uninitialised tensors, to receive into."""
    if isinstance(state, Tensor):
        return torch.empty_like(state, memory_format=torch.contiguous_format)
    if isinstance(state, dict):
        return {key: _like(value) for key, value in state.items()}
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*map(_like, state))
    if isinstance(state, tuple | list):
        return type(state)(map(_like, state))
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        return dataclasses.replace(state, **{field.name: _like(getattr(state, field.name)) for field in dataclasses.fields(state)})
    return state


__all__ = ["read"]
