"""Sparse choices: low scores get a weight of exactly zero.

Axes: B batch, h heads, l rows and s columns of a tile, L queries, S keys; z are the scores divided by the temperature, −∞ where masked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from .choice_protocol import Choice, Row, logsumexp
from .tracing import readable

NEWTON_PASSES = 60  # each pass at least halves the error; float64 needs about ten
ALPHA_MIN = 1.01  # α is kept above this: at 1 entmax is softmax, and the gradient in α divides by (α − 1)²


class Sparsemax(Choice):
    """Sparsemax: ``max(z − τ, 0)``, the Euclidean projection onto the simplex; low scores get exactly zero.

    Martins and Astudillo 2016, algorithm 1.

    temperature: divides the scores first, as in :class:`Choice`.

    >>> Sparsemax()(torch.tensor([[1.0, 0.5, -1.0]]))
    tensor([[0.7500, 0.2500, 0.0000]])
    """

    def dense(self, z: Tensor) -> Tensor:
        if not z.shape[-1]:
            return z
        top = z.detach().amax(-1, keepdim=True)
        z = z - top.masked_fill(top == -math.inf, 0)  # the result is shift-invariant, and small numbers lose less to cancellation
        ranked, _ = z.sort(-1, descending=True)
        count = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        inside = 1 + count * ranked > ranked.cumsum(-1)  # the support is a prefix of the ranking
        size = inside.sum(-1, keepdim=True).clamp(min=1)
        tau = (ranked.where(inside, 0).sum(-1, keepdim=True) - 1) / size
        return (z - tau).clamp(min=0)

    def fit(self, tiles: Callable[[], Iterable[Tensor]]) -> Row:
        return _newton(tiles, 1.0, lambda gap: (gap.sum(-1), (gap > 0).to(gap.dtype).sum(-1)), self.slope)

    def weights(self, z: Tensor, row: Row) -> Tensor:
        return (z - row.threshold.unsqueeze(-1)).clamp(min=0)

    def slope(self, p: Tensor) -> Tensor:
        return (p > 0).to(p.dtype)


class Entmax15(Choice):
    """1.5-entmax: ``max(z/2 − τ, 0)²``, between softmax and sparsemax; sparse, with a continuous gradient.

    Peters, Niculae and Martins 2019, section 4 and algorithm 2.

    temperature: divides the scores first, as in :class:`Choice`.

    >>> Entmax15()(torch.tensor([[2.0, 0.0]])).sum()
    tensor(1.)
    """

    def dense(self, z: Tensor) -> Tensor:
        if not z.shape[-1]:
            return z
        half = z / 2
        ranked, _ = half.sort(-1, descending=True)
        visible = ranked.where(ranked > -math.inf, 0)
        # Moments about the largest score: no cancellation at large scores.
        top = ranked[..., :1].where(ranked[..., :1] > -math.inf, 0)
        count = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        mean = (visible - top).cumsum(-1) / count
        spread = (visible - top).square().cumsum(-1) - count * mean.square()
        tau = mean - ((1 - spread) / count).clamp(min=0).sqrt()
        inside = (tau <= ranked - top) & (ranked > -math.inf)
        size = inside.sum(-1, keepdim=True).clamp(min=1)
        return (half - top - tau.gather(-1, size - 1)).clamp(min=0).square()

    def fit(self, tiles: Callable[[], Iterable[Tensor]]) -> Row:
        return _newton(tiles, 0.5, lambda gap: (gap.square().sum(-1), 2 * gap.sum(-1)), self.slope, power=2)

    def weights(self, z: Tensor, row: Row) -> Tensor:
        return (z / 2 - row.threshold.unsqueeze(-1)).clamp(min=0).square()

    def slope(self, p: Tensor) -> Tensor:
        return p.sqrt()


class Entmax(Choice):
    """α-entmax: ``max((α − 1)·z − τ, 0)^(1/(α − 1))``, from softmax (α → 1) over 1.5-entmax to sparsemax (α = 2) and beyond.

    alpha: a number above 1, or a tensor, scalar or one per head (h,), that may be learned; a tensor is kept above 1.01. The gradient
    in α is that of Correia, Niculae and Martins 2019, proposition 1; memory is linear, as for every choice.

    temperature: divides the scores first, as in :class:`Choice`.

    Raises ValueError for an α of 1 or less, or of several axes.

    >>> Entmax(2.0)(torch.tensor([[1.0, 0.5, -1.0]]))
    tensor([[0.7500, 0.2500, 0.0000]])
    >>> layer_choice = Entmax(torch.nn.Parameter(torch.full((8,), 1.5)))  # one α per head, trained with the layer
    """

    def __init__(self, alpha: float | Tensor = 1.5, temperature: float | Tensor = 1.0) -> None:
        super().__init__(temperature)
        if isinstance(alpha, Tensor):
            if alpha.dim() > 1 or not alpha.is_floating_point():
                raise ValueError(f"alpha is {alpha.dtype} of shape {tuple(alpha.shape)}; give floats, one number or one per head, (h,)")
        elif not alpha > 1:
            raise ValueError(f"alpha is {alpha}; entmax needs alpha > 1 (at 1 it is regard.Softmax(), at 2 regard.Sparsemax())")
        self.alpha = alpha

    @property
    def learned(self) -> Tensor | None:
        return self.alpha if isinstance(self.alpha, Tensor) else None

    def with_learned(self, tensor: Tensor) -> Choice:
        return Entmax(tensor, self.temperature)

    def _less_one(self, like: Tensor, axes: int) -> Tensor | float:
        """α − 1, shaped to multiply scores or weights (…, h, l, s) (axes 2) or thresholds (…, h, l) (axes 1)."""
        if not isinstance(self.alpha, Tensor):
            return self.alpha - 1
        alpha = self.alpha.to(like.dtype).clamp(min=ALPHA_MIN) - 1
        return alpha.view(-1, *(1,) * axes) if alpha.dim() else alpha

    def dense(self, z: Tensor) -> Tensor:
        if not z.shape[-1]:
            return z
        visible = z > -math.inf
        a = self._less_one(z, 2)
        top = z.detach().amax(-1, keepdim=True)
        x = (z - top.masked_fill(top == -math.inf, 0)).masked_fill(~visible, 0) * a  # (α − 1)·z, whose largest is 0
        hidden_x = x.detach().masked_fill(~visible, -math.inf)
        tau = self._solve(lambda: iter([hidden_x]), torch.zeros_like(top.squeeze(-1)), _detached(a)).unsqueeze(-1)
        for _ in range(2):  # Newton steps at the root change nothing but carry the derivatives: one the first, two the second
            p, slope = _power(x - tau, visible, a)
            tau = tau + (p.sum(-1, keepdim=True) - 1) * a / slope.sum(-1, keepdim=True).clamp(min=torch.finfo(z.dtype).tiny)
        return _power(x - tau, visible, a)[0]

    def fit(self, tiles: Callable[[], Iterable[Tensor]]) -> Row:
        largest: Tensor | None = None
        for z in tiles():
            peak = z.amax(-1)
            largest = peak if largest is None else torch.maximum(largest, peak)
        assert largest is not None
        a = self._less_one(largest, 2)
        base = largest.masked_fill(largest == -math.inf, 0)
        tau = self._solve(lambda: ((z - base.unsqueeze(-1)) * a for z in tiles()), torch.zeros_like(base), a)
        tau = tau.where(largest > -math.inf, 0) + base * self._less_one(base, 1)
        row = Row(tau, tau)
        mass = torch.zeros_like(tau)
        for z in tiles():
            mass = mass + self.slope(self.weights(z, row)).sum(-1)
        return Row(tau, mass)

    @torch.no_grad()
    def _solve(self, tiles: Callable[[], Iterable[Tensor]], top: Tensor, a: Tensor | float) -> Tensor:
        """τ of Σ max(x − τ, 0)^(1/(α − 1)) = 1, for x whose largest is `top`: Newton's method within a shrinking bracket."""
        low, high = top - 1, top.clone()
        tau = low.clone()
        for _ in range(NEWTON_PASSES):
            total, slope_total = torch.zeros_like(tau), torch.zeros_like(tau)
            for x in tiles():
                p, slope = _power(x - tau.unsqueeze(-1), x > tau.unsqueeze(-1), a)
                total, slope_total = total + p.sum(-1), slope_total + slope.sum(-1)
            low, high = torch.where(total >= 1, tau, low), torch.where(total < 1, tau, high)
            step = (total - 1) * (a.squeeze(-1) if isinstance(a, Tensor) and a.dim() else a)
            moved = tau + step / slope_total.clamp(min=torch.finfo(tau.dtype).tiny)
            moved = torch.where((moved >= low) & (moved <= high), moved, (low + high) / 2)
            converged = ((moved - tau).abs() <= 2 * torch.finfo(tau.dtype).eps) | (total == 0) | total.isnan()
            tau = moved
            if readable(converged) and bool(converged.all()):
                break
        return tau

    def weights(self, z: Tensor, row: Row) -> Tensor:
        a = self._less_one(z, 2)
        x = z.masked_fill(z == -math.inf, 0) * a - row.threshold.unsqueeze(-1)
        return _power(x, (x > 0) & (z > -math.inf), a)[0]

    def slope(self, p: Tensor) -> Tensor:
        a = self._less_one(p, 2)
        power: Tensor = torch.where(p > 0, p, 1.0) ** (1 - a)
        return torch.where(p > 0, power, 0.0)

    def drift(self, p: Tensor) -> Tensor:
        a = self._less_one(p, 2)
        return torch.sub(p / (a * a), torch.special.xlogy(p, p) / a)

    def extra_repr(self) -> str:
        alpha = "learned" if isinstance(self.alpha, Tensor) else self.alpha
        return ", ".join(part for part in (f"alpha={alpha}", super().extra_repr()) if part)


