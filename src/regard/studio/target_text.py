"""The target a translator is inspected with: its own greedy translation, sentence by sentence.

The translators were trained on single sentences. Given a text of several at once they leave sentences out or repeat themselves up to the
length limit; in parts of the length they know they translate all of it, and the parts are decoded together.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..text.sentences import split_to_fit

if TYPE_CHECKING:
    from ..training.tasks.translation import Translations

PART_TOKENS = 20  # a longer sentence is translated clause by clause; most sentences of the training data are shorter
_CLAUSE_ENDS = {",": ".", ":": ".", "，": "。", "：": "。", "、": "。"}


def target_text(opened: Translations, text: str) -> str:
    """The translation of a text, each sentence and each clause of a long one on its own.

    >>> import regard
    >>> target_text(regard.open("zh-en-transformer"), "我爱中国。今天天气很好。")
    "I love China. It's very nice today."
    """
    parts = translated_parts(opened, text)
    length = 2 * max(len(row) for row in opened.encode(parts)) + 10  # a longer translation only repeats itself
    decoding = replace(opened.decoding, max_length=min(opened.decoding.max_length, length))
    translator = type(opened)(opened.model, opened.source, opened.target, decoding, limit=opened.limit)
    return " ".join(rows[0].text for rows in translator.candidates(parts, width=1))


def translated_parts(opened: Translations, text: str) -> list[str]:
    """The sentences of a text, and the clauses of a long one, each ending as a sentence does."""

    def fits(part: str) -> bool:
        return len(opened.source.encode(part)) <= PART_TOKENS or re.search(r"[,:]\s|[，：、].", part) is None

    parts = split_to_fit(text, fits)
    return [_ended(part) for part in parts[:-1]] + parts[-1:] or [text]


def _ended(part: str) -> str:
    return part[:-1] + _CLAUSE_ENDS.get(part[-1], part[-1])
