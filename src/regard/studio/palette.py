"""The colours of `regard.colours` for the page's own pictures: the same ramps the report, the figures and the terminal use."""

from __future__ import annotations

import json
from functools import cache

from ..colours import HEADS, blue, hexadecimal, ink, signed


@cache
def script() -> str:
    """A module that exports, for light and dark, 256 steps of the ramps of weights and differences, and the ink that reads on each."""
    made: dict[str, object] = {"heads": [hexadecimal(colour) for colour in HEADS]}
    for name, dark in (("light", False), ("dark", True)):
        weights = [blue(i / 255, dark=dark) for i in range(256)]
        differences = [signed(2 * i / 255 - 1, dark=dark) for i in range(256)]
        made[name] = {
            "weight": [hexadecimal(c) for c in weights],
            "weightInk": [hexadecimal(ink(c)) for c in weights],
            "difference": [hexadecimal(c) for c in differences],
            "differenceInk": [hexadecimal(ink(c)) for c in differences],
        }
    return f"export const PALETTE = {json.dumps(made)};\n"