def _power(x: Tensor, visible: Tensor, a: Tensor | float) -> tuple[Tensor, Tensor]:
    """max(x, 0)^(1/a), and that to the power 1 − a, where visible; 0 elsewhere, also in the gradients."""
    inside = (x > 0) & visible
    base = torch.where(inside, x, 1.0)
    return torch.where(inside, base ** (1 / a), 0.0), torch.where(inside, base ** (1 / a - 1), 0.0)


def _detached(a: Tensor | float) -> Tensor | float:
    return a.detach() if isinstance(a, Tensor) else a


@dataclass(frozen=True, eq=False)
class TopKRow(Row):
    """A row of `TopKSoftmax`."""

    smallest: Tensor  # (B, h, l): the smallest score that counts


class TopKSoftmax(Choice):
    """Softmax over the k largest scores of each row; all others get exactly zero. Of equal scores at the limit all count.

    Gupta et al. 2021, "Memory-efficient Transformers via top-k attention".

    k: how many scores of a row count.
    temperature: divides the scores first, as in :class:`Choice`.

    Raises ValueError for a k below 1.

    >>> TopKSoftmax(2)(torch.tensor([[0.0, math.log(3.0), -1.0]]))
    tensor([[0.2500, 0.7500, 0.0000]])
    """

    def __init__(self, k: int, temperature: float | Tensor = 1.0) -> None:
        super().__init__(temperature)
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"k is {k!r}; expected how many keys count in each row, a whole number ≥ 1")
        self.k = k

    def dense(self, z: Tensor) -> Tensor:
        if not z.shape[-1]:
            return z
        smallest = z.detach().topk(min(self.k, z.shape[-1]), -1).values[..., -1:]
        z = z.masked_fill(z < smallest, -math.inf)
        lse = logsumexp(z).unsqueeze(-1)
        return (z - lse.masked_fill(lse == -math.inf, 0)).exp()

    def fit(self, tiles: Callable[[], Iterable[Tensor]]) -> Row:
        best: Tensor | None = None
        for z in tiles():
            best = z if best is None else torch.cat([best, z], -1)
            best = best.topk(min(self.k, best.shape[-1]), -1).values
        assert best is not None
        smallest = best[..., -1]
        lse = torch.full_like(smallest, -math.inf)
        for z in tiles():  # once more, because of equal scores all count
            lse = torch.logaddexp(lse, logsumexp(z.masked_fill(z < smallest.unsqueeze(-1), -math.inf)))
        empty = lse == -math.inf
        return TopKRow(lse.masked_fill(empty, 0), (~empty).to(lse.dtype), smallest)

    def weights(self, z: Tensor, row: Row) -> Tensor:
        assert isinstance(row, TopKRow)
        return torch.where(z >= row.smallest.unsqueeze(-1), (z - row.threshold.unsqueeze(-1)).exp(), 0.0)

    def slope(self, p: Tensor) -> Tensor:
        return p

    def extra_repr(self) -> str:
        return ", ".join(part for part in (str(self.k), super().extra_repr()) if part)


