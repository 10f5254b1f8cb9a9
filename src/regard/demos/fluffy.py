"""A head built by hand: in "a fluffy blue creature roamed the verdant forest" the nouns attend to their adjectives.

Nothing is trained: W_q, W_k, W_v and W_o of a MultiHeadAttention layer are set by hand, the layer runs on word vectors under a causal
mask, and its weights are drawn. A word's vector is a one-hot vector of the word, followed by sines and cosines of its position. The query
of a noun matches adjectives one or two words before it; the query of any other word matches the word itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import regard
from regard.demos.panels import Board, Grid, Note, Table, Words
from regard.demos.runner import run_program
from regard.layers.multihead import MultiHeadAttention

WORDS = ("a", "fluffy", "blue", "creature", "roamed", "the", "verdant", "forest")
NOUNS = ("creature", "forest")
ADJECTIVES = ("fluffy", "blue", "verdant")

KIND_SCORE, SELF_SCORE, POSITION_SCORE = 4.5, 6.0, 5.0  # what each part of a perfect match adds to a score
DISTANCE = 1.5  # words between a noun and the position its query matches best
FREQUENCIES = tuple(2 * math.pi / length for length in (24.0, 16.0, 12.0, 9.0))


@dataclass(frozen=True)
class Result:
    words: list[str]
    weights: list[list[float]]  # (L, S), query rows that sum to 1
    scores: list[list[float]]
    change: list[list[float]]  # ΔE in word directions, (L, words)
    kernel: str
    row_error: float  # worst |row sum − 1|
    output_error: float  # worst |Σ p·v − the layer's own output|


def positions(count: int) -> Tensor:
    """Position vectors of unit length: the cosines, then the sines of a few frequencies, (count, 2 · frequencies)."""
    angle = torch.arange(count, dtype=torch.float64).unsqueeze(-1) * torch.tensor(FREQUENCIES, dtype=torch.float64)
    return torch.cat([angle.cos(), angle.sin()], -1) / math.sqrt(len(FREQUENCIES))


def embed(words: Sequence[str] = WORDS) -> Tensor:
    """Word vectors (L, words + 2 · frequencies): one-hot of the word, then its position."""
    one_hot = torch.eye(len(WORDS), dtype=torch.float64)[[WORDS.index(word) for word in words]]
    return torch.cat([one_hot, positions(len(words))], -1)


def build() -> MultiHeadAttention:
    """One head over [word | position] whose queries and keys have three parts: adjective or not, same word or not, position."""
    n, frequencies = len(WORDS), len(FREQUENCIES)
    d_model, d_head = n + 2 * frequencies, 1 + n + 2 * frequencies
    word_part, position_part = slice(1, 1 + n), slice(1 + n, d_head)
    query, key, down = torch.zeros(3, d_head, d_model, dtype=torch.float64)
    up = torch.zeros(d_model, d_head, dtype=torch.float64)
    for i, word in enumerate(WORDS):
        if word in NOUNS:
            query[0, i] = KIND_SCORE
        else:
            query[1 + i, i] = SELF_SCORE
        if word in ADJECTIVES:
            key[0, i] = 1.0
            down[1 + i, i] = up[i, 1 + i] = 1.0  # only adjectives have a value other than 0
    key[word_part, :n] = torch.eye(n)
    key[position_part, n:] = torch.eye(2 * frequencies)
    angle = torch.tensor(FREQUENCIES, dtype=torch.float64) * DISTANCE  # shifting a position by DISTANCE words is a rotation of its vector
    cos, sin = torch.diag(angle.cos()), torch.diag(angle.sin())
    query[position_part, n:] = POSITION_SCORE * torch.cat([torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)])
    layer = MultiHeadAttention(d_model, heads=1, head_dim=d_head, bias=False).double()
    with torch.no_grad():
        assert layer.in_proj_weight is not None
        layer.in_proj_weight.copy_(torch.cat([query * math.sqrt(d_head), key, down]))  # × √d undoes the scale of the score
        layer.out_proj.weight.copy_(up)
    return layer.requires_grad_(False)


def run() -> Result:
    layer, x = build(), embed().unsqueeze(0)  # (1, L, D)
    count = len(WORDS)
    out, attended = layer.observe(x, mask=regard.causal(), readings=[regard.Rows(list(range(count)))])
    weights = attended.readings["rows"][0, 0]  # (L, S)
    query, key, _ = torch.nn.functional.linear(x, layer.in_proj_weight).chunk(3, -1)  # type: ignore[arg-type]
    scores = regard.ScaledDot()(query, key)[0]
    by_hand = weights @ x[0] @ layer.value_map(0).mT
    assert attended.plan is not None
    return Result(
        list(WORDS),
        weights.tolist(),
        scores.tolist(),
        out[0, :, :count].tolist(),
        attended.plan.kernel,
        float((weights.sum(-1) - 1).abs().max()),
        float((by_hand - out[0]).abs().max()),
    )


def show(result: Result) -> Board:
    words = result.words
    nouns = [words.index(noun) for noun in NOUNS]
    hidden = [[j > i for j in range(len(words))] for i in range(len(words))]
    grid = Grid("query ↓  key →", result.weights, words, words, hidden, current=tuple(nouns))
    lines = [Words(words, i, [0.0 if j == i else w for j, w in enumerate(result.weights[i])]) for i in nouns]
    scores = [["score", *words]] + [[words[i], *(f"{s:.1f}" if j <= i else "−∞" for j, s in enumerate(result.scores[i]))] for i in nouns]
    changes = "\n".join(f"{words[i]} + ΔE  =  {words[i]} " + _terms(words, result.change[i]) for i in nouns)
    proof = f"rows sum to 1 within {result.row_error:.0e}, Σ p·v equals the layer's output within {result.output_error:.0e}"
    return Board(
        "Nouns attend to the adjectives before them.",
        [
            grid,
            *lines,
            Table("q·k/√d, before the softmax", scores),
            Note(changes),
            Note(f"proof  {proof}; kernel {result.kernel}, causal()"),
        ],
    )


def _terms(words: Sequence[str], change: Sequence[float]) -> str:
    terms = sorted(((c, w) for c, w in zip(change, words, strict=True) if c >= 0.005), reverse=True)
    return " ".join(f"+ {c:.2f} {w}" for c, w in terms)


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
