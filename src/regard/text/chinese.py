"""Traditional Chinese folded into simplified, character by character."""

from __future__ import annotations

from functools import cache

# CJK Extension A and the unified block, then the supplementary planes: where OpenCC's character table lives.
_RANGES = (range(0x3400, 0xA000), range(0x20000, 0x2FA20))


@cache
def folding_table() -> dict[str, str]:
    """Every traditional character OpenCC knows and its simplified form.

    A table of single characters is enough to fold text for a vocabulary, and, unlike OpenCC itself, it can be stored inside one:
    a trained model then folds its input without the package.
    """
    try:
        import opencc
    except ImportError as error:
        raise ImportError('folding traditional Chinese needs the package "opencc" to train: pip install "regard[chinese]"') from error

    convert = opencc.OpenCC("t2s").convert
    table = {}
    for block in _RANGES:
        for code in block:
            old = chr(code)
            new = convert(old)
            if new != old and len(new) == 1:
                table[old] = new
    return table
