"""Guess the language of a text from its script."""

from __future__ import annotations

import unicodedata

from ..text.script import script_of

NAMES = {"zh": "Chinese", "de": "German", "en": "English"}
# The source languages of the shipped translators, by the script of most letters of a text.
_LANGUAGES = {"CJK": "zh", "LATIN": "de"}
_SCRIPTS = {"zh": "CJK", "de": "LATIN", "en": "LATIN"}


def language_of(text: str) -> str | None:
    """Return "zh" for Chinese characters, "de" for Latin letters, None without letters; raise ValueError for any other script.

    The script does not distinguish German from English or French: Latin letters are taken for German, the only such source language
    shipped.
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


def foreign(text: str, language: str) -> bool:
    """Return whether a text has letters, but none of a language's script; False if that script is unknown."""
    script = _SCRIPTS.get(language)
    if script is None:
        return False
    scripts = {unicodedata.name(c, "?").split(" ")[0].split("-")[0] for c in text if c.isalpha()}
    return bool(scripts) and script not in scripts
