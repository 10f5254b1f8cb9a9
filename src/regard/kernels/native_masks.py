"""What a compiled kernel reads of a mask: key ranges where a row needs few, else the pattern itself, where a tensor already holds it.

Axes: B batch, h heads, L queries, S keys, R ranges.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..masks import Mask
from ..masks.mask import Not, Parts
from ..masks.stored import Dense, KeepKeys


def in_place(mask: Mask, L: int) -> Tensor | None:
    """The pattern (B|1, h|1, L, S) of a mask that is a tensor, not copied; None of any other.

    >>> from regard.masks import dense
    >>> in_place(dense(torch.eye(3, dtype=torch.bool)), 3).shape
    torch.Size([1, 1, 3, 3])
    """
    if isinstance(mask, Dense):
        return mask.tensor
    if isinstance(mask, KeepKeys):  # the same for every row
        return mask.tensor[:, None, None].expand(-1, -1, L, -1)
    return None


def built(mask: Mask, L: int, S: int) -> int:
    """Bytes of the pattern that `&`, `|` and `~` of tensors come to; 0 where a tensor is read in place, or none is as large as that."""
    if in_place(mask, L) is not None or _largest(mask) != mask.lead:
        return 0
    B, h = mask.lead
    return B * h * L * S


def _largest(mask: Mask) -> tuple[int, int] | None:
    """(B, h) of the largest pattern written out that the mask is made of."""
    if isinstance(mask, Dense):
        return mask.lead
    parts = (mask.mask,) if isinstance(mask, Not) else mask.parts if isinstance(mask, Parts) else ()
    return max((lead for part in parts if (lead := _largest(part)) is not None), default=None, key=lambda lead: lead[0] * lead[1])


def refuses(mask: Mask, L: int, S: int, device: torch.device) -> str | None:
    """Why no compiled kernel can read the mask; None if one can. Nothing larger than the ranges is built, and the mask keeps those."""
    if mask.spans(L, S, device=device) is not None or in_place(mask, L) is not None or built(mask, L, S):
        return None
    return "the mask needs too many key ranges a row, and no tensor holds its pattern: only Python can say what a tile of it looks like"


def look(mask: Mask, L: int, S: int, device: torch.device) -> Tensor:
    """Ranges, int32 (B|1, h|1, L, R, 2), or a pattern, bool (B|1, h|1, L, S), of a mask that `refuses` nothing.

    >>> from regard.masks import causal, dense
    >>> look(causal(), 3, 3, torch.device("cpu")).shape
    torch.Size([1, 1, 3, 1, 2])
    >>> checkers = dense((torch.arange(400) + torch.arange(3)[:, None]) % 2 == 0)
    >>> look(checkers & causal(), 3, 400, torch.device("cpu")).shape
    torch.Size([1, 1, 3, 400])
    """
    found = mask.spans(L, S, device=device)
    if found is None:
        found = in_place(mask, L)
    if found is None:
        found = mask.dense(L, S, device=device)
    return found.to(device)


__all__ = ["built", "in_place", "look", "refuses"]
