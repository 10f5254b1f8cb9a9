"""Key-value attention with the keys as values is soft attention, and soft attention is a mean: Σ α_n x_n = E[x_z], z drawn from α.

The same numbers come out, bit for bit, when K = V; other values give another answer from the same weights. And drawing z from the
attention distribution many times, each time taking x_z (hard attention), comes ever closer to the soft answer on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.drawing import Board, Grid, Lines, Note
from regard.demos.stage import play
from regard.layers.keyvalue import KeyValueAttention

DRAWS = (10, 100, 1_000, 4_000)
TRIALS = 32


@dataclass(frozen=True)
class Result:
    weights: list[list[float]]
    same: bool  # K = V against Σ α x, bit for bit
    written_out: float  # and against the sum written out
    other_values: float  # how far other values move the answer
    draws: list[int]
    distance: list[float]  # of the mean of so many draws from the soft answer, root mean square over the trials


def run(draws: Sequence[int] = DRAWS) -> Result:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(6, 4, generator=g, dtype=torch.float64)
    query = torch.randn(1, 4, generator=g, dtype=torch.float64)
    look = KeyValueAttention(regard.ScaledDot())
    soft = look(query, x)
    weights = torch.softmax(regard.ScaledDot()(query, x), -1)
    distance = []
    for count in draws:
        drawn = regard.attend(query.expand(TRIALS, count, -1), x, x, choice=regard.Sample(), generator=g)  # (TRIALS, count, d)
        distance.append(float((drawn.mean(1) - soft).square().sum(-1).mean().sqrt()))
    return Result(
        weights.tolist(),
        torch.equal(look(query, x, x), soft),
        float((weights @ x - soft).abs().max()),
        float((look(query, x, torch.randn(6, 4, generator=g, dtype=torch.float64)) - soft).norm()),
        list(draws),
        distance,
    )


def show(result: Result) -> Board:
    return Board(
        "With K = V key-value attention is soft attention, the mean of x under α.",
        [
            Grid("attention distribution α", result.weights, ["q"], [f"x{n + 1}" for n in range(len(result.weights[0]))]),
            Note(
                f"att((X, X), q) = att(X, q), bit for bit: {result.same}; the sum written out agrees within {result.written_out:.0e}\n"
                f"other values, same weights: the answer moves by {result.other_values:.2f}"
            ),
            Lines(
                "distance of the mean of hard draws from the soft answer", "draws", result.draws, {"distance": result.distance}, True, True
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    play(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
