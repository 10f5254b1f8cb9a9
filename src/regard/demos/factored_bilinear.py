"""The bilinear score xᵀWq factored as (Ux)ᵀ(Vq): cheaper when the rank is low, and asymmetric, unlike the dot product.

This is what a Transformer head computes: U is its key map, V its query map. Swapping x and q changes the score, so a word can attend
to another that does not attend to it. With rank r it has r(d + d) parameters instead of d·d, and its scores form a matrix of rank ≤ r.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.panels import Board, Lines, Note, Table
from regard.demos.runner import run_program

WIDTH = 48
RANKS = (1, 2, 4, 8, 16, 48)


@dataclass(frozen=True)
class Result:
    ranks: list[int]
    parameters: list[int]
    full_parameters: int
    score_rank: list[int]  # rank of the matrix of scores between 64 x and 64 q
    difference: list[float]  # (Ux)ᵀ(Vq) against xᵀ(UᵀV)q
    best_error: list[float]  # a full W against the best factors of each rank
    dot_asymmetry: float  # |s(x, q) − s(q, x)| / |s|
    bilinear_asymmetry: float


def asymmetry(score: regard.Score, x: torch.Tensor) -> float:
    scores = score(x, x)
    return float((scores - scores.mT).norm() / scores.norm())


def run(ranks: Sequence[int] = RANKS) -> Result:
    torch.manual_seed(0)
    x, q = torch.randn(2, 64, WIDTH, dtype=torch.float64)
    full = regard.Bilinear(WIDTH, WIDTH).double().requires_grad_(False)
    left, singular_values, right = torch.linalg.svd(full.W)
    parameters, score_rank, difference, best = [], [], [], []
    for r in ranks:
        score = regard.Bilinear(WIDTH, WIDTH, rank=r).double().requires_grad_(False)
        parameters.append(sum(p.numel() for p in score.parameters()))
        score_rank.append(int(torch.linalg.matrix_rank(score(q, x))))
        difference.append(float((score(q, x) - q @ score.matrix().mT @ x.mT).abs().max()))
        score.U.copy_(singular_values[:r].sqrt().unsqueeze(-1) * left[:, :r].mT)  # the nearest W of rank r (Eckart and Young 1936)
        score.V.copy_(singular_values[:r].sqrt().unsqueeze(-1) * right[:r])
        best.append(float((score(q, x) - full(q, x)).norm() / full(q, x).norm()))
    dot = regard.Dot()
    return Result(list(ranks), parameters, WIDTH * WIDTH, score_rank, difference, best, asymmetry(dot, x), asymmetry(full, x))


def show(result: Result) -> Board:
    rows = [["rank", "parameters", "rank of the scores", "(Ux)ᵀ(Vq) − xᵀ(UᵀV)q"]]
    for i, rank in enumerate(result.ranks):
        rows.append([str(rank), f"{result.parameters[i]:,}", str(result.score_rank[i]), f"{result.difference[i]:.0e}"])
    rows.append(["full W", f"{result.full_parameters:,}", "", ""])
    return Board(
        "A factored bilinear score is asymmetric and of low rank.",
        [
            Table("", rows),
            Lines(
                "a random full W, approximated by the best factors of each rank",
                "rank",
                result.ranks,
                {"relative error": result.best_error},
            ),
            Note(
                f"s(x, q) against s(q, x), relative difference: dot {result.dot_asymmetry:.2f}, bilinear {result.bilinear_asymmetry:.2f}\n"
                "the dot product is symmetric: s(x, q) = s(q, x)"
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
