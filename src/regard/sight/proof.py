"""The check every sighting carries: the weights that were read sum to one and reproduce the model's own output.

Axes: B batch, h heads, L queries, S keys, n sampled rows, dv value width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..choices import Softmax
from ..kernels.request import Request, accumulator
from .recompute import WeightTile

ROWS = 128  # sampled per head
_ENTRIES = 1 << 21  # float64 numbers of a pattern held at once


@dataclass(frozen=True)
class Proof:
    """What was checked. `output_error` is NaN where nothing can be compared (dropout, a sampled choice)."""

    row_sum_error: float  # worst |Σp + sink mass − 1| over all rows; 0 is expected of rows that see nothing
    output_error: float  # max |Σ p·v − the model's own output| over the rows checked, in float64
    rows_checked: int  # per head
    mask: str
    kernel: str
    holds: bool

    def __str__(self) -> str:
        mark = "✓" if self.holds else "✗ DOES NOT HOLD"
        shown = "not comparable" if math.isnan(self.output_error) else f"{self.output_error:.0e}"
        checked = f"row sums {self.row_sum_error:.0e}, output {shown} on {self.rows_checked} rows a head"
        return f"{mark} {checked}, {self.mask or 'no mask'}, {self.kernel}"


@torch.no_grad()
def prove(
    request: Request, *, lse: Tensor | None, mass: Tensor, output: Tensor | None, kernel: str, rows: Literal["sampled", "full"] = "sampled"
) -> Proof:
    """Check the weights of a request against an output (B, h, L, dv). mass (B, h, L) is Σp of each row, as the kernel computed it."""
    worst = _row_sum_error(request, lse, mass)
    L = request.query.shape[2]
    comparable = output is not None and not request.dropout and (not request.choice.hard) and L and request.key.shape[2]
    error, relative, peak, checked = math.nan, 0.0, 0.0, 0
    if comparable:
        assert output is not None
        chosen = range(L) if rows == "full" or L <= ROWS else sample(L)
        error, relative, peak = _output_error(request, lse, output, chosen)
        checked = len(chosen)
    else:
        known = mass.new_zeros(()) if lse is None else lse[lse > -math.inf]
        peak = float(known.abs().max()) if known.numel() else 0.0
    fine = torch.finfo(accumulator(request.query.dtype)).eps
    coarse = max(torch.finfo(x.dtype).eps for x in (request.query, request.value if output is None else output))
    # Rounding of a score of size s moves its weight by eps·s: the bounds grow with the largest score and say so.
    holds = worst <= 64 * fine * (1 + peak) and relative <= 16 * coarse * (1 + peak)
    return Proof(worst, error, checked, "" if request.mask is None else repr(request.mask), kernel, holds)


def sample(L: int, count: int = ROWS) -> list[int]:
    """`count` rows of L, always the same ones: the first, the last and a spread between."""
    generator = torch.Generator().manual_seed(L)
    middle = torch.randperm(L - 2, generator=generator)[: count - 2] + 1
    return sorted({0, L - 1, *middle.tolist()})


def _row_sum_error(request: Request, lse: Tensor | None, mass: Tensor) -> float:
    if not mass.numel():
        return 0.0
    if lse is None or not isinstance(request.choice.distribution(), Softmax):
        return float((mass - (mass > 0).to(mass.dtype)).abs().max())
    wanted = (lse > -math.inf).to(mass.dtype)
    if request.sinks is not None:
        wanted = wanted - (request.sinks.view(1, -1, 1) - lse).exp()  # the sink's share is not in Σp
    return float((mass - wanted).abs().max()) if not bool(lse.isnan().any()) else math.nan


def _output_error(request: Request, lse: Tensor | None, output: Tensor, chosen: range | list[int]) -> tuple[float, float, float]:
    """The largest error, the largest error over Σ p·max|v|, and the largest score in size, on some rows of all heads."""
    B, h, _, S = request.sizes
    step = max(1, _ENTRIES // max(1, S))  # rows at once
    error = relative = peak = 0.0
    for first in range(0, len(chosen), step):
        rows = chosen[first : first + step]
        tile = WeightTile(request, rows, range(S))
        together = len(rows) * S * B * h <= _ENTRIES
        parts = [(slice(None), list(range(h)))] if together else [(slice(b, b + 1), [i]) for b in range(B) for i in range(h)]
        for batch, heads in parts:
            p, high = tile.weights(batch, heads, lse)
            value = request.value[batch][:, [i // request.group for i in heads]].to(tile.dtype)
            value = value if bool(value.sum().isfinite()) else value.nan_to_num(0, 0, 0)
            off = (p @ value - output[batch][:, :, tile.index][:, heads].to(tile.dtype)).abs().amax(-1)  # (B, h, n)
            size = (p @ value.abs().amax(-1, keepdim=True)).squeeze(-1)  # no output of the row can be larger
            worst = float(off.max())
            if math.isnan(worst):
                return math.nan, math.nan, peak
            error = max(error, worst)
            relative = max(relative, float((off / (size + torch.finfo(torch.float32).tiny)).max()))
            peak = max(peak, float(high.masked_fill(high == -math.inf, 0).abs().max()))
    return error, relative, peak
