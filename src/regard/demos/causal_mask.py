"""Masked attention: later words cannot influence earlier ones, because their scores are set to −∞ before the softmax.

Zeroing weights after the softmax instead would leave rows that do not sum to 1. Here one word is changed: every output before it stays
the same bit for bit, while without the mask all outputs change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.panels import Board, Grid, Lines, Note
from regard.demos.runner import run_program

WORDS = ("the", "cat", "sat", "on", "the", "mat")
CHANGED = 3


@dataclass(frozen=True)
class Result:
    weights: list[list[float]]
    row_sums: list[float]
    zeroed_after: list[float]  # row sums when weights are zeroed after the softmax instead
    moved_masked: list[float]  # norm of the change of each output when word CHANGED changes
    moved_unmasked: list[float]
    gradient_ahead: float  # greatest gradient of an earlier output at a later input


def run() -> Result:
    g = torch.Generator().manual_seed(0)
    count = len(WORDS)
    x = torch.randn(count, 8, generator=g, dtype=torch.float64)
    W = torch.randn(3, 8, 8, generator=g, dtype=torch.float64) / 2

    def outputs(tokens: torch.Tensor, mask: regard.Mask | None) -> torch.Tensor:
        return regard.attend(*(tokens @ w for w in W), mask=mask)

    attended = regard.observe(*(x @ w for w in W), mask=regard.causal(), readings=[regard.Rows(list(range(count)))])
    weights = attended.readings["rows"]
    full = torch.softmax(regard.ScaledDot()(x @ W[0], x @ W[1]), -1)
    changed = x.clone()
    changed[CHANGED] += 1
    moved = {mask: (outputs(changed, mask) - outputs(x, mask)).norm(dim=-1) for mask in (regard.causal(), None)}
    gradients = torch.autograd.functional.jacobian(lambda t: outputs(t, regard.causal()).sum(-1), x).abs().amax(-1)  # (L, S)
    return Result(
        weights.tolist(),
        weights.sum(-1).tolist(),
        full.tril().sum(-1).tolist(),
        moved[regard.causal()].tolist(),
        moved[None].tolist(),
        float(gradients.triu(1).max()),
    )


def show(result: Result) -> Board:
    positions = list(range(1, len(WORDS) + 1))
    hidden = [[j > i for j in positions] for i in positions]
    moved = {"causal": result.moved_masked, "no mask": result.moved_unmasked}
    sums = {"−∞ before": result.row_sums, "zero after": result.zeroed_after}
    return Board(
        "Later words cannot influence earlier ones, and every row still sums to 1.",
        [
            Grid("query ↓  key →", result.weights, WORDS, WORDS, hidden),
            Lines(f"change of each output (norm) when word {CHANGED + 1} changes", "word", positions, moved),
            Lines("row sums", "word", positions, sums),
            Note(f"greatest gradient of an output with respect to a later word: {result.gradient_ahead:g}"),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
