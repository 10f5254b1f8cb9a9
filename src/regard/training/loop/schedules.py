"""The learning rate as a function of the step, so that it needs no state in checkpoints."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["constant", "inverse-sqrt", "cosine"]


def rate_at(step: int, *, peak: float, warmup: int, schedule: Schedule, total: int = 0, floor: float = 0.0) -> float:
    """Return the learning rate of update `step` (from 1): linear to `peak` over `warmup` steps, then by `schedule`.

    inverse-sqrt  peak · √(warmup / step)                       (Vaswani et al. 2017, section 5.3, up to the constant)
    cosine        from peak to floor · peak at step `total`     (Loshchilov & Hutter 2017, arXiv:1608.03983)

    >>> [round(rate_at(s, peak=1.0, warmup=4, schedule="inverse-sqrt"), 3) for s in (1, 2, 4, 16)]
    [0.25, 0.5, 1.0, 0.5]
    >>> [round(rate_at(s, peak=1.0, warmup=0, schedule="cosine", total=10), 3) for s in (0, 5, 10, 99)]
    [1.0, 0.5, 0.0, 0.0]
    """
    if step < warmup:
        return peak * step / warmup
    if schedule == "inverse-sqrt":
        return peak * math.sqrt(max(warmup, 1) / max(step, 1))
    if schedule == "cosine":
        progress = min((step - warmup) / max(total - warmup, 1), 1.0)
        return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))
    return peak
