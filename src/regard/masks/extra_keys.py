"""A mask followed by keys that every query sees, such as the learned and zero keys of torch.nn.MultiheadAttention.

L queries; S keys, the last `extra` of which are visible to all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.masks import ranges
from regard.masks.mask import Mask, Size, Verdict


@dataclass(frozen=True, repr=False)
class ExtraKeys(Mask):
    """The mask `inner` over all but the last `extra` keys; those are visible to every query.

    inner: the mask of the other keys.
    extra: how many keys at the end every query sees.

    >>> from regard.masks import causal
    >>> print(ExtraKeys(causal(), 1).draw(3, 4))
    ██····██
    ████··██
    ████████
    """

    inner: Mask
    extra: int

    @property
    def lead(self) -> tuple[int, int]:
        return self.inner.lead

    @property
    def device(self) -> torch.device | None:
        return self.inner.device

    @property
    def size(self) -> Size:
        L, S = self.inner.size
        return L, None if S is None else S + self.extra

    @property
    def operands(self) -> tuple[Mask, ...]:
        return (self.inner,)

    def check(self, B: int, h: int, L: int, S: int) -> None:
        self.inner.check(B, h, L, S - self.extra)

    def check_size(self, L: int, S: int) -> None:
        self.inner.check_size(L, S - self.extra)

    def aligned(self, axes: tuple[int, ...]) -> Mask:
        aligned = self.inner.aligned(axes)
        return self if aligned is self.inner else self.remember(("aligned", axes), lambda: ExtraKeys(aligned, self.extra))

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        own = S - self.extra
        if c0 >= own:
            return "all"
        verdict = self.inner.covers(r0, r1, c0, min(c1, own), L, own)
        return verdict if c1 <= own or verdict == "all" else None

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        own = S - self.extra
        inner = self.inner.tile(range(r0, r1), range(c0, min(c1, own)), L, own, device=device)
        if isinstance(inner, str):
            inner = torch.full((1, 1, 1, 1), inner == "all", device=device)
        inner = inner.expand(-1, -1, r1 - r0, min(c1, own) - c0)
        return torch.cat([inner, inner.new_ones(*inner.shape[:3], c1 - min(c1, own))], -1)

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        inner = self.inner.key_ranges(L, S - self.extra, device)
        if inner is None:
            return None
        last = inner.new_tensor([[S - self.extra, S]]).expand(*inner.shape[:-2], 1, 2)
        return ranges.merge(torch.cat([inner, last], -2), S)

    def __repr__(self) -> str:
        return f"{self.inner!r} with {self.extra} more keys visible to all"
