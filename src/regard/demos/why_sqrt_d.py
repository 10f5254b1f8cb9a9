"""Why the scores are divided by √d: the variance of q·k grows with d, the softmax becomes one-hot, and its gradient dies.

Queries and keys are standard normal, so q·k has variance d and q·k/√d variance 1 (Vaswani et al. 2017, footnote 4). The gradient is
measured, not derived: a loss on attention's output is followed back to the scores, through a bias of zeros added to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.drawing import Board, Lines, Note
from regard.demos.stage import play

WIDTHS = (4, 16, 64, 256, 1024, 4096)


@dataclass(frozen=True)
class Result:
    widths: list[int]
    dot_variance: list[float]
    scaled_variance: list[float]
    dot_largest: list[float]  # mean of a row's largest weight
    scaled_largest: list[float]
    dot_gradient: list[float]  # mean norm of a row of ∂loss/∂scores
    scaled_gradient: list[float]


def measure(score: regard.Score, width: int, queries: int = 256, keys: int = 32) -> tuple[float, float, float]:
    """Variance of the scores, mean largest weight, and mean gradient at the scores."""
    g = torch.Generator().manual_seed(width)
    q, k = (torch.randn(n, width, generator=g, dtype=torch.float64) for n in (queries, keys))
    v = torch.randn(keys, 16, generator=g, dtype=torch.float64)
    nudge = torch.zeros(queries, keys, dtype=torch.float64, requires_grad=True)
    seen = regard.observe(q, k, v, score=score, bias=nudge, readings=[regard.TopK(1)])
    push = torch.randn(queries, 16, generator=g, dtype=torch.float64) / 4  # a loss that wants something else of every query
    (gradient,) = torch.autograd.grad((seen.output * push).sum(), nudge)
    return float(score(q, k).var()), float(seen.readings["top"].weights.mean()), float(gradient.norm(dim=-1).mean())


def run(widths: Sequence[int] = WIDTHS) -> Result:
    dot, scaled = (list(zip(*(measure(score, d) for d in widths), strict=True)) for score in (regard.Dot(), regard.ScaledDot()))
    return Result(list(widths), list(dot[0]), list(scaled[0]), list(dot[1]), list(scaled[1]), list(dot[2]), list(scaled[2]))


def show(result: Result) -> Board:
    fall = result.dot_gradient[0] / result.dot_gradient[-1]
    return Board(
        "Dividing by √d keeps the softmax alive.",
        [
            Lines("variance of the scores", "d", result.widths, {"q·k": result.dot_variance, "q·k/√d": result.scaled_variance}, True, True),
            Lines(
                "largest weight of a row, on average",
                "d",
                result.widths,
                {"q·k": result.dot_largest, "q·k/√d": result.scaled_largest},
                True,
            ),
            Lines(
                "gradient that reaches the scores", "d", result.widths, {"q·k": result.dot_gradient, "q·k/√d": result.scaled_gradient}, True
            ),
            Note(
                f"From d = {result.widths[0]} to {result.widths[-1]:,} the gradient through q·k falls {fall:.0f}-fold; "
                f"through q·k/√d it stays within {max(result.scaled_gradient) / min(result.scaled_gradient):.2f}×."
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    play(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