def _newton(
    tiles: Callable[[], Iterable[Tensor]],
    factor: float,
    moments: Callable[[Tensor], tuple[Tensor, Tensor]],
    slope: Callable[[Tensor], Tensor],
    power: int = 1,
) -> Row:
    """Solve Σ max(factor·z − τ, 0)^power = 1 for τ by Newton's method from max − 1.

    The sum is convex and decreasing in τ, and max − 1 lies left of the root, so the steps increase τ and never overshoot.
    """
    largest: Tensor | None = None
    for z in tiles():
        peak = z.amax(-1)
        largest = peak if largest is None else torch.maximum(largest, peak)
    assert largest is not None
    empty = largest == -math.inf
    tau = torch.where(empty, 0.0, largest * factor) - 1
    tolerance = 4 * torch.finfo(tau.dtype).eps
    for _ in range(NEWTON_PASSES):
        total, slope_total = torch.zeros_like(tau), torch.zeros_like(tau)
        for z in tiles():
            value, derivative = moments((z * factor - tau.unsqueeze(-1)).clamp(min=0))
            total, slope_total = total + value, slope_total + derivative
        step = torch.where(empty | (slope_total == 0), 0.0, (total - 1) / slope_total.clamp(min=torch.finfo(tau.dtype).tiny))
        moved = tau + step
        converged = (step.abs() <= tolerance * moved.abs().clamp(min=1)) | (moved == tau) | step.isnan()
        tau = moved
        if bool(converged.all()):
            break
    mass = torch.zeros_like(tau)
    for z in tiles():
        mass = mass + slope((z * factor - tau.unsqueeze(-1)).clamp(min=0) ** power).sum(-1)
    return Row(tau, mass)
