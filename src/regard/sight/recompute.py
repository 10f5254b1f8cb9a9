"""Recompute the exact attention weights of chosen rows and columns in float64 from queries, keys and lse.

Axes: B batch, h heads, n rows, s columns, L queries, S keys, d width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..biases import Bias
from ..choices import Softmax
from ..kernels.request import Request


class WeightTile:
    """The weights of some rows and columns of a request; mask and bias are evaluated once for all heads."""

    def __init__(self, request: Request, rows: Sequence[int], cols: range) -> None:
        self.request, self.rows, self.cols = request, rows, cols
        device = request.query.device
        self.dtype = torch.float32 if device.type == "mps" else torch.float64  # mps has no float64
        self.index = torch.tensor(list(rows), dtype=torch.int64, device=device)
        self.hidden = self._hidden_part()
        self.bias = self._bias_part()

    def scores(self, batch: slice, heads: Sequence[int]) -> Tensor:
        """Compute z (B, h, n, s) for some batch items and heads: scores divided by the temperature, −∞ where masked."""
        request = self.request
        head_index = torch.tensor(list(heads), device=request.query.device)
        query = request.query[batch].index_select(2, self.index).index_select(1, head_index)
        key = request.key[batch].index_select(1, head_index // request.group)[:, :, self.cols.start : self.cols.stop]
        if request.score is None:
            z = (query.to(self.dtype) * request.scale) @ key.to(self.dtype).mT
            if request.key_bias is not None:
                key_bias = request.key_bias[batch].index_select(1, head_index // request.group)[:, :, self.cols.start : self.cols.stop]
                z = z + key_bias.to(self.dtype).unsqueeze(-2)
            if request.cap is not None:
                z = request.cap * torch.tanh(z / request.cap)
        else:
            z = request.score.tile(query.float(), key.float()).to(self.dtype)
        if self.bias is not None:
            z = z + _select(self.bias, batch, head_index).to(self.dtype)
        beta = request.beta
        if isinstance(beta, Tensor):
            z = z * beta.to(self.dtype).expand(request.query.shape[1])[head_index].view(-1, 1, 1)
        elif beta != 1:
            z = z * beta
        return z if self.hidden is None else z.masked_fill_(_select(self.hidden, batch, head_index), -math.inf)

    def weights(self, batch: slice, heads: Sequence[int], lse: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute the weights p (B, h, n, s) and the largest score of each row (B, h, n).

        Softmax weights follow from the recorded lse (B, h, L); other choices need all columns.
        """
        z = self.scores(batch, heads)
        row_max = z.amax(-1)
        if lse is None or not isinstance(self.request.choice.distribution(), Softmax):
            return self.request.choice.distribution().dense(z), row_max
        row_lse = lse[batch][:, list(heads)].index_select(2, self.index).to(self.dtype).unsqueeze(-1)
        return z.sub_(row_lse.masked_fill(row_lse == -math.inf, 0)).exp_(), row_max

    def _hidden_part(self) -> Tensor | None:
        """Return True where the mask hides a key, (B|1, h|1, n, s); None without a mask."""
        request = self.request
        if request.mask is None:
            return None
        L, S, device = request.query.shape[2], request.key.shape[2], request.query.device
        parts: list[Tensor] = []
        for block in consecutive_ranges(self.rows):
            visible = request.mask.tile(block, self.cols, L, S, device=device)
            if not isinstance(visible, Tensor):
                visible = torch.full((1, 1, 1, 1), visible == "all", device=device)
            parts.append(visible.expand(*visible.shape[:2], len(block), len(self.cols)))
        lead = (max(p.shape[0] for p in parts), max(p.shape[1] for p in parts))
        return ~torch.cat([p.expand(*lead, -1, -1) for p in parts], 2)

    def _bias_part(self) -> Tensor | None:
        """Return the bias of these rows and columns, (B|1, h|1, n|1, s|1); None without a bias."""
        bias, request = self.request.bias, self.request
        if isinstance(bias, Bias):
            L, S, device = request.query.shape[2], request.key.shape[2], request.query.device
            tiles = [bias.tile(block, self.cols, L, S, device=device) for block in consecutive_ranges(self.rows)]
            return torch.cat(tiles, 2)
        if bias is None:
            return None
        bias = bias if bias.shape[2] == 1 else bias.index_select(2, self.index)
        return bias if bias.shape[3] == 1 else bias[..., self.cols.start : self.cols.stop]


def all_weights(request: Request) -> Tensor:
    """Compute all weights (B, h, L, S) in the dtype of the values; a row without visible keys is zero."""
    _, h, L, S = request.sizes
    z = WeightTile(request, range(L), range(S)).scores(slice(None), range(h))
    if request.sinks is not None:
        z = torch.cat([z, request.sinks.to(z.dtype).view(1, -1, 1, 1).expand(*z.shape[:3], 1)], -1)
    choice = request.choice.distribution()
    p = z.softmax(-1).nan_to_num(0) if isinstance(choice, Softmax) else choice.dense(z)
    return p[..., :S].to(request.value.dtype)


def row_weights(request: Request, rows: range, head: int, batch: int) -> Tensor:
    """Compute whole rows (l, S) of one head's weights in float64, through which autograd can go back to queries, keys and bias."""
    z = WeightTile(request, rows, range(request.key.shape[2])).scores(slice(batch, batch + 1), [head])[0, 0]
    if request.sinks is not None:
        z = torch.cat([z, request.sinks[head].to(z.dtype).expand(len(rows), 1)], -1)
    choice = request.choice.distribution()
    hidden = (z == -math.inf).all(-1, keepdim=True)
    p = z.masked_fill(hidden, 0).softmax(-1).masked_fill(hidden, 0) if isinstance(choice, Softmax) else choice.dense(z)
    return p[:, : request.key.shape[2]]


def _select(x: Tensor, batch: slice, heads: Tensor) -> Tensor:
    """Select batch items and heads of a tensor (B|1, h|1, n, s)."""
    x = x if x.shape[0] == 1 else x[batch]
    return x if x.shape[1] == 1 else x.index_select(1, heads)


def consecutive_ranges(rows: Sequence[int]) -> Iterator[range]:
    """Split increasing integers into ranges of consecutive ones.

    >>> list(consecutive_ranges([0, 1, 2, 7]))
    [range(0, 3), range(7, 8)]
    """
    start = previous = rows[0]
    for row in rows[1:]:
        if row != previous + 1:
            yield range(start, previous + 1)
            start = row
        previous = row
    yield range(start, previous + 1)
