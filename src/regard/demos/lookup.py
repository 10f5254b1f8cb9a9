"""Attention is a soft lookup in a table of keys and values, in three stages; a dict is its limit as the temperature goes to 0.

A dict finds the key that equals the query and returns its value. Attention scores every key (stage 1), turns the scores into weights
(stage 2), and averages the values with them (stage 3). As the temperature falls, all the weight goes to one key, as in a dict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.panels import Board, Grid, Lines, Note, Table
from regard.demos.runner import run_program

PRICES = {"apple": 3.0, "banana": 1.0, "cherry": 8.0, "durian": 5.0}
QUERY = "cherry"
TEMPERATURES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)


@dataclass(frozen=True)
class Result:
    keys: list[str]
    values: list[float]
    asked: str
    crisp: float  # the value the dict returns
    scores: list[float]  # stage 1
    temperatures: list[float]
    weights: list[list[float]]  # stage 2, one row per temperature
    answers: list[float]  # stage 3
    argmax: float  # the output of hard attention: the limit itself


def run(temperatures: Sequence[float] = TEMPERATURES) -> Result:
    g = torch.Generator().manual_seed(3)
    key = torch.nn.functional.normalize(torch.randn(len(PRICES), 6, generator=g, dtype=torch.float64), dim=-1)
    value = torch.tensor(list(PRICES.values()), dtype=torch.float64).unsqueeze(-1)
    names = list(PRICES)
    query = key[names.index(QUERY)].unsqueeze(0)  # (1, d), equal to the key it looks up
    score = regard.Dot()
    scores = score(query, key)
    weights = [regard.Softmax(temperature=t)(scores)[0] for t in temperatures]
    answers = [regard.attend(query, key, value, score=score, choice=regard.Softmax(temperature=t)) for t in temperatures]
    return Result(
        names,
        list(PRICES.values()),
        QUERY,
        PRICES[QUERY],
        scores[0].tolist(),
        list(temperatures),
        [w.tolist() for w in weights],
        [float(a) for a in answers],
        float(regard.attend(query, key, value, score=score, choice=regard.Argmax())),
    )


def show(result: Result) -> Board:
    head = ["", *result.keys]
    table = [head, ["value", *(f"{v:g}" for v in result.values)], ["1 score  q·k", *(f"{s:.2f}" for s in result.scores)]]
    gap = [abs(a - result.crisp) for a in result.answers]
    return Board(
        "A dict is attention at temperature 0.",
        [
            Note(f'dict:  prices["{result.asked}"] = {result.crisp:g}'),
            Table("", table),
            Grid("2 weights  softmax(score / temperature)", result.weights, [f"{t:g}" for t in result.temperatures], result.keys),
            Lines("3 output  Σ weight · value", "temperature", result.temperatures, {"output": result.answers}),
            Lines("", "temperature", result.temperatures, {"difference from the dict": gap}),
            Note(f"limit:  argmax gives {result.argmax:g}, exactly the dict's value"),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
