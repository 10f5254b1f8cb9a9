"""Textbooks write attention by columns, H = V softmax(KᵀQ/√d), the library by rows: the one is the transpose of the other.

By columns a token is a column, keys run down and queries across, and every *column* of weights sums to 1. By rows a token is a row,
queries run down and keys across, and every *row* sums to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.drawing import Board, Grid, Note
from regard.demos.stage import play


@dataclass(frozen=True)
class Result:
    columns: list[list[float]]  # softmax(KᵀQ/√d) down the columns: (keys, queries)
    rows: list[list[float]]  # ours: (queries, keys)
    weights_difference: float  # |columns − rowsᵀ|
    output_difference: float  # |H − oursᵀ|
    column_sums: list[float]
    row_sums: list[float]


def run(queries: int = 4, keys: int = 6, width: int = 8) -> Result:
    g = torch.Generator().manual_seed(0)
    Q, K, V = (torch.randn(width, n, generator=g, dtype=torch.float64) for n in (queries, keys, keys))  # tokens are columns
    A = torch.softmax(K.mT @ Q / math.sqrt(width), dim=0)
    H = V @ A
    ours = regard.observe(Q.mT, K.mT, V.mT, readings=[regard.Rows(list(range(queries)))])
    weights = ours.readings["rows"]
    return Result(
        A.tolist(),
        weights.tolist(),
        float((A - weights.mT).abs().max()),
        float((H - ours.output.mT).abs().max()),
        A.sum(0).tolist(),
        weights.sum(-1).tolist(),
    )


def show(result: Result) -> Board:
    queries, keys = [f"q{i + 1}" for i in range(len(result.rows))], [f"k{i + 1}" for i in range(len(result.columns))]
    return Board(
        "The textbook's column form is our row form transposed.",
        [
            Grid("textbook: softmax(KᵀQ/√d), keys ↓ queries →, each column sums to 1", result.columns, keys, queries),
            Grid("ours: softmax(QKᵀ/√d), queries ↓ keys →, each row sums to 1", result.rows, queries, keys),
            Note(f"weights differ by {result.weights_difference:.0e}, outputs V·A and (A'V')ᵀ by {result.output_difference:.0e}"),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    play(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
