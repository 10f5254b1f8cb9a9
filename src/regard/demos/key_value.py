"""Key-value attention with the keys as values is soft attention, and soft attention is a mean: Σ α_n x_n = E[x_z], z drawn from α.

With K = V the outputs are equal bit for bit; other values give another output from the same weights. Hard attention samples z from the
attention distribution and returns x_z; the mean of many samples converges to the soft output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.panels import Board, Grid, Lines, Note
from regard.demos.runner import run_program
from regard.layers.keyvalue import KeyValueAttention

DRAWS = (10, 100, 1_000, 4_000)
TRIALS = 32


@dataclass(frozen=True)
class Result:
    weights: list[list[float]]
    same: bool  # key-value attention with K = V equals soft attention, bit for bit
    written_out: float  # greatest difference from Σ α x computed directly
    other_values: float  # norm of the change of the output with other values
    draws: list[int]
    distance: list[float]  # of the mean of that many samples from the soft output, root mean square over the trials


def run(draws: Sequence[int] = DRAWS) -> Result:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(6, 4, generator=g, dtype=torch.float64)
    query = torch.randn(1, 4, generator=g, dtype=torch.float64)
    layer = KeyValueAttention(regard.ScaledDot())
    soft = layer(query, x)
    weights = torch.softmax(regard.ScaledDot()(query, x), -1)
    distance = []
    for count in draws:
        samples = regard.attend(query.expand(TRIALS, count, -1), x, x, choice=regard.Sample(), generator=g)  # (TRIALS, count, d)
        distance.append(float((samples.mean(1) - soft).square().sum(-1).mean().sqrt()))
    return Result(
        weights.tolist(),
        torch.equal(layer(query, x, x), soft),
        float((weights @ x - soft).abs().max()),
        float((layer(query, x, torch.randn(6, 4, generator=g, dtype=torch.float64)) - soft).norm()),
        list(draws),
        distance,
    )


def show(result: Result) -> Board:
    return Board(
        "With K = V key-value attention is soft attention, the mean of x under α.",
        [
            Grid("attention distribution α", result.weights, ["q"], [f"x{n + 1}" for n in range(len(result.weights[0]))]),
            Note(
                f"att((X, X), q) = att(X, q), bit for bit: {result.same}; Σ α x computed directly agrees within {result.written_out:.0e}\n"
                f"other values, same weights: the output changes by {result.other_values:.2f}"
            ),
            Lines(
                "distance of the mean of hard samples from the soft output",
                "samples",
                result.draws,
                {"distance": result.distance},
                True,
                True,
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
