"""Pooling many inputs into one: by saliency (without a query) and by attention (with a learned query).

Every layer here maps x (…, N, d) to (…, d), for any N; ``weights(x)`` (…, N) is the contribution of each input. A mask hides inputs
(``padding(lengths)``); without visible inputs the result is 0.

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
    """Max pooling: the largest value of each feature over the inputs.

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
        """The share of features each input won, (…, N).

        x: inputs (…, N, d).
        mask: which inputs are visible to one query.
        """
        if not x.shape[-2]:
            return x.mean(-1)
        largest, winner = self._winners(x, mask)
        won = nn.functional.one_hot(winner, x.shape[-2]) * (largest != -math.inf).unsqueeze(-1)
        return won.to(x.dtype).mean(-2)

    def _winners(self, x: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
        visible = _visible(x, mask)
        largest, winner = (x if visible is None else x.masked_fill(~visible.unsqueeze(-1), -math.inf)).max(-2)
        return largest, winner


class GatedPooling(nn.Module):
    """Gated pooling, ``Σ_n σ(wᵀx_n + b) x_n``: independent gates, which need not sum to one.

    width: d, the width of an input.

    >>> GatedPooling(4)(torch.randn(2, 7, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 1)

    def forward(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        visible = _visible(x, mask)
        if visible is not None:
            x = x.masked_fill(~visible.unsqueeze(-1), 0.0)  # hidden inputs may hold NaN
        return (self.weights(x).unsqueeze(-2) @ x).squeeze(-2)

    def weights(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        """The gates, (…, N), each in (0, 1).

        x: inputs (…, N, d).
        mask: which inputs are visible to one query.
        """
        gates = torch.sigmoid(self.gate(x).squeeze(-1))
        visible = _visible(x, mask)
        return gates if visible is None else gates.masked_fill(~visible, 0.0)


class AttentionPooling(nn.Module):
    """Attention pooling with one or several learned queries: ``Σ_n softmax(s(x_n, q)) x_n``.

    width: d, the width of an input.
    queries: how many; with several the results are concatenated, (…, queries · d).
    score, choice: as in :func:`regard.attend`.

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
        pooled = attend(query, inputs, inputs, score=self.score, choice=self.choice, mask=mask)  # (B, 1, queries, d)
        return pooled.reshape(*x.shape[:-2], -1)

    def weights(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        """The attention distribution, (…, N), or (…, queries, N) with several queries.

        x: inputs (…, N, d).
        mask: which inputs are visible to one query.
        """
        query, inputs = self._pair(x)
        count = self.query.shape[0]
        attended = observe(query, inputs, inputs, score=self.score, choice=self.choice, mask=mask, readings=[Rows(list(range(count)))])
        weights: Tensor = attended.readings["rows"]
        return weights.reshape(*x.shape[:-2], *(() if count == 1 else (count,)), x.shape[-2])

    def _pair(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The query (B, 1, queries, d) and the inputs (B, 1, N, d)."""
        count = math.prod(x.shape[:-2])
        return self.query.to(x.dtype).expand(count, 1, -1, -1), x.reshape(count, 1, *x.shape[-2:])


class WinnerTakeAll(AttentionPooling):
    """Winner-take-all pooling: return the input with the largest saliency ``wᵀx_n``.

    Gradients reach the picked input, not w; to train w pass ``choice=regard.Sample(straight_through=True)``.

    width: d, the width of an input.
    saliency: w, (d,); learned from a random start if it is not given.
    choice: another way to pick than the argmax.

    Raises ValueError for a saliency of another shape.

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


def _visible(x: Tensor, mask: Mask | None) -> Tensor | None:
    """Which inputs (…, N) a mask shows to a single query; None is all of them."""
    if mask is None:
        return None
    lead, count = x.shape[:-2], math.prod(x.shape[:-2])
    mask.check(count, 1, 1, x.shape[-2])
    pattern = mask.dense(1, x.shape[-2], device=x.device)  # (B|1, 1, 1, N)
    return pattern[:, 0, 0].expand(count, -1).reshape(*lead, -1)
