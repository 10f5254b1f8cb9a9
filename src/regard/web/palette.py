"""The colours of `regard.colours` as a JavaScript module and as CSS variables."""

from __future__ import annotations

import json
from functools import cache

from regard.colours import HEADS, RGB, blue, contrast, hexadecimal, ink, red, signed

_STEPS = 256


@cache
def palette_js() -> str:
    """The module palette.js: the colours of heads, and for each theme 256 steps of the ramps of weights and differences.

    A ramp is one string of six hexadecimal digits a step; its ink is one character a step, 1 where white reads better on it than black.
    """
    palette: dict[str, object] = {"heads": [hexadecimal(colour) for colour in HEADS]}
    for theme, dark in (("light", False), ("dark", True)):
        weights = [blue(i / (_STEPS - 1), dark=dark) for i in range(_STEPS)]
        differences = [signed(2 * i / (_STEPS - 1) - 1, dark=dark) for i in range(_STEPS)]
        palette[theme] = {
            "weight": _digits(weights),
            "weightInk": _ink_flags(weights),
            "difference": _digits(differences),
            "differenceInk": _ink_flags(differences),
        }
    return f"export const PALETTE = {json.dumps(palette)};\n"


def _digits(colours: list[RGB]) -> str:
    return "".join(hexadecimal(colour)[1:] for colour in colours)


def _ink_flags(colours: list[RGB]) -> str:
    return "".join("1" if ink(colour) == (255, 255, 255) else "0" for colour in colours)


@cache
def palette_css() -> str:
    """The CSS variables of both themes, a rule each; greys are chosen for their contrast with the page."""
    rules = []
    for selector, dark in ((".regard", False), ('.regard[data-theme="dark"]', True)):
        page = blue(0, dark=dark)
        variables: dict[str, RGB] = {
            "page": page,
            "ink": (236, 237, 240) if dark else (24, 26, 31),
            "quiet": _grey(page, 5.2),
            "faint": _grey(page, 1.6),
            "edge": _grey(page, 3.1),
            "hatch": _grey(page, 1.45),
            "masked": _grey(page, 1.12),
            "wash": _grey(page, 1.09),
            "red": red(dark=dark),
            "fill": blue(0.75, dark=dark),
        }
        body = "".join(f"--{name}:{hexadecimal(colour)};" for name, colour in variables.items())
        rules.append(f"{selector}{{{body}}}")
    return "\n".join(rules) + "\n"


def _grey(page: RGB, least: float) -> RGB:
    """The grey nearest to the page colour whose contrast with it is at least this."""
    levels = range(page[0], -1, -1) if page[0] > 127 else range(page[0], 256)
    return next(((g, g, g) for g in levels if contrast((g, g, g), page) >= least), (127, 127, 127))
