"""Attention over long inputs: masks are exact, some methods approximate full attention, and some define another model.

Windows, Longformer and block-sparse patterns are masks: exact attention over fewer pairs. Linformer (projected keys) and hashing
approximate full attention; their error is measured against it, on data that suits them and on noise that does not. Adaptive span is not
an approximation but another model, whose heads learn how far back they attend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import regard
from regard.demos.panels import Board, Lines, Note, Table
from regard.demos.runner import run_program
from regard.layers.adaptive_span import AdaptiveSpanAttention
from regard.layers.blocksparse import bigbird_layout
from regard.layers.hashing import LshAttention
from regard.layers.linformer import LinformerAttention
from regard.layers.longformer import LongformerAttention
from regard.layers.multihead import MultiHeadAttention

TOKENS, WIDTH, HEADS = 256, 32, 2
RANKS = (4, 16, 64)
ROUNDS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Result:
    exact: dict[str, float]  # greatest difference from dense attention under the same pattern
    pairs: dict[str, float]  # share of all query-key pairs that are visible
    ranks: list[int]
    linformer_smooth: list[float]  # relative error
    linformer_noise: list[float]
    rounds: list[int]
    hashing_clusters: list[float]
    hashing_noise: list[float]
    span_difference: float  # adaptive span from full attention: not an error, another model


def smooth(seed: int = 0) -> Tensor:
    """A sequence with few degrees of freedom: a sum of low frequencies."""
    t = torch.linspace(0, math.pi, TOKENS).unsqueeze(-1)
    return torch.cat([torch.cos(w * t) for w in range(4)], -1) @ torch.randn(1, 4, WIDTH, generator=torch.Generator().manual_seed(seed))


def clusters(seed: int = 0, count: int = 8) -> Tensor:
    """Tokens close to one of a few directions, in random order."""
    g = torch.Generator().manual_seed(seed)
    centres = 6 * torch.nn.functional.normalize(torch.randn(count, WIDTH, generator=g), dim=-1)
    return centres[torch.randint(count, (1, TOKENS), generator=g)] + 0.1 * torch.randn(1, TOKENS, WIDTH, generator=g)


def noise(seed: int = 0) -> Tensor:
    return torch.randn(1, TOKENS, WIDTH, generator=torch.Generator().manual_seed(seed))


def linformer(rank: int) -> LinformerAttention:
    torch.manual_seed(0)
    return LinformerAttention(WIDTH, HEADS, length=TOKENS, rank=rank)


def hashing(rounds: int) -> LshAttention:
    torch.manual_seed(0)
    layer = LshAttention(WIDTH, HEADS, chunk=32, rounds=rounds)
    with torch.no_grad():
        layer.query.weight.copy_(10 * torch.eye(WIDTH))  # keeps directions, and makes the softmax sharp
    return layer


@torch.no_grad()
def run() -> Result:
    torch.manual_seed(0)
    x = noise(1)
    full = MultiHeadAttention(WIDTH, HEADS)
    patterns = {
        "window(8, 8)": regard.window(8, 8),
        "Longformer: window(8, 8) | global_tokens([0])": LongformerAttention(WIDTH, HEADS, reach=8).pattern([0]),
        "block-sparse: BigBird layout, blocks of 16": regard.block_sparse(bigbird_layout(TOKENS // 16), 16),
    }
    q, k, v = torch.randn(3, TOKENS, WIDTH, dtype=torch.float64)
    exact, pairs = {}, {}
    for name, mask in patterns.items():
        visible = mask.dense(TOKENS, TOKENS)[0, 0]
        scores = (q @ k.mT / math.sqrt(WIDTH)).masked_fill(~visible, -math.inf)
        exact[name] = float((regard.attend(q, k, v, mask=mask) - torch.softmax(scores, -1) @ v).abs().max())
        pairs[name] = float(visible.float().mean())
    span = AdaptiveSpanAttention(WIDTH, HEADS, longest=TOKENS, ramp=16)
    span.attention.load_state_dict(full.state_dict())
    return Result(
        exact,
        pairs,
        list(RANKS),
        [linformer(rank).error(smooth()) for rank in RANKS],
        [linformer(rank).error(noise()) for rank in RANKS],
        list(ROUNDS),
        [hashing(rounds).error(clusters()) for rounds in ROUNDS],
        [hashing(rounds).error(noise()) for rounds in ROUNDS],
        float((span(x) - full(x)).norm() / full(x).norm()),
    )


def show(result: Result) -> Board:
    rows = [["exact, through masks", "visible pairs", "difference from dense"]]
    rows += [[name, f"{result.pairs[name]:.1%}", f"{result.exact[name]:.0e}"] for name in result.exact]
    linformers = {"smooth": result.linformer_smooth, "noise": result.linformer_noise}
    hashes = {"clusters": result.hashing_clusters, "noise": result.hashing_noise}
    return Board(
        "Attention over long inputs: exact, approximate, or another model.",
        [
            Table("", rows),
            Lines(f"Linformer: relative error, {TOKENS} tokens projected to `rank`", "rank", result.ranks, linformers),
            Lines("hashing: relative error, chunks of 32", "rounds", result.rounds, hashes),
            Note(
                f"adaptive span: differs by {result.span_difference:.2f} (relative) from full attention with the same weights, untrained;\n"
                "not an error, since it is another model, whose heads learn how far back they attend."
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
