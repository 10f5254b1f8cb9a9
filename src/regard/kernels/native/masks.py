"""The form in which compiled kernels read a mask: key ranges where a row needs few, else a bool tensor of the whole pattern.

Axes: B batch, h heads, L queries, S keys, R ranges.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...masks import MAX_SPANS, Mask

RULE_BYTES = 1 << 26  # the largest pattern evaluated from a rule; larger ones are computed tile by tile


def pattern_bytes(mask: Mask, L: int, S: int) -> int:
    """Bytes of the pattern to be built from `&`, `|` and `~` of patterns; 0 where one is read in place, or none is as large."""
    B, h = mask.lead
    if mask.pattern(L) is not None:
        return 0
    if _largest_pattern(mask, L) != mask.lead and not (_evaluates(mask) and B * h * L * S <= RULE_BYTES):
        return 0
    return B * h * L * S


def _evaluates(mask: Mask) -> bool:
    """Whether a rule is among the mask and its operands."""
    return mask.evaluates or any(map(_evaluates, mask.operands))


def _largest_pattern(mask: Mask, L: int) -> tuple[int, int] | None:
    """(B, h) of the largest explicit pattern among the mask's operands."""
    if mask.size[0] is not None and mask.pattern(L) is not None:
        return mask.lead
    leads = [lead for operand in mask.operands if (lead := _largest_pattern(operand, L)) is not None]
    return max(leads, default=None, key=lambda lead: lead[0] * lead[1])


def refuses(mask: Mask, L: int, S: int, device: torch.device) -> str | None:
    """Why compiled kernels cannot read the mask; None if they can. Builds nothing larger than the ranges, which the mask caches."""
    if mask.spans(L, S, device=device) is not None or mask.pattern(L) is not None or pattern_bytes(mask, L, S):
        return None
    return (
        f"the mask has no key ranges (none defined, or over {MAX_SPANS} per row) and no tensor holds its pattern: "
        "its tiles must be computed in Python"
    )


def kernel_mask(mask: Mask, L: int, S: int, device: torch.device) -> Tensor:
    """The mask as ranges, int32 (B|1, h|1, L, R, 2), or as a pattern, bool (B|1, h|1, L, S). For masks where `refuses` is None.

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
    if readable is None and _evaluates(mask):
        readable = mask.remember(("pattern", L, S, device), lambda: mask.dense(L, S, device=device))
    if readable is None:
        readable = mask.dense(L, S, device=device)
    return readable.to(device)


__all__ = ["kernel_mask", "pattern_bytes", "refuses"]
