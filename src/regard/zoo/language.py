"""Which language a text is in, as far as its letters tell."""

from __future__ import annotations

import unicodedata
from collections import Counter

NAMES = {"zh": "Chinese", "de": "German", "en": "English"}
# The languages the shipped translators read, by the script most of a text's letters are in.
_LANGUAGES = {"CJK": "zh", "LATIN": "de"}
_SCRIPTS = {"zh": "CJK", "de": "LATIN", "en": "LATIN"}


def script_of(text: str) -> str | None:
    """The script most letters of a text are in, by the first word of their Unicode names; None without letters.

    >>> script_of("我爱中国!"), script_of("Ich liebe dich."), script_of("Привет"), script_of("12:30")
    ('CJK', 'LATIN', 'CYRILLIC', None)
    """
    scripts = Counter(unicodedata.name(c, "?").split(" ")[0].split("-")[0] for c in text if c.isalpha())
    # A Chinese sentence may hold more Latin letters than characters (a name, a unit); a character says as much as a word.
    if scripts["CJK"] and scripts["CJK"] >= sum(n for name, n in scripts.items() if name not in ("CJK", "LATIN")):
        return "CJK"
    return scripts.most_common(1)[0][0] if scripts else None


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
