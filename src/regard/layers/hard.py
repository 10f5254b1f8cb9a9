"""Hard attention and how it is trained: one input is drawn while training, the best one is taken when testing.

A draw has no gradient, so the sampler learns from reward: REINFORCE with a baseline. Williams 1992; for attention, Mnih et al. 2014
and Xu et al. 2015, section 4.1.

Axes: B batch, L queries, S keys.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention import Attended, observe
from regard.choices import Argmax, Sample, reinforce
from regard.masks import Mask
from regard.scores import ScaledDot, Score

__all__ = ["HardAttention", "MovingBaseline"]


class MovingBaseline(nn.Module):
    """The mean reward so far, exponentially forgetting: what a draw must beat to be encouraged.

    The first reward sets it, so that it is never biased towards zero.

    >>> baseline = MovingBaseline(momentum=0.5)
    >>> baseline.update(torch.tensor([1.0])); baseline.update(torch.tensor([0.0])); float(baseline.mean)
    0.5
    """

    mean: Tensor
    seen: Tensor

    def __init__(self, momentum: float = 0.9) -> None:
        super().__init__()
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum}; it must be at least 0 and below 1")
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def update(self, reward: Tensor) -> None:
        now = reward.to(self.mean.dtype).mean()
        self.mean.copy_(torch.where(self.seen, torch.lerp(now, self.mean, self.momentum), now))
        self.seen.fill_(True)


class HardAttention(nn.Module):
    """Look at one input only: sampled from softmax(score) in training mode, the argmax in eval mode.

    ``forward`` gives an :class:`Attended` with the value picked, its index, and in training its log-probability; ``loss`` turns a
    reward into REINFORCE's loss with a moving baseline.

    Shapes: query (…, L, dq), key (…, S, dk), value (…, S, dv) to output (…, L, dv), index and log_prob (…, L).

    >>> look = HardAttention()
    >>> seen = look(torch.randn(2, 1, 4), torch.randn(2, 6, 4), torch.randn(2, 6, 3))
    >>> loss = look.loss(seen, reward=torch.ones(2, 1))
    >>> look.eval()(torch.eye(2), torch.eye(2)).index.tolist()
    [0, 1]
    """

    def __init__(self, score: Score | None = None, *, temperature: float = 1.0, momentum: float = 0.9) -> None:
        super().__init__()
        self.score = ScaledDot() if score is None else score
        self.drawn, self.best = Sample(temperature), Argmax()
        self.baseline = MovingBaseline(momentum)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor | None = None, *, mask: Mask | None = None, generator: torch.Generator | None = None
    ) -> Attended:
        choice = self.drawn if self.training else self.best
        return observe(query, key, key if value is None else value, score=self.score, choice=choice, mask=mask, generator=generator)

    def loss(self, seen: Attended, reward: Tensor) -> Tensor:
        """REINFORCE's loss for what was picked; the baseline is the mean reward before this one."""
        if seen.log_prob is None:
            raise ValueError("there is no log-probability to train: the argmax was taken; call .train() before attending")
        known = bool(self.baseline.seen)
        loss = reinforce(seen.log_prob, reward, self.baseline.mean.clone() if known else reward.detach().mean())
        self.baseline.update(reward.detach())
        return loss
