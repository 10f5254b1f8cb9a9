"""Do a model's layers tell the meanings of a word apart? Cosines within a sense against cosines between senses, layer by layer.

Two vectors of a word in different sentences differ anyway: by what stands around it, and by its position. So a small cosine between two
senses says nothing by itself. The control is the same sense in other sentences, and only pairs of sentences with the word at the same
token position are compared.

Axes: n sentences, l layers, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from .hidden_states import hidden_states
from .views.token_display import display_tokens


@dataclass(frozen=True)
class SenseLayer:
    """Mean cosines after one layer: pairs of one sense, pairs of two senses, and how often shuffled senses give as large a gap."""

    layer: int
    within: float
    between: float
    chance: float

    @property
    def gap(self) -> float:
        """How much nearer vectors of one sense are than vectors of two; 0 where the layer does not separate them."""
        return self.within - self.between


@dataclass(frozen=True)
class SenseSeparation:
    """The comparison of a word's senses in a model: one entry per layer (0: the input of the first), and the numbers of pairs compared."""

    word: str
    within_pairs: int
    between_pairs: int
    layers: list[SenseLayer]

    def table(self) -> str:
        """Return the comparison as text, one line per layer."""
        lines = [f"{self.word}: {self.within_pairs} pairs within a sense, {self.between_pairs} between senses, at equal positions"]
        lines.append("layer  within  between     gap  chance")
        lines += [f"{row.layer:>5}  {row.within:6.3f}  {row.between:7.3f}  {row.gap:+6.3f}  {row.chance:6.3f}" for row in self.layers]
        return "\n".join(lines)


def word_vectors(opened: Any, word: str, sentence: str) -> tuple[Tensor, int]:
    """Return a word's vector after every layer, (l + 1, D), the mean of its tokens', and the position of its first token.

    opened: an `OpenedModel`; of a translator the encoder is read.
    """
    model: nn.Module = opened.model
    if hasattr(opened, "translate"):
        source, length = torch.tensor(opened.encode([sentence])), torch.tensor([len(opened.encode([sentence])[0])])
        encoder: Any = model
        tokens = [opened.source.piece(i) for i in source[0].tolist()]
        with torch.no_grad():
            states = hidden_states(model, lambda: encoder.encode(source, length))
    else:
        inputs = opened.inputs(sentence)
        own, of_source = opened.tokens(inputs)
        tokens = (of_source or own or [[]])[0]
        states = hidden_states(model, lambda: opened.run(inputs))
    _, positions = find_word(tokens, word, sentence)
    return torch.stack([state[0, positions].double().mean(0) for state in states]), positions[0]


def find_word(tokens: Sequence[str], word: str, sentence: str) -> tuple[list[str], list[int]]:
    """Return the tokens as readable text, and the positions of those that make up the word (its last occurrence)."""
    pieces = display_tokens(list(tokens))
    text, token_of = "", []  # token_of: the token of each character
    for number, piece in enumerate(pieces):
        characters = "" if piece.mark == "*" or (piece.part is not None and piece.part[0] > 1) else piece.text.lower()
        token_of += [number] * len(characters)
        text += characters
    begin = text.rfind(word.lower().replace(" ", ""))
    if begin < 0:
        raise ValueError(f"{word!r} was not found among the tokens of {sentence!r}")
    positions = sorted(set(token_of[begin : begin + len(word.replace(" ", ""))]))
    first, last = positions[0], positions[-1]
    while last + 1 < len(pieces) and pieces[last + 1].part is not None and (pieces[last + 1].part or (1, 1))[0] > 1:
        last += 1
    return [piece.text for piece in pieces], list(range(first, last + 1))


def sense_separation(
    opened: Any, word: str, sentences: Sequence[tuple[str, str]], *, tolerance: int = 0, shuffles: int = 500, seed: int = 0
) -> SenseSeparation:
    """Compare a word's vectors within and between senses.

    opened     a model from `regard.zoo.open`
    sentences  (sense, sentence), each sentence containing the word; two or more of each sense
    tolerance  the largest difference of the word's token positions in a compared pair

    `chance` is the share of random assignments of the sentences to the senses (of the same sizes) with a gap at least as large.
    """
    placed_vectors = [word_vectors(opened, word, sentence) for _, sentence in sentences]
    vectors = torch.stack([vectors for vectors, _ in placed_vectors], 1)
    senses = [sense for sense, _ in sentences]
    return compare_senses(word, senses, vectors, [place for _, place in placed_vectors], tolerance=tolerance, shuffles=shuffles, seed=seed)


def compare_senses(
    word: str, senses: Sequence[str], vectors: Tensor, places: Sequence[int], *, tolerance: int = 0, shuffles: int = 500, seed: int = 0
) -> SenseSeparation:
    """Compare vectors (l + 1, n, D) that are there already: the senses and token positions of n sentences; see `sense_separation`."""
    if len(set(senses)) < 2 or any(senses.count(sense) < 2 for sense in senses):
        raise ValueError(
            f"{word!r} has {len(set(senses))} sense(s) in these sentences; expected two or more, each with two sentences or more"
        )
    pairs = [(i, j) for i, j in combinations(range(len(senses)), 2) if abs(places[i] - places[j]) <= tolerance]
    x = nn.functional.normalize(vectors, dim=-1)
    cosines = x @ x.mT  # (l + 1, n, n)
    same = [senses[i] == senses[j] for i, j in pairs]
    if all(same) or not any(same):
        raise ValueError(
            f"no two sentences of {'one sense' if not any(same) else 'two senses'} have {word!r} at the same token position"
            f" (positions {list(places)}); write sentences with the word at the same place, or allow a larger tolerance"
        )
    rows, columns = torch.tensor(pairs).T
    chosen = cosines[:, rows, columns]  # (l + 1, pairs)
    within, between = _means(chosen, torch.tensor(same))
    at_least = torch.zeros(len(chosen))
    generator = torch.Generator().manual_seed(seed)
    for _ in range(shuffles):
        order = torch.randperm(len(senses), generator=generator).tolist()
        shuffled = torch.tensor([senses[order[i]] == senses[order[j]] for i, j in pairs])
        if shuffled.all() or not shuffled.any():
            at_least += 1
            continue
        a, b = _means(chosen, shuffled)
        at_least += (a - b >= within - between - 1e-12).float()
    layers = [SenseLayer(i, float(within[i]), float(between[i]), float((at_least[i] + 1) / (shuffles + 1))) for i in range(len(chosen))]
    return SenseSeparation(word, sum(same), len(same) - sum(same), layers)


def _means(cosines: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean cosines (l + 1,) of pairs of one sense and of pairs of two."""
    return cosines[:, same].mean(1), cosines[:, ~same].mean(1)
