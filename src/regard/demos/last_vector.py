"""The last vector alone decides: after the last layer, the prediction of the next token reads one vector and no other.

A trained language model predicts after every prefix of a text in one pass. Then the vectors of all earlier tokens are replaced by random
ones of the same size: after the last layer the prediction stays the same bit for bit; before a layer it changes, because there attention
still carries what the earlier vectors hold to the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard import zoo
from regard.demos.panels import Board, Lines, Note, Table
from regard.demos.runner import run_program
from regard.models.block import causal_mask

TEXT = "ROMEO:\nWhat, lady, is the ma"
TOP = 3


@dataclass(frozen=True)
class Result:
    text: str
    candidates: list[list[tuple[str, float]]]  # after every prefix, from one pass
    one_pass_error: float  # greatest difference of a probability from a pass over that prefix alone
    layers: list[int]  # after how many layers the earlier vectors are replaced
    moved: list[float]  # total variation of the last prediction, from 0 (the same) to 1
    unchanged: bool  # whether the logits are bit for bit the same when the final vectors are replaced


@torch.no_grad()
def run() -> Result:
    opened = zoo.open("shakespeare", task="lm")
    model, ids = opened.model, opened.inputs(TEXT)
    p = model(ids)[0].softmax(-1)  # (L, V)
    alone = torch.stack([model(ids[:, : i + 1])[0, -1].softmax(-1) for i in range(ids.shape[1])])
    candidates = [[(opened.vocabulary.piece(int(i)), float(row[i])) for i in row.argsort(descending=True)[:TOP]] for row in p]
    layers = list(range(model.config.layers + 1))
    replaced = [_logits(model, ids, depth) for depth in layers]
    moved = [0.5 * float((logits.softmax(-1) - p[-1]).abs().sum()) for logits in replaced]
    return Result(TEXT, candidates, float((p - alone).abs().max()), layers, moved, torch.equal(replaced[-1], _logits(model, ids, None)))


def _logits(model: Any, ids: Tensor, depth: int | None) -> Tensor:
    """Return the last logits (V,) when all vectors but the last are replaced after `depth` layers; None: nothing is replaced."""
    x = model.positions(model.tokens(ids), 0)
    for layer, block in enumerate([*model.blocks, None]):
        if layer == depth:
            g = torch.Generator().manual_seed(0)
            noise = torch.randn(x[:, :-1].shape, generator=g) * x[:, :-1].std()
            x = torch.cat([noise, x[:, -1:]], 1)
        if block is not None:
            x = block(x, mask=causal_mask(ids.shape[1], model.config.window, cached=False))
    logits: Tensor = model.unembed(model.norm(x))[0, -1]
    return logits


def show(result: Result) -> Board:
    tokens = [token.replace("\n", "⏎") for token in result.text]
    names = [["  ".join(f"{_visible(name)} {p:.2f}" for name, p in row)] for row in result.candidates]
    rows = [["after", "next"], *([token if token != " " else "␣", row[0]] for token, row in zip(tokens, names, strict=True))]
    same = "the same bit for bit" if result.unchanged else "DIFFERENT"
    return Board(
        "After the last layer, the last vector alone decides the next token.",
        [
            Table("one pass predicts after every prefix", rows),
            Note(f"greatest difference from a pass over each prefix alone: {result.one_pass_error:.1e}"),
            Lines(
                "change of the last prediction when all earlier vectors are replaced",
                "after how many layers",
                [float(n) for n in result.layers],
                {"total variation": result.moved},
            ),
            Note(f"final vectors replaced: the last logits are {same}"),
        ],
    )


def _visible(token: str) -> str:
    return token.replace("\n", "⏎").replace("▁", "␣")


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
