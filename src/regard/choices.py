"""Choices: how a row of scores becomes weights, the second of attention's three stages.

Soft choices give weights that sum to one along a row; hard ones pick one key. Each is implemented twice: ``dense`` follows the
definition and is used by the reference kernel; ``fit``/``weights``/``slope`` process a row tile by tile.

For every soft choice here the gradient is ``dz = g ∘ (dp − Σ g·dp / Σ g)`` with ``g = slope(p)``: p itself for softmax, √p for
1.5-entmax, 1 on the support for sparsemax.

Axes: B batch, h heads, L queries, S keys; z are the scores divided by the temperature, −∞ where masked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

NEWTON_PASSES = 60  # each pass at least halves the error; float64 needs about ten


@dataclass(frozen=True, eq=False)
class Row:
    """What `Choice.fit` computes from all scores of a row: (B, h, l) each. A choice that needs more than this subclasses it."""

    threshold: Tensor  # the lse for softmax, τ for the sparse choices
    mass: Tensor  # Σ slope(p) over the row, the denominator of the gradient's mean


class Choice(nn.Module):
    """Base class of choices. ``choice(scores)`` computes the weights of a whole (…, L, S) matrix.

    A new choice is a soft one: a subclass with ``dense``, ``fit``, ``weights`` and ``slope``, whose gradient has the form above. The
    kernels themselves compute Softmax, Argmax and Sample, so a subclass of those cannot compute something else.
    """

    hard = False  # picks one key; only Argmax and Sample do

    def __init__(self, temperature: float | Tensor = 1.0) -> None:
        super().__init__()
        if not isinstance(temperature, Tensor) and not temperature > 0:
            raise ValueError(f"temperature is {temperature}; it must be positive (for the limit 0 use Argmax)")
        if isinstance(temperature, Tensor) and temperature.dim() > 1:
            raise ValueError(f"temperature has shape {tuple(temperature.shape)}; give one number or one per head, (h,)")
        self.temperature = temperature

    def dense(self, z: Tensor) -> Tensor:
        """The weights of whole rows of scores z (…, L, S), already divided by the temperature."""
        raise NotImplementedError(f"{type(self).__name__} does not define dense(z); a choice must")

    def fit(self, tiles: Callable[[], Iterable[Tensor]]) -> Row:
        """Compute each row's threshold; ``tiles()`` yields the row block's scores (B, h, l, s) and may be called repeatedly."""
        raise NotImplementedError(f"{type(self).__name__} does not define fit(tiles), which every kernel but 'reference' needs")

    def weights(self, z: Tensor, row: Row) -> Tensor:
        """The weights of one tile of scores, given the rows' thresholds."""
        raise NotImplementedError(f"{type(self).__name__} does not define weights(z, row), which every kernel but 'reference' needs")

    def slope(self, p: Tensor) -> Tensor:
        """The g of the gradient ``dz = g ∘ (dp − Σ g·dp / Σ g)``, from the weights p of one tile."""
        raise NotImplementedError(f"{type(self).__name__} does not define slope(p), which its gradient needs")

    def distribution(self) -> Choice:
        """The soft choice a sample is drawn from; the choice itself for all others."""
        return self

    def forward(self, scores: Tensor) -> Tensor:
        t = self.temperature
        return self.dense(scores / (t.view(-1, 1, 1) if isinstance(t, Tensor) and t.dim() else t))

    def extra_repr(self) -> str:
        names = [] if not isinstance(self.temperature, Tensor) and self.temperature == 1.0 else ["temperature"]
        names += ["sinks"] if getattr(self, "sinks", None) is not None else []
        return ", ".join(f"{name}={'learned' if isinstance(value := getattr(self, name), Tensor) else value}" for name in names)


class _ComputedByKernels(Choice):
    """A choice that the kernels compute by its type, without asking its methods."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        changed = sorted({"dense", "fit", "weights", "slope"} & vars(cls).keys())
        if changed and _ComputedByKernels not in cls.__bases__:
            base = next(kind.__name__ for kind in cls.__mro__ if _ComputedByKernels in kind.__bases__)
            raise TypeError(f"{cls.__name__} overrides {base}.{changed[0]}, which kernels do not call; subclass regard.Choice instead")


class Softmax(_ComputedByKernels):
    """Softmax: ``α_n = exp(z_n) / Σ exp(z_m)``.

    ``temperature`` divides the scores first: a number, or a tensor, scalar or one per head, that may be learned. ``sinks`` (h,) are
    logits added to the denominator only, so that a head's weights may sum to less than 1 (as in gpt-oss); the temperature divides them too.

    >>> Softmax()(torch.tensor([[0., math.log(3.)]]))
    tensor([[0.2500, 0.7500]])
    """

    def __init__(self, temperature: float | Tensor = 1.0, sinks: Tensor | None = None) -> None:
        super().__init__(temperature)
        if sinks is not None and sinks.dim() != 1:
            raise ValueError(f"sinks has shape {tuple(sinks.shape)}; expected one logit per head, (h,)")
        self.sinks = sinks

    def dense(self, z: Tensor) -> Tensor:
        return (z - logsumexp(z).unsqueeze(-1)).exp()

    def fit(self, tiles: Callable[[], Iterable[Tensor]]) -> Row:
        largest: Tensor | None = None
        total: Tensor | None = None
        for z in tiles():
            peak = z.amax(-1)
            high = peak if largest is None else torch.maximum(largest, peak)
            base = torch.where(high == -math.inf, 0.0, high)
            mass = (z - base.unsqueeze(-1)).exp().sum(-1)
            total = mass if largest is None or total is None else total * (largest - base).exp() + mass
            largest = high
        assert largest is not None and total is not None
        lse = torch.where(total > 0, largest + total.log(), torch.where(total == 0, -math.inf, total))
        return Row(lse, torch.ones_like(lse))

    def weights(self, z: Tensor, row: Row) -> Tensor:
        lse = row.threshold.unsqueeze(-1)
        return (z - torch.where(lse == -math.inf, 0.0, lse)).exp()

    def slope(self, p: Tensor) -> Tensor:
        return p


class Sparsemax(Choice):
    """Sparsemax: ``max(z − τ, 0)``, the Euclidean projection onto the simplex; low scores get exactly zero.

    Martins and Astudillo 2016, algorithm 1.

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


