"""What a compiled kernel reads of a mask: key ranges where a row needs few, else the pattern itself, where a tensor already holds it.

Axes: B batch, h heads, L queries, S keys, R ranges.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...masks import MAX_SPANS, Mask


def pattern_bytes(mask: Mask, L: int, S: int) -> int:
    """Bytes of the pattern that `&`, `|` and `~` of tensors come to; 0 where a tensor is read in place, or none is as large as that."""
    if mask.pattern(L) is not None or _largest_pattern(mask, L) != mask.lead:
        return 0
    B, h = mask.lead
    return B * h * L * S


def _largest_pattern(mask: Mask, L: int) -> tuple[int, int] | None:
    """(B, h) of the largest written-out pattern (L, S) that the mask is made of."""
    if mask.size[0] is not None and mask.pattern(L) is not None:
        return mask.lead
    leads = [lead for operand in mask.operands if (lead := _largest_pattern(operand, L)) is not None]
    return max(leads, default=None, key=lambda lead: lead[0] * lead[1])


def refuses(mask: Mask, L: int, S: int, device: torch.device) -> str | None:
    """Why no compiled kernel can read the mask; None if one can. Nothing larger than the ranges is built, and the mask keeps those."""
    if mask.spans(L, S, device=device) is not None or mask.pattern(L) is not None or pattern_bytes(mask, L, S):
        return None
    return (
        f"the mask has no key ranges (none defined, or over {MAX_SPANS} a row) and no tensor holds its pattern: only Python can fill it in"
    )


def kernel_mask(mask: Mask, L: int, S: int, device: torch.device) -> Tensor:
    """Ranges, int32 (B|1, h|1, L, R, 2), or a pattern, bool (B|1, h|1, L, S), of a mask that `refuses` nothing.

    >>> from regard.masks import causal, dense
    >>> kernel_mask(causal(), 3, 3, torch.device("cpu")).shape
    torch.Size([1, 1, 3, 1, 2])
    >>> checkers = dense((torch.arange(400) + torch.arange(3)[:, None]) % 2 == 0)
    >>> kernel_mask(checkers & causal(), 3, 400, torch.device("cpu")).shape
    torch.Size([1, 1, 3, 400])
    """
    readable = mask.spans(L, S, device=device)
    if readable is None:
        readable = mask.pattern(L)
    if readable is None:
        readable = mask.dense(L, S, device=device)
    return readable.to(device)


__all__ = ["kernel_mask", "pattern_bytes", "refuses"]
