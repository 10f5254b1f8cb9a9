"""Hard attention: one input is sampled in training, the best one is taken in evaluation.

A sample has no gradient, so the scores are trained by REINFORCE with a baseline. Williams 1992; for attention, Mnih et al. 2014
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
    """An exponential moving average of the reward, used as REINFORCE's baseline.

    The first reward initialises it, so that it is not biased towards zero.

    momentum: share of the old mean that stays at each update.

    Raises ValueError unless it is at least 0 and below 1.

    >>> baseline = MovingBaseline(momentum=0.5)
    >>> baseline.update(torch.tensor([1.0])); baseline.update(torch.tensor([0.0])); float(baseline.mean)
    0.5
    """

    mean: Tensor
    seen: Tensor  # bool (): whether there was any reward; the name is part of saved state dicts

    def __init__(self, momentum: float = 0.9) -> None:
        super().__init__()
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum}; it must be at least 0 and below 1")
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def update(self, reward: Tensor) -> None:
        """Include one batch of rewards."""
        batch_mean = reward.to(self.mean.dtype).mean()
        self.mean.copy_(torch.where(self.seen, torch.lerp(batch_mean, self.mean, self.momentum), batch_mean))
        self.seen.fill_(True)


class HardAttention(nn.Module):
    """Attend to one input only: sampled from softmax(score) in training mode, the argmax in eval mode.

    ``forward`` returns an :class:`Attended` with the picked value, its index, and in training its log-probability; ``loss`` computes
    the REINFORCE loss of a reward with a moving baseline.

    Shapes: query (…, L, dq), key (…, S, dk), value (…, S, dv) to output (…, L, dv), index and log_prob (…, L).

    score: as in :func:`regard.attend`; the scaled dot product by default.
    temperature: divides the scores in training.
    momentum: of the moving baseline, as in :class:`MovingBaseline`.

    >>> layer = HardAttention()
    >>> attended = layer(torch.randn(2, 1, 4), torch.randn(2, 6, 4), torch.randn(2, 6, 3))
    >>> loss = layer.loss(attended, reward=torch.ones(2, 1))
    >>> layer.eval()(torch.eye(2), torch.eye(2)).index.tolist()
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

    def loss(self, attended: Attended, reward: Tensor) -> Tensor:
        """The REINFORCE loss of the sampled inputs; the baseline is the mean of the rewards before this one.

        attended: what the layer returned.
        reward: what each pick earned, (…, L).
        """
        if attended.log_prob is None:
            raise ValueError("attended has no log_prob, because the argmax was taken; call .train() before attending")
        has_baseline = bool(self.baseline.seen)
        loss = reinforce(attended.log_prob, reward, self.baseline.mean.clone() if has_baseline else reward.detach().mean())
        self.baseline.update(reward.detach())
        return loss
