"""Which translator a text needs, and whether a text is in the language that a model reads."""

from __future__ import annotations

from ..text.language import NAMES, detect
from ..text.script import script_of

# The source languages of the shipped translators, by the script of most letters of a text.
_LANGUAGES = {"CJK": "zh", "LATIN": "de"}


def language_of(text: str) -> str | None:
    """Return "zh" for Chinese characters, "de" for Latin letters, None without letters; raise ValueError for any other script.

    German is the only shipped source language in Latin letters; `mismatch` tells when a text is not German.
    """
    script = script_of(text)
    if script is None:
        return None
    if script not in _LANGUAGES:
        raise ValueError(
            f"the text is in {script.capitalize()} letters; the shipped models translate from Chinese and German (--from zh, --from de), "
            "or give a model of your own with --model"
        )
    return _LANGUAGES[script]


def mismatch(text: str, language: str) -> str | None:
    """Return a sentence that says that a text is not in a language, or perhaps not; None if it seems to be, or cannot be told.

    >>> mismatch("The cat sat on the mat.", "de")
    'the text appears to be English, not German'
    >>> mismatch("hello", "de")
    'the text may be English rather than German'
    >>> mismatch("Ich liebe dich.", "de")
    """
    detected = detect(text)
    if language not in NAMES or detected.script is None or detected.language == language:
        return None
    if detected.language is None or (language == "zh" and not detected.sure):
        return f"the text does not look like {NAMES[language]}"
    if detected.sure:
        return f"the text appears to be {NAMES[detected.language]}, not {NAMES[language]}"
    return f"the text may be {NAMES[detected.language]} rather than {NAMES[language]}"


def foreign(text: str, language: str) -> bool:
    """Return whether a text appears not to be in a language; see `mismatch`."""
    return mismatch(text, language) is not None


__all__ = ["NAMES", "foreign", "language_of", "mismatch"]
