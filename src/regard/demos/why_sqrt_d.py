"""Why scores are divided by √d: the variance of q·k grows with d, so the softmax becomes one-hot and its gradient vanishes.

Queries and keys are standard normal, so q·k has variance d and q·k/√d variance 1 (Vaswani et al. 2017, footnote 4). The gradient is
measured: that of a loss on the output of attention with respect to a bias of zeros, which is added to the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.panels import Board, Lines, Note
from regard.demos.runner import run_program

WIDTHS = (4, 16, 64, 256, 1024, 4096)


@dataclass(frozen=True)
class Result:
    widths: list[int]
    dot_variance: list[float]
    scaled_variance: list[float]
    dot_largest: list[float]  # mean over rows of the largest weight
    scaled_largest: list[float]
    dot_gradient: list[float]  # mean norm of a row of ∂loss/∂scores
    scaled_gradient: list[float]


def measure(score: regard.Score, width: int, queries: int = 256, keys: int = 32) -> tuple[float, float, float]:
    """The variance of the scores, the mean largest weight, and the mean gradient norm with respect to the scores."""
    g = torch.Generator().manual_seed(width)
    q, k = (torch.randn(n, width, generator=g, dtype=torch.float64) for n in (queries, keys))
    v = torch.randn(keys, 16, generator=g, dtype=torch.float64)
    bias = torch.zeros(queries, keys, dtype=torch.float64, requires_grad=True)
    attended = regard.observe(q, k, v, score=score, bias=bias, readings=[regard.TopK(1)])
    output_gradient = torch.randn(queries, 16, generator=g, dtype=torch.float64) / 4  # ∂loss/∂output
    (gradient,) = torch.autograd.grad((attended.output * output_gradient).sum(), bias)
    return float(score(q, k).var()), float(attended.readings["top"].weights.mean()), float(gradient.norm(dim=-1).mean())


def run(widths: Sequence[int] = WIDTHS) -> Result:
    dot, scaled = (list(zip(*(measure(score, d) for d in widths), strict=True)) for score in (regard.Dot(), regard.ScaledDot()))
    return Result(list(widths), list(dot[0]), list(scaled[0]), list(dot[1]), list(scaled[1]), list(dot[2]), list(scaled[2]))


def show(result: Result) -> Board:
    fall = result.dot_gradient[0] / result.dot_gradient[-1]
    return Board(
        "Dividing by √d keeps the gradient of the softmax from vanishing.",
        [
            Lines("variance of the scores", "d", result.widths, {"q·k": result.dot_variance, "q·k/√d": result.scaled_variance}, True, True),
            Lines(
                "largest weight of a row, mean over rows",
                "d",
                result.widths,
                {"q·k": result.dot_largest, "q·k/√d": result.scaled_largest},
                True,
            ),
            Lines(
                "gradient with respect to the scores, mean norm of a row",
                "d",
                result.widths,
                {"q·k": result.dot_gradient, "q·k/√d": result.scaled_gradient},
                True,
            ),
            Note(
                f"From d = {result.widths[0]} to {result.widths[-1]:,} the gradient through q·k falls {fall:.0f}-fold; "
                f"through q·k/√d it stays within {max(result.scaled_gradient) / min(result.scaled_gradient):.2f}×."
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
