"""A rectangle of any mask, as a mask of its own: for a block of a longer sequence.

L queries and S keys of the whole pattern, l and s of the rectangle.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.masks import ranges
from regard.masks.mask import Mask, Verdict


class Part(Mask):
    """rows × cols of the L × S pattern, computed by the whole mask: the default of `Mask.part`."""

    def __init__(self, whole: Mask, rows: range, cols: range, L: int, S: int) -> None:
        self.whole, self.rows, self.cols, self.length, self.keys = whole, rows, cols, L, S

    @property
    def lead(self) -> tuple[int, int]:
        return self.whole.lead

    @property
    def device(self) -> torch.device | None:
        return self.whole.device

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        return self.whole.covers(*self._shifted(r0, r1, c0, c1), self.length, self.keys)

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        return self.whole.fill(*self._shifted(r0, r1, c0, c1), self.length, self.keys, device)

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        whole = self.whole.spans(self.length, self.keys, device=device)
        if whole is None:
            return None
        return ranges.merge(ranges.cut(whole[:, :, self.rows.start : self.rows.stop], self.cols), S)

    def _shifted(self, r0: int, r1: int, c0: int, c1: int) -> tuple[int, int, int, int]:
        """A rectangle of this part in the coordinates of the whole."""
        down, across = self.rows.start, self.cols.start
        return r0 + down, r1 + down, c0 + across, c1 + across

    def __repr__(self) -> str:
        return f"{self.whole!r} at {self.rows} × {self.cols}"
