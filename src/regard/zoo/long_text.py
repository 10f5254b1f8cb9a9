"""Texts of any length through a translator that was trained on sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..text.sentences import split_to_fit
from ..text.vocabulary import UNK
from ..training.tasks.translation import Translated, Translations


def translate_long(opened: Translations, texts: Sequence[str], **options: Any) -> list[list[Translated]]:
    """`opened.translate`, with each text that is longer than the model was trained on cut into sentences and put together again.

    What was put together has no alignment, and scores that are the sums over its parts.
    """
    parts = [[text] if opened.fits(text) else split_to_fit(text, opened.fits) for text in texts]
    found = iter(opened.translate([part for row in parts for part in row], **options))
    return [_joined([next(found) for _ in row]) for row in parts]


def _joined(parts: list[list[Translated]]) -> list[Translated]:
    """The best of every part as one translation, then the second best of each, and so on."""
    if len(parts) == 1:
        return parts[0]
    return [
        Translated(
            " ".join(part.text for part in row),
            sum(part.score for part in row),
            sum(part.log_prob for part in row),
            [word for part in row for word in part.source_words],
            [word for part in row for word in part.target_words],
            None,
        )
        for row in zip(*parts, strict=False)
    ]


def unknown_characters(opened: Translations, text: str) -> tuple[list[str], float]:
    """The characters of a text that the model never saw, and how much of the text they are."""
    seen = [c for c in text if not c.isspace()]
    strange = {c for c in set(seen) if UNK in opened.source.encode(c)}
    return sorted(strange), sum(c in strange for c in seen) / max(len(seen), 1)
