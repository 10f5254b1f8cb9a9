"""Several heads run in parallel, each with its own projections; projecting twice, as some textbooks write it, equals projecting once.

The outputs of the h heads are concatenated and multiplied by W_o; here this is computed head by head and compared with the layer. The
textbook form "first Q = XW, then Q W_i for every head" equals X (W W_i): the product of two matrices is one matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.panels import Board, Grid, Note
from regard.demos.runner import run_program
from regard.layers.multihead import MultiHeadAttention

WIDTH, HEADS, TOKENS = 16, 4, 6


@dataclass(frozen=True)
class Result:
    weights: list[list[list[float]]]  # (heads, L, S)
    by_hand: float  # head by head, concatenated, times W_o, against the layer
    collapsed: float  # projecting twice against projecting once
    queries_together: float  # all queries in one call against one call per query
    twice_numbers: int
    once_numbers: int


def run() -> Result:
    torch.manual_seed(0)
    x = torch.randn(1, TOKENS, WIDTH, dtype=torch.float64)
    layer = MultiHeadAttention(WIDTH, HEADS, bias=False).double().requires_grad_(False)
    assert layer.in_proj_weight is not None
    layer.in_proj_weight.mul_(3)  # sharper weights, so that the heads differ visibly
    d = WIDTH // HEADS
    out, attended = layer.observe(x, readings=[regard.Rows(list(range(TOKENS)))])

    maps = layer.in_proj_weight.view(3, HEADS, d, WIDTH)  # W_q, W_k, W_v of every head
    outputs = [regard.attend(*(x @ maps[part, head].mT for part in range(3))) for head in range(HEADS)]
    by_hand = torch.cat(outputs, -1) @ layer.out_proj.weight.mT

    first = torch.randn(3, WIDTH, WIDTH, dtype=torch.float64) / WIDTH**0.5  # project once …
    twice = [regard.attend(*(x @ first[part] @ maps[part, head].mT for part in range(3))) for head in range(HEADS)]  # … and then per head
    once = [regard.attend(*(x @ (first[part] @ maps[part, head].mT) for part in range(3))) for head in range(HEADS)]

    one_by_one = torch.cat([layer(x[:, i : i + 1], x) for i in range(TOKENS)], 1)
    return Result(
        attended.readings["rows"][0].tolist(),
        float((by_hand - out).abs().max()),
        float((torch.cat(twice, -1) - torch.cat(once, -1)).abs().max()),
        float((one_by_one - out).abs().max()),
        3 * WIDTH * WIDTH + 3 * HEADS * WIDTH * d,
        3 * HEADS * WIDTH * d,
    )


def show(result: Result) -> Board:
    names = [f"x{i + 1}" for i in range(TOKENS)]
    grids = [Grid(f"head {head}", weights, names, names, numbers=False) for head, weights in enumerate(result.weights)]
    return Board(
        "Every head has its own weights; projecting twice equals projecting once.",
        [
            *grids,
            Note(
                f"heads one by one, concatenated, times W_o: equal to the layer within {result.by_hand:.0e}\n"
                f"X W W_i against X (W W_i): {result.collapsed:.0e}, {result.once_numbers:,} parameters, not {result.twice_numbers:,}\n"
                f"all queries at once against one at a time: equal within {result.queries_together:.0e}"
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
