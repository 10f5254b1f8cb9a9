"""Which language a text is in, as far as its letters tell."""

from __future__ import annotations

import unicodedata

from ..text.script import script_of

NAMES = {"zh": "Chinese", "de": "German", "en": "English"}
# The languages the shipped translators read, by the script most of a text's letters are in.
_LANGUAGES = {"CJK": "zh", "LATIN": "de"}
_SCRIPTS = {"zh": "CJK", "de": "LATIN", "en": "LATIN"}


def language_of(text: str) -> str | None:
    """zh for Chinese characters, de for Latin letters; None for no letters, a ValueError for any other script.

    Letters cannot tell German from English or French: what is in Latin letters is taken for German, the only such language shipped.
    """
    script = script_of(text)
    if script is None:
        return None
    if script not in _LANGUAGES:
        raise ValueError(
            f"the text is in {script.capitalize()} letters; the shipped models read Chinese and German (--from zh, --from de), "
            "or give a model of your own with --model"
        )
    return _LANGUAGES[script]


def foreign(text: str, language: str) -> bool:
    """Whether a text has letters, but none of a language's script, where the script is known."""
    wanted = _SCRIPTS.get(language)
    if wanted is None:
        return False
    scripts = {unicodedata.name(c, "?").split(" ")[0].split("-")[0] for c in text if c.isalpha()}
    return bool(scripts) and wanted not in scripts
