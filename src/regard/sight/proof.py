"""The check stored with every recorded attention: its weights sum to one and reproduce the model's own output.

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
_MAX_WEIGHTS = 1 << 21  # float64 weights in memory at once


@dataclass(frozen=True)
class Proof:
    """The result of a check of what was recorded against what the model computed.

    row_sum_error: the worst |Σp + sink mass − 1| over all rows; rows without a visible key must sum to 0.
    output_error: max |Σ p·v − the model's own output| over the rows checked, in float64; NaN where outputs cannot be compared (dropout, a
        sampled choice).
    rows_checked: how many of each head.
    mask: what the model's mask was read as.
    kernel: what computed the readings.
    holds: whether both errors are within rounding.

    >>> import torch, regard
    >>> layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> seen[0].proof.holds
    True
    """

    row_sum_error: float  # worst |Σp + sink mass − 1| over all rows; rows without a visible key must sum to 0
    output_error: float  # max |Σ p·v − the model's own output| over the rows checked, in float64
    rows_checked: int  # per head
    mask: str
    kernel: str
    holds: bool

    def __str__(self) -> str:
        mark = "✓" if self.holds else "✗ DOES NOT HOLD"
        output_error = "not comparable" if math.isnan(self.output_error) else f"{self.output_error:.0e}"
        checked = f"row sums {self.row_sum_error:.0e}, output {output_error} on {self.rows_checked} rows per head"
        return f"{mark} {checked}, {self.mask or 'no mask'}, {self.kernel}"


@torch.no_grad()
def prove(
    request: Request, *, lse: Tensor | None, mass: Tensor, output: Tensor | None, kernel: str, rows: Literal["sampled", "full"] = "sampled"
) -> Proof:
    """Check the weights of a request against an output (B, h, L, dv). mass (B, h, L) is Σp of each row, as the kernel computed it."""
    row_sum_error = _row_sum_error(request, lse, mass)
    L = request.query.shape[2]
    comparable = output is not None and not request.dropout and (not request.choice.hard) and L and request.key.shape[2]
    output_error, relative_error, largest_score, rows_checked = math.nan, 0.0, 0.0, 0
    if comparable:
        assert output is not None
        checked_rows = range(L) if rows == "full" or L <= ROWS else sample_rows(L)
        output_error, relative_error, largest_score = _output_error(request, lse, output, checked_rows)
        rows_checked = len(checked_rows)
    else:
        finite_lse = mass.new_zeros(()) if lse is None else lse[lse > -math.inf]
        largest_score = float(finite_lse.abs().max()) if finite_lse.numel() else 0.0
    compute_eps = torch.finfo(accumulator(request.query.dtype)).eps
    storage_eps = max(torch.finfo(x.dtype).eps for x in (request.query, request.value if output is None else output))
    # Rounding a score of size s changes its weight by a factor of about 1 + eps·s, so both bounds grow with the largest score.
    holds = row_sum_error <= 64 * compute_eps * (1 + largest_score) and relative_error <= 16 * storage_eps * (1 + largest_score)
    return Proof(row_sum_error, output_error, rows_checked, "" if request.mask is None else repr(request.mask), kernel, holds)


def sample_rows(L: int, count: int = ROWS) -> list[int]:
    """Return `count` of L row indices, the same on every call: the first, the last and random ones between."""
    generator = torch.Generator().manual_seed(L)
    middle = torch.randperm(L - 2, generator=generator)[: count - 2] + 1
    return sorted({0, L - 1, *middle.tolist()})


def _row_sum_error(request: Request, lse: Tensor | None, mass: Tensor) -> float:
    """Return the largest difference between the row sums (B, h, L) and what they must be."""
    if not mass.numel():
        return 0.0
    if lse is None or not isinstance(request.choice.distribution(), Softmax):
        return float((mass - (mass > 0).to(mass.dtype)).abs().max())
    expected = (lse > -math.inf).to(mass.dtype)
    if request.sinks is not None:
        expected = expected - (request.sinks.view(1, -1, 1) - lse).exp()  # the sink's weight is not in Σp
    return float((mass - expected).abs().max()) if not bool(lse.isnan().any()) else math.nan


def _output_error(request: Request, lse: Tensor | None, output: Tensor, checked_rows: range | list[int]) -> tuple[float, float, float]:
    """Return the largest error, the largest error divided by Σ p·max|v|, and the largest |score|, over some rows of all heads."""
    B, h, _, S = request.sizes
    step = max(1, _MAX_WEIGHTS // max(1, S))  # rows at once
    error = relative = largest_score = 0.0
    for first in range(0, len(checked_rows), step):
        rows = checked_rows[first : first + step]
        tile = WeightTile(request, rows, range(S))
        all_at_once = len(rows) * S * B * h <= _MAX_WEIGHTS
        parts = [(slice(None), list(range(h)))] if all_at_once else [(slice(b, b + 1), [i]) for b in range(B) for i in range(h)]
        for batch, heads in parts:
            p, row_max = tile.weights(batch, heads, lse)
            value = request.value[batch][:, [i // request.group for i in heads]].to(tile.dtype)
            value = value if bool(value.sum().isfinite()) else value.nan_to_num(0, 0, 0)
            row_error = (p @ value - output[batch][:, :, tile.index][:, heads].to(tile.dtype)).abs().amax(-1)  # (B, h, n)
            bound = (p @ value.abs().amax(-1, keepdim=True)).squeeze(-1)  # no output of the row can be larger
            largest_error = float(row_error.max())
            if math.isnan(largest_error):
                return math.nan, math.nan, largest_score
            error = max(error, largest_error)
            relative = max(relative, float((row_error / (bound + torch.finfo(torch.float32).tiny)).max()))
            largest_score = max(largest_score, float(row_max.masked_fill(row_max == -math.inf, 0).abs().max()))
    return error, relative, largest_score
