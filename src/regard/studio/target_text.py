"""The target a translator is inspected with: its own greedy translation, sentence by sentence.

The translators were trained on single sentences. Given a text of several at once they leave sentences out or repeat themselves up to the
length limit; in parts of the length they know they translate all of it, and the parts are decoded together.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import torch

from ..sight.effect import evaluation_mode
from ..text.batches import padded
from ..text.sentences import split_to_fit
from ..text.vocabulary import BOS, EOS, MASK, PAD, UNK

if TYPE_CHECKING:
    from ..models.translator import Translator
    from ..training.tasks.translation import Translations

PART_TOKENS = 20  # a longer sentence is translated clause by clause; most sentences of the training data are shorter
_CLAUSE_ENDS = {",": ".", ":": ".", "，": "。", "：": "。", "、": "。"}


def target_text(opened: Translations, text: str) -> str:
    """The translation of a text, each sentence and each clause of a long one on its own.

    >>> import regard
    >>> target_text(regard.open("zh-en-transformer"), "我爱中国。今天天气很好。")
    "I love China. It's very nice today."
    """
    parts = opened.encode(translated_parts(opened, text))
    length = 2 * max(len(row) for row in parts) + 10  # a longer translation only repeats itself
    return " ".join(opened.target.decode(row) for row in _greedy(opened, parts, min(opened.decoding.max_length, length)))


def _greedy(opened: Translations, parts: list[list[int]], max_length: int) -> list[list[int]]:
    """The most likely next token again and again, for all parts at once; a part that has ended takes no more time."""
    model = cast("Translator", opened.model)
    source, lengths = (tensor.to(opened.device) for tensor in padded(parts))
    written: list[list[int]] = [[] for _ in parts]
    with torch.no_grad(), evaluation_mode(opened.model):
        state, token = model.start(model.encode(source, lengths)), source.new_full((len(parts),), BOS)
        alive = list(range(len(parts)))
        for _ in range(max_length):
            step = model.step(state, token, align=False)
            state, token = step.state, step.logits.index_fill(-1, torch.tensor([PAD, BOS, UNK, MASK]), -torch.inf).argmax(-1)
            kept = [i for i, id in enumerate(token.tolist()) if id != EOS]
            if not kept:
                break
            if len(kept) < len(alive):
                index = torch.tensor(kept)
                alive, state, token = [alive[i] for i in kept], state.select(index), token[index]
            for row, id in zip(alive, token.tolist(), strict=True):
                written[row].append(id)
    return written


def translated_parts(opened: Translations, text: str) -> list[str]:
    """The sentences of a text, and the clauses of a long one, each ending as a sentence does."""

    def fits(part: str) -> bool:
        return len(opened.source.encode(part)) <= PART_TOKENS or re.search(r"[,:]\s|[，：、].", part) is None

    parts = split_to_fit(text, fits)
    return [_ended(part) for part in parts[:-1]] + parts[-1:] or [text]


def _ended(part: str) -> str:
    return part[:-1] + _CLAUSE_ENDS.get(part[-1], part[-1])
