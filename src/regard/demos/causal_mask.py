"""Masked attention: later words cannot influence earlier ones, because their scores are set to −∞ before the softmax.

Before, not after: zeroing weights after the softmax would leave rows that no longer sum to 1. Here a word is changed and every
output before it stays the same to the last bit, while without the mask all of them move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.drawing import Board, Grid, Lines, Note
from regard.demos.stage import play

WORDS = ("the", "cat", "sat", "on", "the", "mat")
CHANGED = 3


@dataclass(frozen=True)
class Result:
    weights: list[list[float]]
    row_sums: list[float]
    zeroed_after: list[float]  # row sums when weights are cut after the softmax instead
    moved_masked: list[float]  # how far each output moves when word CHANGED changes
    moved_unmasked: list[float]
    gradient_ahead: float  # greatest gradient of an earlier output at a later input


def run() -> Result:
    g = torch.Generator().manual_seed(0)
    count = len(WORDS)
    x = torch.randn(count, 8, generator=g, dtype=torch.float64)
    W = torch.randn(3, 8, 8, generator=g, dtype=torch.float64) / 2

    def outputs(tokens: torch.Tensor, mask: regard.Mask | None) -> torch.Tensor:
        return regard.attend(*(tokens @ w for w in W), mask=mask)

    seen = regard.observe(*(x @ w for w in W), mask=regard.causal(), readings=[regard.Rows(list(range(count)))])
    weights = seen.readings["rows"]
    full = torch.softmax(regard.ScaledDot()(x @ W[0], x @ W[1]), -1)
    other = x.clone()
    other[CHANGED] += 1
    moved = {mask: (outputs(other, mask) - outputs(x, mask)).norm(dim=-1) for mask in (regard.causal(), None)}
    reach = torch.autograd.functional.jacobian(lambda t: outputs(t, regard.causal()).sum(-1), x).abs().amax(-1)  # (L, S)
    return Result(
        weights.tolist(),
        weights.sum(-1).tolist(),
        full.tril().sum(-1).tolist(),
        moved[regard.causal()].tolist(),
        moved[None].tolist(),
        float(reach.triu(1).max()),
    )


def show(result: Result) -> Board:
    places = list(range(1, len(WORDS) + 1))
    hidden = [[j > i for j in places] for i in places]
    moved = {"causal": result.moved_masked, "no mask": result.moved_unmasked}
    sums = {"−∞ before": result.row_sums, "zero after": result.zeroed_after}
    return Board(
        "Later words cannot influence earlier ones, and every row still sums to 1.",
        [
            Grid("query ↓  key →", result.weights, WORDS, WORDS, hidden),
            Lines(f"how far each output moves when word {CHANGED + 1} changes", "word", places, moved),
            Lines("row sums", "word", places, sums),
            Note(f"gradient of any output at a later word: {result.gradient_ahead:g}"),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    play(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
