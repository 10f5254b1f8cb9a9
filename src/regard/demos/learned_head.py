"""The head of `fluffy`, learned: the training labels say only which adjectives describe each noun, never what to attend to.

Sentences of a small grammar ("a small dog crossed the old quiet bridge") go through learned word and position embeddings and one causal
head; from E + ΔE at a noun, a linear layer predicts the adjectives that belong to it. To solve this the head learns to attend to them.
None of "fluffy creature", "blue creature" and "verdant forest" occurs in the training sentences.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import regard
from regard.demos.fluffy import NOUNS as SHOWN_NOUNS
from regard.demos.fluffy import WORDS as SHOWN
from regard.demos.panels import Board, Grid, Lines, Note, Words
from regard.demos.runner import run_program
from regard.layers.multihead import MultiHeadAttention

ADJECTIVES = ("fluffy", "blue", "verdant", "old", "small", "quiet", "bright", "lazy")
NOUNS = ("creature", "forest", "dog", "bridge", "river", "garden", "child", "bird")
VOCABULARY = ("", "a", "the", "roamed", "crossed", "left", "saw", *ADJECTIVES, *NOUNS)
HELD_OUT = {
    ("creature", "fluffy"),
    ("creature", "blue"),
    ("forest", "verdant"),
}  # pairs of a noun and an adjective that never occur in training
LONGEST, WIDTH = 9, 32


@dataclass(frozen=True)
class Result:
    words: list[str]
    weights: list[list[float]]  # (L, S), query rows that sum to 1
    named: dict[str, list[str]]  # the adjectives predicted for each noun of the sentence
    steps: list[int]
    share: list[float]  # of a noun's weight that is on its own adjectives, on new sentences, during training
    share_before: float
    right: float  # of nouns in new sentences whose adjectives are predicted exactly
    row_error: float  # worst |row sum − 1|


class Grammar:
    """Random sentences: ids (B, L), adjectives of each noun (B, L, adjectives), which words are nouns (B, L), and the positions of each
    noun's adjectives (B, L, L)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def phrase(self) -> list[str]:
        noun = self.random.choice(NOUNS)
        allowed = [adjective for adjective in ADJECTIVES if (noun, adjective) not in HELD_OUT]
        return [self.random.choice(("a", "the")), *self.random.sample(allowed, self.random.choice((0, 1, 1, 2, 2))), noun]

    def batch(self, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        verbs = ("roamed", "crossed", "left", "saw")
        return encode([[*self.phrase(), self.random.choice(verbs), *self.phrase()] for _ in range(size)])


def encode(sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    size = len(sentences)
    ids = torch.zeros(size, LONGEST, dtype=torch.long)
    described = torch.zeros(size, LONGEST, len(ADJECTIVES))
    nouns = torch.zeros(size, LONGEST, dtype=torch.bool)
    owns = torch.zeros(size, LONGEST, LONGEST)
    for i, words in enumerate(sentences):
        ids[i, : len(words)] = torch.tensor([VOCABULARY.index(word) for word in words])
        pending: list[int] = []  # positions of the adjectives since the last noun, verb or article
        for j, word in enumerate(words):
            if word in ADJECTIVES:
                pending.append(j)
                continue
            if word in NOUNS:
                nouns[i, j] = True
                for position in pending:
                    owns[i, j, position] = 1.0
                    described[i, j, ADJECTIVES.index(words[position])] = 1.0
            pending = []
    return ids, described, nouns, owns


class Describer(nn.Module):
    """Word and position embeddings → one causal head with a residual connection → a logit for every adjective at every word."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(len(VOCABULARY), WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.head = MultiHeadAttention(WIDTH, heads=1)
        self.output = nn.Linear(WIDTH, len(ADJECTIVES))

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """ids (B, L) → logits (B, L, adjectives) and the head's weights (B, L, L)."""
        count = ids.shape[1]
        x = self.words(ids) + self.positions.weight[:count]
        change, attended = self.head.observe(x, mask=regard.causal(), readings=[regard.Rows(list(range(count)))])
        return self.output(x + change), attended.readings["rows"][:, 0]


@torch.no_grad()
def measure(model: Describer, size: int = 500) -> tuple[float, float]:
    """On new sentences: the share of a noun's weight that is on its adjectives, and the share of nouns described correctly."""
    ids, described, nouns, owns = Grammar(seed=7).batch(size)
    logits, weights = model(ids)
    described_nouns = nouns & (owns.sum(-1) > 0)
    share = float((weights * owns).sum(-1)[described_nouns].mean())
    right = float(((logits > 0) == (described > 0.5)).all(-1)[nouns].float().mean())
    return share, right


def run(steps: int = 240) -> Result:
    torch.manual_seed(0)
    model, grammar = Describer(), Grammar(seed=1)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    before, _ = measure(model)
    measured_steps, share = [0], [before]
    for step in range(1, steps + 1):
        ids, described, nouns, _ = grammar.batch(128)
        logits, _ = model(ids)
        loss = nn.functional.binary_cross_entropy_with_logits(logits[nouns], described[nouns])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % (steps // 8) == 0:
            measured_steps.append(step)
            share.append(measure(model)[0])
    words = list(SHOWN)
    with torch.no_grad():
        logits, weights = model(encode([words])[0][:, : len(words)])
    named = {noun: [ADJECTIVES[i] for i in (logits[0, words.index(noun)] > 0).nonzero()[:, 0].tolist()] for noun in SHOWN_NOUNS}
    error = float((weights[0].sum(-1) - 1).abs().max())
    return Result(words, weights[0].tolist(), named, measured_steps, share, before, measure(model)[1], error)


def show(result: Result) -> Board:
    words = result.words
    nouns = [words.index(noun) for noun in SHOWN_NOUNS]
    hidden = [[j > i for j in range(len(words))] for i in range(len(words))]
    predicted = "; ".join(f"{noun}: {', '.join(adjectives) or 'none'}" for noun, adjectives in result.named.items())
    return Board(
        "Nouns learn to attend to their adjectives.",
        [
            Grid("query ↓  key →", result.weights, words, words, hidden, current=tuple(nouns)),
            *(Words(words, i, [0.0 if j == i else w for j, w in enumerate(result.weights[i])]) for i in nouns),
            Lines("a noun's weight on its own adjectives, new sentences", "step", result.steps, {"share": result.share}),
            Note(f"predicted  {predicted}"),
            Note(
                f"{result.share_before:.0%} of a noun's weight was on its adjectives before training, {result.share[-1]:.0%} after;\n"
                f"{result.right:.1%} of the nouns in new sentences are described without error.\n"
                "The loss covers the nouns only; the other rows were not trained for anything."
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    run_program(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
