"""Hard attention picks one input. Sampling has no gradient, yet the scores can be learned from rewards alone.

Eight boxes each have a label vector and hold a digit; the request is the label of one box under a rotation the model does not know. The
model samples a box from softmax(score), reads its digit, and gets the reward 0 if it is the requested one, else −1. To succeed, its
bilinear score must learn the rotation. It is trained by REINFORCE with a baseline, the mean reward so far; at test time the argmax is
taken. Williams 1992; Xu et al. 2015, section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import regard
from regard.demos.panels import Board, Lines, Note, Table
from regard.demos.runner import run_program
from regard.layers.hard import HardAttention

BOXES, WIDTH, DIGITS = 8, 8, 10


@dataclass(frozen=True)
class Result:
    steps: list[int]
    right: list[float]  # share of correct digits during training, with a baseline
    right_without: list[float]  # and without one
    accuracy_before: float  # argmax on new boxes
    accuracy_sampled: float
    accuracy_argmax: float
    chance: float
    gradient_spread: float  # standard deviation of the first gradient with the baseline, divided by that without


class Boxes:
    """Random batches: requests (B, 1, d), labels (B, N, d), one-hot digits (B, N, 10), and the requested digit (B, 1)."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.rotation = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(0)))[0]

    def batch(self, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        labels = torch.nn.functional.normalize(torch.randn(size, BOXES, WIDTH, generator=self.generator), dim=-1)
        requested = torch.randint(BOXES, (size, 1), generator=self.generator)
        digits = torch.randint(DIGITS, (size, BOXES), generator=self.generator)
        request = labels.gather(1, requested.unsqueeze(-1).expand(-1, -1, WIDTH)) @ self.rotation
        return request, labels, torch.nn.functional.one_hot(digits, DIGITS).float(), digits.gather(1, requested)


def answer(layer: HardAttention, boxes: Boxes, size: int) -> tuple[regard.Attended, Tensor]:
    """The attention result, and the reward: 0 where the digit read is the requested one, else −1."""
    request, labels, digits, target = boxes.batch(size)
    attended = layer(request, labels, digits, generator=boxes.generator)
    return attended, (attended.output.argmax(-1) == target).float() - 1


def train(steps: int, *, baseline: bool, batch: int = 128) -> tuple[HardAttention, list[float]]:
    """Train from rewards alone. Without a baseline, wrong picks become less likely but right ones get no gradient."""
    torch.manual_seed(1)
    layer, boxes = HardAttention(regard.Bilinear(WIDTH, WIDTH)), Boxes(seed=2)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    right = []
    for _ in range(steps):
        attended, reward = answer(layer, boxes, batch)
        assert attended.log_prob is not None
        optimiser.zero_grad()
        (layer.loss(attended, reward) if baseline else regard.reinforce(attended.log_prob, reward)).backward()
        optimiser.step()
        right.append(1 + float(reward.mean()))
    return layer, right


def gradient_spread(layer: HardAttention, trials: int = 100, batch: int = 32) -> float:
    """The standard deviation of the gradient over batches with a baseline, divided by that without."""
    boxes = Boxes(seed=3)
    gradients: dict[bool, list[Tensor]] = {True: [], False: []}
    parameters = list(layer.score.parameters())
    mean_reward = float(answer(layer, boxes, 4096)[1].mean())
    for _ in range(trials):
        attended, reward = answer(layer, boxes, batch)
        assert attended.log_prob is not None
        for baseline in (True, False):
            loss = regard.reinforce(attended.log_prob, reward, mean_reward if baseline else 0.0)
            gradients[baseline].append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, retain_graph=True)]))
    spread = {baseline: torch.stack(samples).var(0).sum().sqrt() for baseline, samples in gradients.items()}
    return float(spread[True] / spread[False])


def run(steps: int = 120) -> Result:
    torch.manual_seed(1)
    untrained = HardAttention(regard.Bilinear(WIDTH, WIDTH))
    spread = gradient_spread(untrained)
    layer, right = train(steps, baseline=True)
    _, right_without = train(steps, baseline=False)
    size, span = 2048, max(1, steps // 10)  # the curves are means over `span` steps
    with torch.no_grad():
        sampled = 1 + float(answer(layer, Boxes(seed=4), size)[1].mean())
        accuracy_before, accuracy_argmax = (1 + float(answer(model.eval(), Boxes(seed=4), size)[1].mean()) for model in (untrained, layer))
    starts = range(0, steps - span + 1, span)
    return Result(
        [i + span for i in starts],
        [sum(right[i : i + span]) / span for i in starts],
        [sum(right_without[i : i + span]) / span for i in starts],
        accuracy_before,
        sampled,
        accuracy_argmax,
        1 / BOXES + (1 - 1 / BOXES) / DIGITS,
        spread,
    )


def show(result: Result) -> Board:
    curves = {"with a baseline": result.right, "without": result.right_without}
    rows = [
        ["correct digits, new boxes", ""],
        ["chance", f"{result.chance:.0%}"],
        ["before training, argmax", f"{result.accuracy_before:.0%}"],
        ["after training, sampled", f"{result.accuracy_sampled:.0%}"],
        ["after training, argmax (used at test time)", f"{result.accuracy_argmax:.0%}"],
    ]
    return Board(
        "Hard attention learns which input to pick from rewards alone.",
        [
            Lines("correct digits during training (sampled)", "step", result.steps, curves),
            Table("", rows),
            Note(f"With the baseline the standard deviation of the first gradients is {result.gradient_spread:.2f} times that without."),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
