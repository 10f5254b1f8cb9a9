"""The colours of `regard.colours` as JavaScript, so that the pages use the same ramps as the report, the figures and the terminal."""

from __future__ import annotations

import json
from functools import cache

from ..colours import HEADS, blue, hexadecimal, ink, signed


@cache
def script() -> str:
    """A module that exports, for light and dark, the ramps of weights and differences in 256 steps, and a readable text colour for each."""
    palette: dict[str, object] = {"heads": [hexadecimal(colour) for colour in HEADS]}
    for name, dark in (("light", False), ("dark", True)):
        weights = [blue(i / 255, dark=dark) for i in range(256)]
        differences = [signed(2 * i / 255 - 1, dark=dark) for i in range(256)]
        palette[name] = {
            "weight": [hexadecimal(c) for c in weights],
            "weightInk": [hexadecimal(ink(c)) for c in weights],
            "difference": [hexadecimal(c) for c in differences],
            "differenceInk": [hexadecimal(ink(c)) for c in differences],
        }
    return f"export const PALETTE = {json.dumps(palette)};\n"
