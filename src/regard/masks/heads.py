"""A different mask for each head.

B batch, h heads, L queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.masks.algebra import Parts
from regard.masks.mask import Mask, Verdict


class PerHead(Parts):
    """One mask per head."""

    def __init__(self, parts: tuple[Mask, ...]) -> None:
        super().__init__(parts)
        for head, part in enumerate(parts):
            if part.lead[1] != 1:
                raise ValueError(f"per_head takes masks of one head, but number {head}, {part!r}, has {part.lead[1]}")
        self.__dict__["_lead"] = (self._lead[0], len(parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerHead) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(("per_head", self.parts))

    def __repr__(self) -> str:
        return f"per_head([{', '.join(map(repr, self.parts))}])"

    def check(self, B: int, h: int, L: int, S: int) -> None:
        if h != len(self.parts):
            raise ValueError(f"{self!r} has {len(self.parts)} masks but the inputs have {h} heads; pass one mask per head")
        super().check(B, 1, L, S)

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        first = self.parts[0].covers(r0, r1, c0, c1, L, S)
        return first if first and all(part.covers(r0, r1, c0, c1, L, S) == first for part in self.parts[1:]) else None

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        out = torch.empty((self._lead[0], len(self.parts), r1 - r0, c1 - c0), dtype=torch.bool, device=device)
        for head, part in enumerate(self.parts):
            verdict = part.covers(r0, r1, c0, c1, L, S)
            out[:, head] = verdict == "all" if verdict else part.fill(r0, r1, c0, c1, L, S, device)[:, 0]
        return out

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        return PerHead(tuple(mask.part(rows, cols, L, S) for mask in self.parts))

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        heads: list[Tensor] = []
        for part in self.parts:
            visible = part.key_ranges(L, S, device)
            if visible is None:
                return None
            heads.append(visible)
        width, rows = max(t.shape[-2] for t in heads), L if any(t.shape[2] != 1 for t in heads) else 1
        out = torch.full((self._lead[0], len(heads), rows, width, 2), S, dtype=torch.int32, device=device)
        for head, visible in enumerate(heads):
            out[:, head, :, : visible.shape[-2]] = visible[:, 0]
        return out


def per_head(masks: Sequence[Mask]) -> Mask:
    """One mask for each head, in order.

    masks: one for each head; none of them may already differ by head.

    Returns the mask. Raises ValueError for an empty list.

    >>> from regard.masks import causal, window
    >>> per_head([causal(), window(1, 1)]).dense(2, 2).shape
    torch.Size([1, 2, 2, 2])
    """
    parts = tuple(masks)
    if not parts or not all(isinstance(part, Mask) for part in parts):
        raise ValueError(f"per_head takes one mask per head, at least one, but got {masks!r}")
    return PerHead(parts)
