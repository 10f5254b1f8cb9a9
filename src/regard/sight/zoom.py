"""Exact weights of chosen rows and columns, recomputed in float64 from what an attention was made of.

Axes: B batch, h heads, n rows, s columns, L queries, S keys, d width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..biases import Bias
from ..choices import Softmax
from ..kernels.spec import Spec


class Zoom:
    """The rectangle rows × cols of a Spec's pattern; masks and biases are read once for all heads."""

    def __init__(self, spec: Spec, rows: Sequence[int], cols: range) -> None:
        self.spec, self.rows, self.cols = spec, rows, cols
        device = spec.query.device
        self.dtype = torch.float32 if device.type == "mps" else torch.float64  # mps has no float64
        self.index = torch.tensor(list(rows), dtype=torch.int64, device=device)
        self.hidden = self._hidden()
        self.bias = self._bias()

    def scores(self, batch: slice, heads: Sequence[int]) -> Tensor:
        """z (B, h, n, s) of some batches and heads: scores over temperature, −∞ where masked."""
        spec = self.spec
        pick = torch.tensor(list(heads), device=spec.query.device)
        query = spec.query[batch].index_select(2, self.index).index_select(1, pick)
        key = spec.key[batch].index_select(1, pick // spec.group)[:, :, self.cols.start : self.cols.stop]
        if spec.score is None:
            z = (query.to(self.dtype) * spec.scale) @ key.to(self.dtype).mT
            if spec.key_bias is not None:
                extra = spec.key_bias[batch].index_select(1, pick // spec.group)[:, :, self.cols.start : self.cols.stop]
                z = z + extra.to(self.dtype).unsqueeze(-2)
            if spec.cap is not None:
                z = spec.cap * torch.tanh(z / spec.cap)
        else:
            z = spec.score.tile(query.float(), key.float()).to(self.dtype)
        if self.bias is not None:
            z = z + _part(self.bias, batch, pick).to(self.dtype)
        beta = spec.beta
        if isinstance(beta, Tensor):
            z = z * beta.to(self.dtype).expand(spec.query.shape[1])[pick].view(-1, 1, 1)
        elif beta != 1:
            z = z * beta
        return z if self.hidden is None else z.masked_fill_(_part(self.hidden, batch, pick), -math.inf)

    def weights(self, batch: slice, heads: Sequence[int], lse: Tensor | None) -> tuple[Tensor, Tensor]:
        """p (B, h, n, s) and the largest score of each row (B, h, n). Softmax weights by the lse (B, h, L) of the run; other choices
        from whole rows."""
        z = self.scores(batch, heads)
        high = z.amax(-1)
        if lse is None or not isinstance(self.spec.choice.distribution(), Softmax):
            return self.spec.choice.distribution().dense(z), high
        known = lse[batch][:, list(heads)].index_select(2, self.index).to(self.dtype).unsqueeze(-1)
        return z.sub_(known.masked_fill(known == -math.inf, 0)).exp_(), high

    def _hidden(self) -> Tensor | None:
        """Who does not see whom, (B|1, h|1, n, s); None where everyone sees everyone."""
        spec = self.spec
        if spec.mask is None:
            return None
        L, S, device = spec.query.shape[2], spec.key.shape[2], spec.query.device
        parts: list[Tensor] = []
        for run in runs(self.rows):
            seen = spec.mask.tile(run, self.cols, L, S, device=device)
            if not isinstance(seen, Tensor):
                seen = torch.full((1, 1, 1, 1), seen == "all", device=device)
            parts.append(seen.expand(*seen.shape[:2], len(run), len(self.cols)))
        lead = (max(p.shape[0] for p in parts), max(p.shape[1] for p in parts))
        return ~torch.cat([p.expand(*lead, -1, -1) for p in parts], 2)

    def _bias(self) -> Tensor | None:
        bias, spec = self.spec.bias, self.spec
        if isinstance(bias, Bias):
            L, S, device = spec.query.shape[2], spec.key.shape[2], spec.query.device
            return torch.cat([bias.tile(run, self.cols, L, S, device=device) for run in runs(self.rows)], 2).detach()
        if bias is None:
            return None
        bias = bias.detach()
        bias = bias if bias.shape[2] == 1 else bias.index_select(2, self.index)
        return bias if bias.shape[3] == 1 else bias[..., self.cols.start : self.cols.stop]


def _part(x: Tensor, batch: slice, heads: Tensor) -> Tensor:
    """A broadcastable (B|1, h|1, n, s) tensor for some batches and heads."""
    x = x if x.shape[0] == 1 else x[batch]
    return x if x.shape[1] == 1 else x.index_select(1, heads)


def runs(rows: Sequence[int]) -> Iterator[range]:
    """Increasing numbers as ranges.

    >>> list(runs([0, 1, 2, 7]))
    [range(0, 3), range(7, 8)]
    """
    start = previous = rows[0]
    for row in rows[1:]:
        if row != previous + 1:
            yield range(start, previous + 1)
            start = row
        previous = row
    yield range(start, previous + 1)
