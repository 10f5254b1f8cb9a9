"""One input, two queries, two selections: focus has a query (top-down, volitional), saliency has none (bottom-up, non-volitional).

On a desk are a newspaper, a paper, a red cup of coffee, a notebook and a book. Without a query the red cup is selected; with the query
"I want to read" the book is. The input is the same, only the query differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.panels import Board, Grid, Note
from regard.demos.runner import run_program
from regard.layers.pooling import GatedPooling, MaxPooling, WinnerTakeAll

THINGS = ("newspaper", "paper", "red cup", "notebook", "book")
FEATURES = ("bright", "to read", "to drink", "to write on")
DESK = ((0.3, 1.2, 0.0, 0.4), (0.5, 0.3, 0.0, 1.5), (3.0, 0.0, 2.0, 0.0), (0.6, 0.4, 0.0, 2.0), (0.4, 2.2, 0.0, 0.1))
QUERIES = {"I want to read": (0.0, 2.0, 0.0, 0.0), "I want to write": (0.0, 0.0, 0.0, 2.0)}


@dataclass(frozen=True)
class Result:
    things: list[str]
    salient: dict[str, list[float]]  # no query: the weights of each pooling
    focused: dict[str, list[float]]  # the attention weights of each query


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
    focused = regard.observe(query, x, x, score=regard.Dot(), readings=[regard.Rows([0, 1])]).readings["rows"]
    return Result(
        list(THINGS),
        {name: weights.tolist() for name, weights in salient.items()},
        {name: weights.tolist() for name, weights in zip(QUERIES, focused, strict=True)},
    )


def show(result: Result) -> Board:
    return Board(
        "The same desk gives two selections under two queries.",
        [
            Grid("without a query (saliency)", list(result.salient.values()), list(result.salient), result.things),
            Grid(
                "with a query (focus)",
                list(result.focused.values()),
                list(result.focused),
                result.things,
                current=(0, 1),
            ),
            Note("max pooling: the share of features for which the thing has the maximum; gates are independent and need not sum to 1"),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
