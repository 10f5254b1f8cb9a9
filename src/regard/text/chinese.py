"""Conversion of traditional to simplified Chinese, character by character."""

from __future__ import annotations

from functools import cache

# CJK Extension A and the unified block, then the supplementary planes: the characters of OpenCC's table.
_RANGES = (range(0x3400, 0xA000), range(0x20000, 0x2FA20))


@cache
def folding_table() -> dict[str, str]:
    """Return OpenCC's table of traditional characters and their simplified forms.

    Unlike OpenCC itself, a table of single characters can be stored in a vocabulary: a trained model then converts its input without
    the package.
    """
    try:
        import opencc
    except ImportError as error:
        raise ImportError(
            'converting traditional Chinese while training a vocabulary needs the package "opencc": pip install "regard[chinese]"'
        ) from error

    convert = opencc.OpenCC("t2s").convert
    table = {}
    for block in _RANGES:
        for code in block:
            old = chr(code)
            new = convert(old)
            if new != old and len(new) == 1:
                table[old] = new
    return table
