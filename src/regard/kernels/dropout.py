"""The dropout mask as a hash of (seed, batch, head, row, column): the same in every kernel and for every tile size.

Axes: B batch, h heads, l rows and s columns of a tile.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF


def mix(x: Tensor) -> Tensor:
    """A 32-bit avalanche (MurmurHash3's finaliser) on int64 tensors holding unsigned 32-bit numbers."""
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & _LOW
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & _LOW
    return x ^ (x >> 16)


def scale(rate: float) -> float:
    """What a kept weight is multiplied by, 1 / (1 − rate); 0 at a rate of 1, which keeps none."""
    return 1 / (1 - rate) if rate < 1 else 0.0


def keep(seed: int, rate: float, batch: int, heads: int, rows: range, cols: range, device: torch.device) -> Tensor:
    """True where a weight is kept, (B, h, l, s): ``mix(mix(mix(mix(seed) ^ (b·h + head)) ^ row) ^ column) ≥ rate · 2³²``."""
    start = mix(torch.tensor((seed ^ (seed >> 32)) & _LOW, device=device))
    head = mix(start ^ torch.arange(batch * heads, device=device).view(batch, heads, 1, 1))
    row = mix(head ^ torch.arange(rows.start, rows.stop, device=device).view(-1, 1))  # (B, h, l, 1)
    return mix(row ^ torch.arange(cols.start, cols.stop, device=device)) >= int(rate * 2**32)