class Argmax(_ComputedByKernels):
    """Pick the key with the largest score (the first of equals): hard attention as used at test time.

    Gradients reach the picked value, never the scores.

    >>> Argmax()(torch.tensor([[0.1, 0.9, 0.3]]))
    tensor([[0., 1., 0.]])
    """

    hard = True

    def dense(self, z: Tensor) -> Tensor:
        if not z.shape[-1]:
            return z
        return torch.zeros_like(z).scatter(-1, z.argmax(-1, keepdim=True), 1.0) * (z.amax(-1, keepdim=True) > -math.inf)


class Sample(_ComputedByKernels):
    """Sample one key from softmax(z), with its log-probability: hard attention as used in training.

    The draw is not differentiable; train it with :func:`reinforce` on the returned log-probability, or set
    ``straight_through`` to differentiate as if the soft weights had been used.

    >>> z = torch.tensor([[-math.inf, 0.0]])
    >>> Sample()(z)
    tensor([[0., 1.]])
    """

    hard = True

    def __init__(self, temperature: float | Tensor = 1.0, *, straight_through: bool = False) -> None:
        super().__init__(temperature)
        self.straight_through = straight_through

    def distribution(self) -> Choice:
        return _SOFTMAX

    def dense(self, z: Tensor) -> Tensor:
        u = torch.rand(z.shape[:-1], device=z.device, dtype=torch.float64)
        return nn.functional.one_hot(draw(z, u).clamp(min=0), z.shape[-1]).to(z.dtype) * (z.amax(-1, keepdim=True) > -math.inf)


_SOFTMAX = Softmax()


def draw(z: Tensor, uniform: Tensor) -> Tensor:
    """Sample by inverting the distribution function: the first key whose cumulative mass exceeds u · total; −1 on an empty row."""
    if not z.shape[-1]:
        return torch.full(z.shape[:-1], -1, device=z.device)
    peak = z.detach().amax(-1, keepdim=True)
    running = (z.detach() - peak.masked_fill(peak == -math.inf, 0)).exp().double().cumsum(-1)
    index = (running <= (uniform * running[..., -1]).unsqueeze(-1)).sum(-1)
    last = (running < running[..., -1:]).sum(-1)  # rounding may push u · total onto the total itself
    return torch.minimum(index, last).masked_fill(peak.squeeze(-1) == -math.inf, -1)


def reinforce(log_prob: Tensor, reward: Tensor, baseline: Tensor | float = 0.0) -> Tensor:
    """The REINFORCE loss, ``−mean((reward − baseline) · log p)``, with no gradient through reward and baseline.

    Williams 1992. log_prob and reward must have the same shape (if a sequence earns one reward, sum its log-probabilities
    first); train a learned baseline by its own squared error.

    >>> reinforce(torch.tensor([-1.0, -2.0]), torch.tensor([1.0, 0.0]), 0.5)
    tensor(-0.2500)
    """
    if log_prob.shape != reward.shape:
        raise ValueError(
            f"log_prob has shape {tuple(log_prob.shape)} but reward {tuple(reward.shape)}; they must be equal "
            "(sum log_prob over the choices that earned one reward)"
        )
    advantage = reward.detach() - (baseline.detach() if isinstance(baseline, Tensor) else baseline)
    if advantage.shape != log_prob.shape:
        raise ValueError(f"baseline does not fit: reward − baseline has shape {tuple(advantage.shape)}, log_prob {tuple(log_prob.shape)}")
    return -(advantage * log_prob).mean()


def logsumexp(z: Tensor) -> Tensor:
    """log Σ exp along the last axis: −∞, with a zero gradient, where a row is empty or all −∞."""
    if not z.shape[-1]:
        return z.new_full(z.shape[:-1], -math.inf)
    peak = z.detach().amax(-1, keepdim=True)
    empty = peak == -math.inf
    total = (z - peak.masked_fill(empty, 0)).exp().sum(-1, keepdim=True)
    # The log of an empty row is replaced before it is taken, so that its gradient is 0 and not NaN.
    lse = total.masked_fill(empty, 1).log() + peak.masked_fill(empty, 0)
    return lse.masked_fill(empty, -math.inf).squeeze(-1)


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
