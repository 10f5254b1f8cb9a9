"""How well a translator's attention aligns words, against links by hand.

The translator is given the reference translation word by word; its attention weights between tokens become weights between words, and each
target word is linked to source words.

Axes: T target tokens, S source tokens, l decoder layers, h heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from ....masks import padding
from ....models.block import Recorder, causal_mask
from ....models.transformer import Transformer
from ....readings import Rows
from ....text.links import Aligned, Link, error_rate
from ....text.vocabulary import BOS, EOS, SPACE, SPECIALS, Vocabulary
from ...results import ErrorRates
from .translations import Translations


@torch.no_grad()
def evaluate_alignment(opened: Translations, pairs: Sequence[Aligned]) -> ErrorRates:
    """Return the alignment error rate of every way to read the translator's attention.

    Bahdanau's model: "soft", all source words with at least half of the largest weight; "largest", the source word with the largest weight;
    "hard", the same while the model itself uses only that position. A Transformer: "soft" and "largest" of the mean of the heads of each
    decoder layer, and the best single head (chosen by these pairs, so its rate is optimistic).
    """
    opened.model.eval()
    if isinstance(opened.model, Transformer):
        return ErrorRates(_transformer(opened, pairs))
    if not hasattr(opened.model, "align"):
        raise ValueError(f"a {type(opened.model).__name__} has no attention to align words with; give a translator with attention")
    result = {}
    for hard in (False, True):
        with opened.model.hard_attention() if hard else nullcontext():  # type: ignore[operator]
            weights = [_stepped(opened, pair) for pair in pairs]
        words = [_word_weights(opened, pair, row) for pair, row in zip(pairs, weights, strict=True)]
        if hard:
            result["hard"] = error_rate([largest(row) for row in words], pairs)
        else:
            result["soft"] = error_rate([at_least_half(row) for row in words], pairs)
            result["largest"] = error_rate([largest(row) for row in words], pairs)
    return ErrorRates(result)


def _transformer(opened: Translations, pairs: Sequence[Aligned]) -> dict[str, float]:
    layers: dict[str, list[set[Link]]] = {}
    heads: dict[str, list[set[Link]]] = {}
    for pair in pairs:
        for layer, weights in enumerate(_all_heads(opened, pair)):  # (h, T, S)
            mean = _word_weights(opened, pair, weights.mean(0))
            layers.setdefault(f"layer {layer}, mean of heads, soft", []).append(at_least_half(mean))
            layers.setdefault(f"layer {layer}, mean of heads, largest", []).append(largest(mean))
            for head, row in enumerate(weights):
                heads.setdefault(f"layer {layer}, head {head}, soft", []).append(at_least_half(_word_weights(opened, pair, row)))
    rates, of_heads = ({name: error_rate(links, pairs) for name, links in alignments.items()} for alignments in (layers, heads))
    best = min(of_heads, key=of_heads.__getitem__)
    return {**rates, f"best head: {best}": of_heads[best]}


def _stepped(opened: Translations, pair: Aligned) -> Tensor:
    """Return the weights (T, S) of a recurrent model while it is given the target."""
    model: Any = opened.model
    source, target = _ids(opened, pair)
    state, rows = model.start(model.encode(source, torch.tensor([source.shape[1]]))), []
    for token in (BOS, *target[:-1]):
        step = model.step(state, torch.tensor([token]))
        state = step.state
        rows.append(step.alignment[0])
    return torch.stack(rows)


def _all_heads(opened: Translations, pair: Aligned) -> Tensor:
    """Return the cross-attention weights (l, h, T, S) of a Transformer while it is given the target."""
    model: Any = opened.model
    source, target = _ids(opened, pair)
    memory = model.encode(source, torch.tensor([source.shape[1]]))
    ids = torch.tensor([[BOS, *target[:-1]]])
    x = model._embed(ids, model.target_tokens, model.target_positions, 0)
    recorder = Recorder([Rows(list(range(ids.shape[1])))])
    for block in model.decoder:
        x = block(
            x,
            mask=causal_mask(ids.shape[1], model.config.window, cached=False),
            memory=memory.hidden,
            memory_mask=padding(memory.lengths),
            cross_recorder=recorder,
        )
    return torch.stack([attended.readings["rows"][0] for attended in recorder.attended]).float()


def _ids(opened: Translations, pair: Aligned) -> tuple[Tensor, list[int]]:
    chinese = any("\u3400" <= c <= "\u9fff" for word in pair.source for c in word)
    source = opened.encode(["".join(pair.source) if chinese else _joined(pair.source)])
    return torch.tensor(source), opened.target.encode(_joined(pair.target)) or [EOS]


def _joined(words: Sequence[str]) -> str:
    """Join words to a sentence as people write it: no space before punctuation, none around an apostrophe or hyphen."""
    text = ""
    for word in words:
        text += word if not text or word[0] in ".,!?;:'’-" or text[-1] in "'’-" else f" {word}"
    return text


def _word_weights(opened: Translations, pair: Aligned, weights: Tensor) -> Tensor:
    """Convert weights between tokens (T, S) to weights between the pair's words: summed over source tokens, averaged over target tokens."""
    source, target = _ids(opened, pair)
    to_source = _cover(opened.source, source[0].tolist(), pair.source)  # (S, source words)
    to_target = _cover(opened.target, target, pair.target)  # (T, target words)
    mean = to_target / to_target.sum(0).clamp(min=1e-9)
    return mean.T @ weights[: len(target)] @ to_source


def _cover(vocabulary: Vocabulary, ids: Sequence[int], words: Sequence[str]) -> Tensor:
    """Return which part of each token belongs to each word, (tokens, words); the rows of tokens without text are 0.

    Tokens and words are read in parallel, character by character; an unknown token takes the place of one word.
    """
    owner = [number for number, word in enumerate(words) for _ in word]
    cover, place = torch.zeros(len(ids), len(words)), 0
    for row, id in zip(cover, ids, strict=True):
        if id < len(SPECIALS):
            length = len(words[owner[place]]) if vocabulary.piece(id) == "<unk>" and place < len(owner) else 0
        else:
            length = len(vocabulary.piece(id).replace(SPACE, ""))
        covered = owner[place : place + length]
        place += length
        for number in covered:
            row[number] += 1.0 / len(covered)
    return cover


def largest(weights: Tensor) -> set[Link]:
    """Return a link from each target word to the source word with the largest weight; weights (target words, source words).

    >>> sorted(largest(torch.tensor([[0.9, 0.1], [0.4, 0.6]])))
    [(0, 0), (1, 1)]
    """
    return {(int(row.argmax()), j) for j, row in enumerate(weights)}


def at_least_half(weights: Tensor) -> set[Link]:
    """Return links to all source words whose weight is at least half of the target word's largest."""
    return {link for j, row in enumerate(weights) for link in _half(row, j)}


def _half(row: Tensor, j: int) -> Iterator[Link]:
    for i in (row >= row.max() / 2).nonzero()[:, 0].tolist():
        yield int(i), j
