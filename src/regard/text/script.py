"""The script (Latin, CJK, …) a text is written in."""

from __future__ import annotations

import unicodedata
from collections import Counter


def script_of(text: str) -> str | None:
    """Return the script of most letters of a text, by the first word of their Unicode names; None without letters.

    >>> script_of("我爱中国!"), script_of("Ich liebe dich."), script_of("Привет"), script_of("12:30")
    ('CJK', 'LATIN', 'CYRILLIC', None)
    """
    scripts = Counter(unicodedata.name(c, "?").split(" ")[0].split("-")[0] for c in text if c.isalpha())
    # A Chinese sentence may have more Latin letters than Chinese characters (a name, a unit); one character counts as a word.
    if scripts["CJK"] and scripts["CJK"] >= sum(n for name, n in scripts.items() if name not in ("CJK", "LATIN")):
        return "CJK"
    return scripts.most_common(1)[0][0] if scripts else None
