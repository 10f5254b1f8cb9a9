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

import torch
from torch import Tensor, nn

from .choice_protocol import Choice, ComputedByKernels, Row, logsumexp
from .sparse_choices import Entmax, Entmax15, Sparsemax, TopKSoftmax


class Softmax(ComputedByKernels):
    """Softmax: ``α_n = exp(z_n) / Σ exp(z_m)``.

    temperature: divides the scores first: a number, or a tensor, scalar or one per head, that may be learned.
    sinks: logits (h,) added to the denominator only, so that a head's weights may sum to less than 1 (as in gpt-oss); the temperature
        divides them too.

    Raises ValueError for sinks that are not (h,).

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


class Argmax(ComputedByKernels):
    """Pick the key with the largest score (the first of equals): hard attention as used at test time.

    Gradients reach the picked value, never the scores.

    temperature: accepted as by every choice; the largest score stays the largest.

    >>> Argmax()(torch.tensor([[0.1, 0.9, 0.3]]))
    tensor([[0., 1., 0.]])
    """

    hard = True

    def dense(self, z: Tensor) -> Tensor:
        if not z.shape[-1]:
            return z
        return torch.zeros_like(z).scatter(-1, z.argmax(-1, keepdim=True), 1.0) * (z.amax(-1, keepdim=True) > -math.inf)


class Sample(ComputedByKernels):
    """Sample one key from softmax(z), with its log-probability: hard attention as used in training.

    The draw is not differentiable; train it with :func:`reinforce` on the returned log-probability, or set
    ``straight_through``.

    temperature: divides the scores first, as in :class:`Choice`.
    straight_through: whether gradients flow as if the soft weights had been used.

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

    log_prob: log-probabilities of what was sampled, such as `observe(…, choice=Sample()).log_prob`.
    reward: what each sample earned, in the same shape (if a sequence earns one reward, sum its log-probabilities first).
    baseline: what was expected, a number or a tensor; train a learned baseline by its own squared error.

    Returns the loss, a scalar. Raises ValueError if the shapes differ. Williams 1992.

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


__all__ = [
    "Argmax",
    "Choice",
    "Entmax",
    "Entmax15",
    "Row",
    "Sample",
    "Softmax",
    "Sparsemax",
    "TopKSoftmax",
    "draw",
    "logsumexp",
    "reinforce",
]
