"""Additive and dot-product scores have similar complexity, but dot products are far faster in practice.

A pair takes d multiplications with a dot product and as many with an additive score of hidden size d, and both grow with L · S. But the
dot products of all pairs are one matrix product, while vᵀ tanh(W x + U q) is computed pair by pair, with a tanh for every hidden unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

import regard
from regard.demos.panels import Board, Lines, Note, Table
from regard.demos.runner import run_program

WIDTH = 64
LENGTHS = (64, 128, 256)


@dataclass(frozen=True)
class Result:
    lengths: list[int]
    dot_seconds: list[float]
    additive_seconds: list[float]
    ratio: list[float]  # additive time over dot time
    dot_multiplications: int  # per pair
    additive_multiplications: int
    additive_tanhs: int
    dot_error: float  # greatest difference from the formula
    additive_error: float


def seconds(score: regard.Score, q: Tensor, k: Tensor, v: Tensor, repeats: int) -> float:
    """The shortest time of `repeats` runs after a warm-up run."""
    regard.attend(q, k, v, score=score)
    best = float("inf")
    for _ in range(repeats):
        start = perf_counter()
        regard.attend(q, k, v, score=score)
        best = min(best, perf_counter() - start)
    return best


def run(lengths: Sequence[int] = LENGTHS, repeats: int = 5) -> Result:
    torch.manual_seed(0)
    dot, additive = regard.ScaledDot(), regard.Additive(WIDTH, WIDTH, hidden=WIDTH).requires_grad_(False)
    times: dict[str, list[float]] = {"dot": [], "additive": []}
    for n in lengths:
        q, k, v = torch.randn(3, 1, 2, n, WIDTH)
        times["dot"].append(seconds(dot, q, k, v, repeats))
        times["additive"].append(seconds(additive, q, k, v, repeats))
    q, k = torch.randn(2, 6, WIDTH)
    by_hand = torch.stack([torch.stack([additive.v @ torch.tanh(additive.W @ x + additive.U @ y) for x in k]) for y in q])
    return Result(
        list(lengths),
        times["dot"],
        times["additive"],
        [a / d for a, d in zip(times["additive"], times["dot"], strict=True)],
        WIDTH,
        WIDTH,
        WIDTH,
        float((dot(q, k) - torch.stack([torch.stack([x @ y for x in k]) for y in q]) / WIDTH**0.5).abs().max()),
        float((additive(q, k) - by_hand).abs().max()),
    )


def show(result: Result) -> Board:
    costs = [
        ["per pair", "multiplications", "tanh"],
        ["dot  xᵀq/√d", str(result.dot_multiplications), "0"],
        ["additive  vᵀ tanh(Wx + Uq)", str(result.additive_multiplications), str(result.additive_tanhs)],
    ]
    milliseconds = {
        "dot, ms": [1000 * t for t in result.dot_seconds],
        "additive, ms": [1000 * t for t in result.additive_seconds],
    }
    return Board(
        "Additive and dot-product scores: similar complexity, but dot products are far faster.",
        [
            Table("", costs),
            Lines("measured on this machine: attention with 2 heads of width 64, L = S", "L", result.lengths, milliseconds, log_y=True),
            Lines("how many times slower", "L", result.lengths, {"additive / dot": result.ratio}),
            Note(f"At L = {result.lengths[-1]}, {torch.get_num_threads()} threads, additive took {result.ratio[-1]:.0f} times as long."),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
