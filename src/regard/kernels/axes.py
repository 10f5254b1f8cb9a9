"""The caller's axes and the kernels': inputs and biases with any leading axes as (B, h, …).

Axes: B batch, h query heads, k key heads (k divides h), L queries, S keys, d width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def to_bhld(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor, tuple[int, ...]]:
    """(…, h, L, d) with broadcast leading axes → (B, h, L, d), and the caller's axes in place of (B, h).

    Shared key heads (fewer than query heads) are not repeated.
    """
    sizes, key_sizes, value_sizes = query.shape, key.shape, value.shape
    if len(sizes) == len(key_sizes) == len(value_sizes) == 4 and key_sizes[:2] == value_sizes[:2]:
        h, k = sizes[1], key_sizes[1]
        if sizes[0] == key_sizes[0] and (h == k or (k and h % k == 0)):
            return query, key, value, sizes[:2]
    dims = max(query.dim(), key.dim(), value.dim())
    query, key, value = (x.reshape((1,) * (dims - x.dim()) + x.shape) for x in (query, key, value))
    heads = [x.shape[-3] if dims > 3 else 1 for x in (query, key, value)]
    h, k = heads[0], max(heads[1:]) if 0 not in heads[1:] else 0
    fits = all(n in (1, k) for n in heads[1:]) and (h == k or (k and h % k == 0) or h == 1)
    lead_axes = [x.shape[:-3] if dims > 3 else x.shape[:-2] for x in (query, key, value)]
    try:
        lead = torch.broadcast_shapes(*lead_axes)
    except RuntimeError:
        fits = False
        lead = ()
    if not fits:
        raise ValueError(
            f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} do not fit: "
            "leading axes must be equal or 1, and the number of key and value heads (third axis from the end) must divide the query's"
        )
    h = max(h, k)
    if dims > 3:
        query = query.expand(*lead, h, *query.shape[-2:])
        key, value = (x.expand(*lead, k, *x.shape[-2:]) for x in (key, value))
        axes: tuple[int, ...] = (*lead, h)
    else:
        query, key, value = (x.expand(*lead, *x.shape[-2:]).unsqueeze(-3) for x in (query, key, value))
        axes = tuple(lead)
    query, key, value = (x.reshape(-1 if x.numel() else math.prod(lead), *x.shape[-3:]) for x in (query, key, value))
    return query, key, value, axes


def align_bias(bias: Tensor, axes: tuple[int, ...]) -> Tensor | None:
    """A bias that broadcasts from the right to (*axes, L, S), as (B|1, h|1, L|1, S|1); None where it does not."""
    wanted = len(axes) + 2
    if len(axes) == 1 and bias.dim() == 4 and bias.shape[1] == 1:
        return bias  # (B, 1, L, S) for inputs without heads
    bias = bias.reshape((1,) * (wanted - bias.dim()) + bias.shape)
    if bias.dim() > wanted:
        extra = bias.dim() - wanted
        if any(n != 1 for n in bias.shape[:extra]):
            return None
        bias = bias.reshape(bias.shape[extra:])
    if len(axes) < 2:
        return bias.unsqueeze(-3) if axes else bias[None, None]
    lead = axes[:-1]
    if any(n not in (1, size) for n, size in zip(bias.shape, lead, strict=False)):
        return None
    if any(n != 1 for n in bias.shape[: len(lead)]):
        bias = bias.expand(*lead, *bias.shape[len(lead) :])
    return bias.flatten(0, -4)


def tile_slice(x: Tensor, rows: range, cols: range) -> Tensor:
    """The part of a broadcastable (B|1, h|1, L|1, S|1) tensor that belongs to a tile."""
    x = x if x.shape[-2] == 1 else x[..., rows.start : rows.stop, :]
    return x if x.shape[-1] == 1 else x[..., cols.start : cols.stop]


__all__ = ["align_bias", "tile_slice", "to_bhld"]
