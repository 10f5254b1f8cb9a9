"""The value map of a head is the product of two low-rank factors: Value↓ projects the attended word down, Value↑ projects back up.

The output is added to the embedding: E + ΔE. W_o holds the Value↑ of all heads side by side, so the output of each head can be computed
separately: ΔE = Σ_heads Σ_words weight · Value↑ Value↓ E, which is compared with the output of the layer. The factors keep a head small:
as a full matrix, a value map of GPT-3 would have 150,994,944 parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import regard
from regard.demos.panels import Bars, Board, Note, Table
from regard.demos.runner import run_program
from regard.layers.multihead import MultiHeadAttention

WIDTH, HEADS, TOKENS = 32, 4, 7


@dataclass(frozen=True)
class Result:
    ranks: list[int]  # of each head's value map (WIDTH, WIDTH)
    share: list[float]  # ‖ΔE of a head‖ / ‖E‖, mean over words
    sum_error: float  # the sum of the heads' ΔE against the layer's output
    residual_error: float  # E + ΔE against x + layer(x)
    gpt3_full: int
    gpt3_factors: int


def run() -> Result:
    torch.manual_seed(0)
    x = torch.randn(1, TOKENS, WIDTH, dtype=torch.float64)
    layer = MultiHeadAttention(WIDTH, HEADS, bias=False).double().requires_grad_(False)
    out, attended = layer.observe(x, mask=regard.causal(), readings=[regard.Rows(list(range(TOKENS)))])
    weights = attended.readings["rows"][0]  # (h, L, S)
    change = torch.stack([weights[head] @ x[0] @ layer.value_map(head).mT for head in range(HEADS)])  # (h, L, D)
    d_model, d_head = 12_288, 128
    return Result(
        [int(torch.linalg.matrix_rank(layer.value_map(head))) for head in range(HEADS)],
        (change.norm(dim=-1) / x[0].norm(dim=-1)).mean(-1).tolist(),
        float((change.sum(0) - out[0]).abs().max()),
        float((x[0] + change.sum(0) - (x + layer(x, mask=regard.causal()))[0]).abs().max()),
        d_model * d_model,
        2 * d_model * d_head,
    )


def show(result: Result) -> Board:
    rows = [
        ["GPT-3, one head", "parameters"],
        ["full value map, 12,288 × 12,288", f"{result.gpt3_full:,}"],
        ["Value↓ 128 × 12,288 and Value↑ 12,288 × 128", f"{result.gpt3_factors:,}"],
    ]
    names = [f"head {i}" for i in range(len(result.ranks))]
    return Board(
        "A head computes ΔE = Σ weight · Value↑ Value↓ E, and the residual stream continues with E + ΔE.",
        [
            Bars("‖ΔE‖ / ‖E‖ of each head, mean over words", dict(zip(names, result.share, strict=True))),
            Note(
                f"rank of Value↑ Value↓ ({WIDTH} × {WIDTH}): {', '.join(map(str, result.ranks))}, the width of a head\n"
                f"Σ of the heads' ΔE against the layer's output: {result.sum_error:.0e}\n"
                f"E + ΔE against x + layer(x): {result.residual_error:.0e}"
            ),
            Table("", rows),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
