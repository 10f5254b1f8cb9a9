"""Some textbooks write attention in column form, H = V softmax(KᵀQ/√d); the library uses its transpose, the row form.

In the column form a token is a column, the weights have keys down and queries across, and each *column* sums to 1. In the row form a
token is a row, the weights have queries down and keys across, and each *row* sums to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.panels import Board, Grid, Note
from regard.demos.runner import run_program


@dataclass(frozen=True)
class Result:
    columns: list[list[float]]  # softmax(KᵀQ/√d) down the columns: (keys, queries)
    rows: list[list[float]]  # the library's weights: (queries, keys)
    weights_difference: float  # |columns − rowsᵀ|
    output_difference: float  # |H − (the library's output)ᵀ|
    column_sums: list[float]
    row_sums: list[float]


def run(queries: int = 4, keys: int = 6, width: int = 8) -> Result:
    g = torch.Generator().manual_seed(0)
    Q, K, V = (torch.randn(width, n, generator=g, dtype=torch.float64) for n in (queries, keys, keys))  # tokens are columns
    A = torch.softmax(K.mT @ Q / math.sqrt(width), dim=0)
    H = V @ A
    attended = regard.observe(Q.mT, K.mT, V.mT, readings=[regard.Rows(list(range(queries)))])
    weights = attended.readings["rows"]
    return Result(
        A.tolist(),
        weights.tolist(),
        float((A - weights.mT).abs().max()),
        float((H - attended.output.mT).abs().max()),
        A.sum(0).tolist(),
        weights.sum(-1).tolist(),
    )


def show(result: Result) -> Board:
    queries, keys = [f"q{i + 1}" for i in range(len(result.rows))], [f"k{i + 1}" for i in range(len(result.columns))]
    return Board(
        "The column form of textbooks is the transpose of the row form used here.",
        [
            Grid("column form: softmax(KᵀQ/√d), keys ↓ queries →, each column sums to 1", result.columns, keys, queries),
            Grid("row form: softmax(QKᵀ/√d), queries ↓ keys →, each row sums to 1", result.rows, queries, keys),
            Note(f"weights differ by {result.weights_difference:.0e}, outputs V·A and (A'V')ᵀ by {result.output_difference:.0e}"),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
