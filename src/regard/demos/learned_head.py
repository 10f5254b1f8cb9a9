"""The head of `fluffy`, learnt: nobody tells it where to look, only which adjectives describe each noun.

Sentences of a small grammar ("a small dog crossed the old quiet bridge") go through learnt word vectors, learnt places and one causal head;
from E + ΔE at a noun a linear map must name the adjectives that belong to it. The way to do that is to look back at them, and that is what
the head comes to do. Neither "fluffy creature", "blue creature" nor "verdant forest" is in what it was trained on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import regard
from regard.demos.drawing import Board, Grid, Lines, Note, Words
from regard.demos.fluffy import NOUNS as SHOWN_NOUNS
from regard.demos.fluffy import WORDS as SHOWN
from regard.demos.stage import play
from regard.layers.multihead import MultiHeadAttention

ADJECTIVES = ("fluffy", "blue", "verdant", "old", "small", "quiet", "bright", "lazy")
NOUNS = ("creature", "forest", "dog", "bridge", "river", "garden", "child", "bird")
VOCABULARY = ("", "a", "the", "roamed", "crossed", "left", "saw", *ADJECTIVES, *NOUNS)
UNSEEN = {("creature", "fluffy"), ("creature", "blue"), ("forest", "verdant")}  # a noun and an adjective that never meet in training
LONGEST, WIDTH = 9, 32


@dataclass(frozen=True)
class Result:
    words: list[str]
    weights: list[list[float]]  # (L, S), query rows that sum to 1
    named: dict[str, list[str]]  # the adjectives it gives each noun of the sentence
    steps: list[int]
    share: list[float]  # of a noun's weight that lies on its own adjectives, on fresh sentences, while training
    share_before: float
    right: float  # of nouns on fresh sentences whose adjectives are all named, and no other
    row_error: float  # worst |row sum − 1|


class Grammar:
    """Sentences: word numbers (B, L), each noun's adjectives (B, L, adjectives), which words are nouns, and where its adjectives stand."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def phrase(self) -> list[str]:
        noun = self.chance.choice(NOUNS)
        allowed = [adjective for adjective in ADJECTIVES if (noun, adjective) not in UNSEEN]
        return [self.chance.choice(("a", "the")), *self.chance.sample(allowed, self.chance.choice((0, 1, 1, 2, 2))), noun]

    def batch(self, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        verbs = ("roamed", "crossed", "left", "saw")
        return encode([[*self.phrase(), self.chance.choice(verbs), *self.phrase()] for _ in range(size)])


def encode(sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    size = len(sentences)
    ids = torch.zeros(size, LONGEST, dtype=torch.long)
    described = torch.zeros(size, LONGEST, len(ADJECTIVES))
    nouns = torch.zeros(size, LONGEST, dtype=torch.bool)
    owns = torch.zeros(size, LONGEST, LONGEST)
    for i, words in enumerate(sentences):
        ids[i, : len(words)] = torch.tensor([VOCABULARY.index(word) for word in words])
        since: list[int] = []  # where the adjectives since the last noun or verb stand
        for j, word in enumerate(words):
            if word in ADJECTIVES:
                since.append(j)
                continue
            if word in NOUNS:
                nouns[i, j] = True
                for at in since:
                    owns[i, j, at] = 1.0
                    described[i, j, ADJECTIVES.index(words[at])] = 1.0
            since = []
    return ids, described, nouns, owns


class Describer(nn.Module):
    """Words and places → one causal head, added to them → the adjectives of each word, as logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(len(VOCABULARY), WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.head = MultiHeadAttention(WIDTH, heads=1)
        self.name = nn.Linear(WIDTH, len(ADJECTIVES))

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """ids (B, L) → logits (B, L, adjectives) and the head's weights (B, L, L)."""
        count = ids.shape[1]
        x = self.words(ids) + self.places.weight[:count]
        change, seen = self.head.observe(x, mask=regard.causal(), readings=[regard.Rows(list(range(count)))])
        return self.name(x + change), seen.readings["rows"][:, 0]


@torch.no_grad()
def measure(model: Describer, size: int = 500) -> tuple[float, float]:
    """On fresh sentences: the share of a noun's weight that lies on its adjectives, and the share of nouns described rightly."""
    ids, described, nouns, owns = Grammar(seed=7).batch(size)
    logits, weights = model(ids)
    with_some = nouns & (owns.sum(-1) > 0)
    share = float((weights * owns).sum(-1)[with_some].mean())
    right = float(((logits > 0) == (described > 0.5)).all(-1)[nouns].float().mean())
    return share, right


def run(steps: int = 240) -> Result:
    torch.manual_seed(0)
    model, grammar = Describer(), Grammar(seed=1)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    before, _ = measure(model)
    marks, share = [0], [before]
    for step in range(1, steps + 1):
        ids, described, nouns, _ = grammar.batch(128)
        logits, _ = model(ids)
        loss = nn.functional.binary_cross_entropy_with_logits(logits[nouns], described[nouns])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % (steps // 8) == 0:
            marks.append(step)
            share.append(measure(model)[0])
    words = list(SHOWN)
    with torch.no_grad():
        logits, weights = model(encode([words])[0][:, : len(words)])
    named = {noun: [ADJECTIVES[i] for i in (logits[0, words.index(noun)] > 0).nonzero()[:, 0].tolist()] for noun in SHOWN_NOUNS}
    error = float((weights[0].sum(-1) - 1).abs().max())
    return Result(words, weights[0].tolist(), named, marks, share, before, measure(model)[1], error)


def show(result: Result) -> Board:
    words = result.words
    nouns = [words.index(noun) for noun in SHOWN_NOUNS]
    hidden = [[j > i for j in range(len(words))] for i in range(len(words))]
    told = "; ".join(f"{noun}: {', '.join(found) or 'none'}" for noun, found in result.named.items())
    return Board(
        "Nouns learn to look back at their adjectives.",
        [
            Grid("query ↓  key →", result.weights, words, words, hidden, current=tuple(nouns)),
            *(Words(words, i, [0.0 if j == i else w for j, w in enumerate(result.weights[i])]) for i in nouns),
            Lines("a noun's weight on its own adjectives, fresh sentences", "step", result.steps, {"share": result.share}),
            Note(f"named  {told}"),
            Note(
                f"{result.share_before:.0%} of a noun's weight lay on its adjectives before training, {result.share[-1]:.0%} after;\n"
                f"{result.right:.1%} of fresh nouns are described without a mistake.\n"
                "Only the nouns were told anything; the other rows are whatever did not matter."
            ),
        ],
    )


def main(argv: Sequence[str] | None = None) -> None:
    play(run, show, __doc__, argv)


if __name__ == "__main__":
    main()
