"""Hard attention looks at one input only. A draw has no gradient, yet it learns where to look from reward alone.

Eight boxes each bear a label and hold a digit; a request names one of them in another language (a rotation the model does not know). The
model opens one box, drawn from softmax(score), reads its digit, and pays 1 if it is wrong. A bilinear score must find the rotation.
It is trained by REINFORCE with a baseline, the mean reward so far; at test time the argmax is taken. Williams 1992; Xu et al. 2015,
section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import regard
from regard.demos.drawing import Board, Lines, Note, Table
from regard.demos.stage import play
from regard.layers.hard import HardAttention

BOXES, WIDTH, DIGITS = 8, 8, 10


@dataclass(frozen=True)
class Result:
    steps: list[int]
    right: list[float]  # share of right digits while training, with a baseline
    right_without: list[float]  # and without one
    accuracy_before: float  # argmax on fresh boxes
    accuracy_sampled: float
    accuracy_argmax: float
    chance: float
    gradient_spread: float  # standard deviation of the first gradient, with the baseline over without


class Boxes:
    """Fresh problems: requests (B, 1, d), labels (B, N, d), digits one-hot (B, N, 10), and the digit asked for (B, 1)."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.language = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(0)))[0]

    def batch(self, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        labels = torch.nn.functional.normalize(torch.randn(size, BOXES, WIDTH, generator=self.generator), dim=-1)
        asked = torch.randint(BOXES, (size, 1), generator=self.generator)
        digits = torch.randint(DIGITS, (size, BOXES), generator=self.generator)
        request = labels.gather(1, asked.unsqueeze(-1).expand(-1, -1, WIDTH)) @ self.language
        return request, labels, torch.nn.functional.one_hot(digits, DIGITS).float(), digits.gather(1, asked)


def answer(layer: HardAttention, boxes: Boxes, size: int) -> tuple[regard.Attended, Tensor]:
    """What was picked, and the reward: 0 where the digit read is the digit asked for, −1 where it is not."""
    request, labels, digits, asked = boxes.batch(size)
    seen = layer(request, labels, digits, generator=boxes.generator)
    return seen, (seen.output.argmax(-1) == asked).float() - 1


def train(steps: int, *, baseline: bool, batch: int = 128) -> tuple[HardAttention, list[float]]:
    """Learn from reward alone; without a baseline every wrong draw is discouraged and no right one encouraged."""
    torch.manual_seed(1)
    layer, boxes = HardAttention(regard.Bilinear(WIDTH, WIDTH)), Boxes(seed=2)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    right = []
    for _ in range(steps):
        seen, reward = answer(layer, boxes, batch)
        assert seen.log_prob is not None
        optimiser.zero_grad()
        (layer.loss(seen, reward) if baseline else regard.reinforce(seen.log_prob, reward)).backward()
        optimiser.step()
        right.append(1 + float(reward.mean()))
    return layer, right


def gradient_spread(layer: HardAttention, trials: int = 100, batch: int = 32) -> float:
    """How much the gradient varies from batch to batch with a baseline, over how much without."""
    boxes = Boxes(seed=3)
    found: dict[bool, list[Tensor]] = {True: [], False: []}
    parameters = list(layer.score.parameters())
    level = float(answer(layer, boxes, 4096)[1].mean())
    for _ in range(trials):
        seen, reward = answer(layer, boxes, batch)
        assert seen.log_prob is not None
        for baseline in (True, False):
            loss = regard.reinforce(seen.log_prob, reward, level if baseline else 0.0)
            found[baseline].append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters, retain_graph=True)]))
    spread = {baseline: torch.stack(gradients).var(0).sum().sqrt() for baseline, gradients in found.items()}
    return float(spread[True] / spread[False])


def run(steps: int = 120) -> Result:
    torch.manual_seed(1)
    before = HardAttention(regard.Bilinear(WIDTH, WIDTH))
    spread = gradient_spread(before)
    layer, right = train(steps, baseline=True)
    _, bare = train(steps, baseline=False)
    size, window = 2048, max(1, steps // 10)
    with torch.no_grad():
        sampled = 1 + float(answer(layer, Boxes(seed=4), size)[1].mean())
        first, best = (1 + float(answer(model.eval(), Boxes(seed=4), size)[1].mean()) for model in (before, layer))
    every = range(0, steps - window + 1, window)
    return Result(
        [i + window for i in every],
        [sum(right[i : i + window]) / window for i in every],
        [sum(bare[i : i + window]) / window for i in every],
        first,
        sampled,
        best,
        1 / BOXES + (1 - 1 / BOXES) / DIGITS,
        spread,
    )


def show(result: Result) -> Board:
    curves = {"with a baseline": result.right, "without": result.right_without}
    rows = [
        ["right digits, fresh boxes", ""],
        ["chance", f"{result.chance:.0%}"],
        ["before training, argmax", f"{result.accuracy_before:.0%}"],
        ["after, a draw", f"{result.accuracy_sampled:.0%}"],
        ["after, argmax (as used at test time)", f"{result.accuracy_argmax:.0%}"],
    ]
    return Board(
        "Hard attention learns where to look from reward alone.",
        [
            Lines("right digits while training (draws)", "step", result.steps, curves),
            Table("", rows),
            Note(f"With the baseline the first gradients spread {result.gradient_spread:.2f} times as wide as without."),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    play(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
