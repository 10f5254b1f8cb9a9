"""One scene, two questions, two selections: focus has a query (top-down, volitional), saliency has none (bottom-up, non-volitional).

On a desk lie a newspaper, a paper, a red cup of coffee, a notebook and a book. Asked nothing, the red cup catches the eye; wanting
to read, the book does. The desk does not change: only the query does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.drawing import Board, Grid, Note
from regard.demos.stage import play
from regard.layers.pooling import GatedPooling, MaxPooling, WinnerTakeAll

THINGS = ("newspaper", "paper", "red cup", "notebook", "book")
FEATURES = ("bright", "to read", "to drink", "to write on")
DESK = ((0.3, 1.2, 0.0, 0.4), (0.5, 0.3, 0.0, 1.5), (3.0, 0.0, 2.0, 0.0), (0.6, 0.4, 0.0, 2.0), (0.4, 2.2, 0.0, 0.1))
QUERIES = {"I want to read": (0.0, 2.0, 0.0, 0.0), "I want to write": (0.0, 0.0, 0.0, 2.0)}


@dataclass(frozen=True)
class Result:
    things: list[str]
    salient: dict[str, list[float]]  # no query: each pooling's weights
    focused: dict[str, list[float]]  # one query each: attention weights


def run() -> Result:
    x = torch.tensor(DESK)
    bright = torch.tensor([1.0, 0.0, 0.0, 0.0])
    gates = GatedPooling(len(FEATURES)).requires_grad_(False)
    gates.gate.weight.copy_(2 * bright)
    gates.gate.bias.fill_(-3.0)
    salient = {
        "winner takes all": WinnerTakeAll(len(FEATURES), saliency=bright).weights(x),
        "max pooling": MaxPooling().weights(x),
        "gates": gates.weights(x),
    }
    query = torch.tensor(list(QUERIES.values()))
    seen = regard.observe(query, x, x, score=regard.Dot(), readings=[regard.Rows([0, 1])]).readings["rows"]
    return Result(
        list(THINGS),
        {name: weights.tolist() for name, weights in salient.items()},
        {name: weights.tolist() for name, weights in zip(QUERIES, seen, strict=True)},
    )


def show(result: Result) -> Board:
    return Board(
        "The same desk under two questions gives two selections.",
        [
            Grid("no query: what stands out (saliency)", list(result.salient.values()), list(result.salient), result.things),
            Grid(
                "a query each: what is looked for (focus)",
                list(result.focused.values()),
                list(result.focused),
                result.things,
                current=(0, 1),
            ),
            Note("max pooling: the share of features a thing won; gates open each for itself and need not sum to 1"),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    play(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
