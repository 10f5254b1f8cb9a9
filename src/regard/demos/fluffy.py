"""A head built by hand: in "a fluffy blue creature roamed the verdant forest" the nouns look back at their adjectives.

Nothing is trained and nothing is faked: words become vectors, a MultiHeadAttention layer whose W_q, W_k, W_v and W_o we set ourselves
attends over them under a causal mask, and its weights are what is drawn. A word's vector is its own direction beside a few waves that
tell its place. A noun's query asks "is there an adjective, a word or two before me?"; any other word looks for itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import regard
from regard.demos.drawing import Board, Grid, Note, Table, Words
from regard.demos.stage import play
from regard.layers.multihead import MultiHeadAttention

WORDS = ("a", "fluffy", "blue", "creature", "roamed", "the", "verdant", "forest")
NOUNS = ("creature", "forest")
ADJECTIVES = ("fluffy", "blue", "verdant")

ASK_KIND, ASK_SELF, ASK_PLACE = 4.5, 6.0, 5.0  # what each part of a perfect answer adds to a score
BACK = 1.5  # words before it that a query looks for
WAVES = tuple(2 * math.pi / length for length in (24.0, 16.0, 12.0, 9.0))


@dataclass(frozen=True)
class Result:
    words: list[str]
    weights: list[list[float]]  # (L, S), query rows that sum to 1
    scores: list[list[float]]
    change: list[list[float]]  # ΔE in word directions, (L, words)
    kernel: str
    row_error: float  # worst |row sum − 1|
    output_error: float  # worst |Σ p·v − the layer's own output|


def place(count: int) -> Tensor:
    """Where each word stands, as pairs (cos, sin) of a few waves of unit total length, (count, 2 · waves)."""
    angle = torch.arange(count, dtype=torch.float64).unsqueeze(-1) * torch.tensor(WAVES, dtype=torch.float64)
    return torch.cat([angle.cos(), angle.sin()], -1) / math.sqrt(len(WAVES))


def embed(words: Sequence[str] = WORDS) -> Tensor:
    """Vectors (L, words + 2 · waves): a word's own direction, then its place."""
    own = torch.eye(len(WORDS), dtype=torch.float64)[[WORDS.index(word) for word in words]]
    return torch.cat([own, place(len(words))], -1)


def build() -> MultiHeadAttention:
    """One head over [word | place], with three parts to its queries and keys: an adjective?, my own name?, the right place?"""
    n, waves = len(WORDS), len(WAVES)
    d_model, d_head = n + 2 * waves, 1 + n + 2 * waves
    names, places = slice(1, 1 + n), slice(1 + n, d_head)
    query, key, down = torch.zeros(3, d_head, d_model, dtype=torch.float64)
    up = torch.zeros(d_model, d_head, dtype=torch.float64)
    for i, word in enumerate(WORDS):
        if word in NOUNS:
            query[0, i] = ASK_KIND
        else:
            query[1 + i, i] = ASK_SELF
        if word in ADJECTIVES:
            key[0, i] = 1.0
            down[1 + i, i] = up[i, 1 + i] = 1.0  # only what adjectives say is passed on
    key[names, :n] = torch.eye(n)
    key[places, n:] = torch.eye(2 * waves)
    turn = torch.tensor(WAVES, dtype=torch.float64) * BACK  # a place seen from BACK words later is a rotation of it
    cos, sin = torch.diag(turn.cos()), torch.diag(turn.sin())
    query[places, n:] = ASK_PLACE * torch.cat([torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)])
    layer = MultiHeadAttention(d_model, heads=1, head_dim=d_head, bias=False).double()
    with torch.no_grad():
        assert layer.in_proj_weight is not None
        layer.in_proj_weight.copy_(torch.cat([query * math.sqrt(d_head), key, down]))  # √d undoes the scale, so scores read as written
        layer.out_proj.weight.copy_(up)
    return layer.requires_grad_(False)


def run() -> Result:
    layer, x = build(), embed().unsqueeze(0)  # (1, L, D)
    count = len(WORDS)
    out, seen = layer.observe(x, mask=regard.causal(), readings=[regard.Rows(list(range(count)))])
    weights = seen.readings["rows"][0, 0]  # (L, S)
    query, key, _ = torch.nn.functional.linear(x, layer.in_proj_weight).chunk(3, -1)  # type: ignore[arg-type]
    scores = regard.ScaledDot()(query, key)[0]
    by_hand = weights @ x[0] @ layer.value_map(0).mT
    assert seen.plan is not None
    return Result(
        list(WORDS),
        weights.tolist(),
        scores.tolist(),
        out[0, :, :count].tolist(),
        seen.plan.kernel,
        float((weights.sum(-1) - 1).abs().max()),
        float((by_hand - out[0]).abs().max()),
    )


def show(result: Result) -> Board:
    words = result.words
    nouns = [words.index(noun) for noun in NOUNS]
    hidden = [[j > i for j in range(len(words))] for i in range(len(words))]
    grid = Grid("query ↓  key →", result.weights, words, words, hidden, current=tuple(nouns))
    lines = [Words(words, i, [0.0 if j == i else w for j, w in enumerate(result.weights[i])]) for i in nouns]
    sums = [["score", *words]] + [[words[i], *(f"{s:.1f}" if j <= i else "−∞" for j, s in enumerate(result.scores[i]))] for i in nouns]
    changes = "\n".join(f"{words[i]} + ΔE  =  {words[i]} " + _terms(words, result.change[i]) for i in nouns)
    proof = f"rows sum to 1 within {result.row_error:.0e}, Σ p·v equals the layer's output within {result.output_error:.0e}"
    return Board(
        "Nouns look back at their adjectives.",
        [
            grid,
            *lines,
            Table("q·k/√d, before the softmax", sums),
            Note(changes),
            Note(f"proof  {proof}; kernel {result.kernel}, causal()"),
        ],
    )


def _terms(words: Sequence[str], change: Sequence[float]) -> str:
    found = sorted(((c, w) for c, w in zip(change, words, strict=True) if c >= 0.005), reverse=True)
    return " ".join(f"+ {c:.2f} {w}" for c, w in found)


def main(argv: Sequence[str] | None = None) -> None:
    play(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
