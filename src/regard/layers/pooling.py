"""Many inputs into one: saliency (bottom-up, no query: what stands out wins) and attention pooling (a query that was learned).

Every layer here maps x (…, N, d) to (…, d), for any N, and ``weights(x)`` (…, N) tells how much of the result each input is. A mask says
which inputs are there (``padding(lengths)``); where none are, the result is 0.

Axes: B batch, N inputs, d width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention import attend, observe
from regard.choices import Argmax, Choice, Softmax
from regard.masks import Mask
from regard.readings import Rows
from regard.scores import Dot, ScaledDot, Score

__all__ = ["AttentionPooling", "GatedPooling", "MaxPooling", "WinnerTakeAll"]


class MaxPooling(nn.Module):
    """Each feature takes its largest value over the inputs: the loudest input speaks, feature by feature.

    >>> MaxPooling()(torch.tensor([[1.0, 5.0], [3.0, 2.0]]))
    tensor([3., 5.])
    >>> MaxPooling().weights(torch.tensor([[1.0, 5.0], [3.0, 2.0]]))
    tensor([0.5000, 0.5000])
    """

    def forward(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        if not x.shape[-2]:
            return x.sum(-2)
        largest, _ = self._winners(x, mask)
        return largest.masked_fill(largest == -math.inf, 0.0)

    def weights(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        """The share of features each input won, (…, N)."""
        if not x.shape[-2]:
            return x.mean(-1)
        largest, winner = self._winners(x, mask)
        won = nn.functional.one_hot(winner, x.shape[-2]) * (largest != -math.inf).unsqueeze(-1)
        return won.to(x.dtype).mean(-2)

    def _winners(self, x: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
        there = _there(x, mask)
        largest, winner = (x if there is None else x.masked_fill(~there.unsqueeze(-1), -math.inf)).max(-2)
        return largest, winner


class GatedPooling(nn.Module):
    """Each input passes a gate of its own, ``Σ_n σ(wᵀx_n + b) x_n``: gates open and close alone and need not sum to one.

    >>> GatedPooling(4)(torch.randn(2, 7, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 1)

    def forward(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        there = _there(x, mask)
        if there is not None:
            x = x.masked_fill(~there.unsqueeze(-1), 0.0)  # what is not there may hold NaN
        return (self.weights(x).unsqueeze(-2) @ x).squeeze(-2)

    def weights(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        """How far each gate is open, (…, N), each in (0, 1)."""
        gates = torch.sigmoid(self.gate(x).squeeze(-1))
        there = _there(x, mask)
        return gates if there is None else gates.masked_fill(~there, 0.0)


class AttentionPooling(nn.Module):
    """A learned query (or several) looks over the inputs: ``Σ_n softmax(s(x_n, q)) x_n``.

    With ``queries`` above 1 the results are concatenated, (…, queries · d). ``score`` and ``choice`` are any of the library's.

    >>> AttentionPooling(8)(torch.randn(3, 5, 8)).shape
    torch.Size([3, 8])
    """

    def __init__(self, width: int, queries: int = 1, *, score: Score | None = None, choice: Choice | None = None) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(queries, width) / math.sqrt(width))
        self.score = ScaledDot() if score is None else score
        self.choice = Softmax() if choice is None else choice

    def forward(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        query, inputs = self._pair(x)
        found = attend(query, inputs, inputs, score=self.score, choice=self.choice, mask=mask)  # (B, 1, queries, d)
        return found.reshape(*x.shape[:-2], -1)

    def weights(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        """The attention distribution, (…, N), or (…, queries, N) with several queries."""
        query, inputs = self._pair(x)
        count = self.query.shape[0]
        seen = observe(query, inputs, inputs, score=self.score, choice=self.choice, mask=mask, readings=[Rows(list(range(count)))])
        found: Tensor = seen.readings["rows"]
        return found.reshape(*x.shape[:-2], *(() if count == 1 else (count,)), x.shape[-2])

    def _pair(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The query (B, 1, queries, d) and the inputs (B, 1, N, d)."""
        count = math.prod(x.shape[:-2])
        return self.query.to(x.dtype).expand(count, 1, -1, -1), x.reshape(count, 1, *x.shape[-2:])


class WinnerTakeAll(AttentionPooling):
    """The one input that stands out most speaks for all: its saliency ``wᵀx_n`` is the largest.

    There is no query from outside: w is fixed once learned and asks the same of every input. The pick passes gradients to the input
    that won, not to w; to train w pass ``choice=regard.Sample(straight_through=True)``, or give ``saliency`` the direction that stands out.

    >>> pool = WinnerTakeAll(2, saliency=torch.tensor([1.0, 0.0]))
    >>> pool(torch.tensor([[0.1, 7.0], [0.9, 3.0], [0.5, 5.0]]))
    tensor([0.9000, 3.0000])
    """

    def __init__(self, width: int, *, saliency: Tensor | None = None, choice: Choice | None = None) -> None:
        super().__init__(width, score=Dot(), choice=Argmax() if choice is None else choice)
        if saliency is not None:
            if saliency.shape != (width,):
                raise ValueError(f"saliency has shape {tuple(saliency.shape)}; expected one direction, ({width},)")
            self.query = nn.Parameter(saliency.detach().clone().unsqueeze(0))


def _there(x: Tensor, mask: Mask | None) -> Tensor | None:
    """Which inputs (…, N) a mask of one query keeps; None is all of them."""
    if mask is None:
        return None
    lead, count = x.shape[:-2], math.prod(x.shape[:-2])
    mask.check(count, 1, 1, x.shape[-2])
    found = mask.dense(1, x.shape[-2], device=x.device)  # (B|1, 1, 1, N)
    return found[:, 0, 0].expand(count, -1).reshape(*lead, -1)
