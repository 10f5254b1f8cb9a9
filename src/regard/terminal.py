"""Draw in a terminal: 24-bit colour or plain ASCII, with wide (Chinese) characters aligned.

`Pen.detect()` chooses by the terminal; piped output gets plain text.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TextIO

from .colours import RGB, blue, ink, red

SHADES = " .:-=+*#%@"  # without colour: darker with weight
_FAINT = 0.02  # smaller weights are indistinguishable from the background and not drawn
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Pen:
    """Formats text and weights, with or without colour, for a dark or a light background."""

    colour: bool = False
    dark: bool = True

    @staticmethod
    def detect(out: TextIO | None = None) -> Pen:
        """The pen for an output: colour if it is a terminal (NO_COLOR and FORCE_COLOR override), dark unless COLORFGBG says otherwise."""
        out = sys.stdout if out is None else out
        colour = bool(os.environ.get("FORCE_COLOR")) or (out.isatty() and os.environ.get("TERM", "") != "dumb")
        background = os.environ.get("COLORFGBG", "").rpartition(";")[2]  # "15;0": white on black
        return Pen(colour and not os.environ.get("NO_COLOR"), dark=background not in ("7", "15"))

    def paint(self, text: str, fore: RGB | None = None, back: RGB | None = None, *, bold: bool = False, faint: bool = False) -> str:
        """The text in these colours; the text itself when colour is off."""
        codes = ["1"] * bold + ["2"] * faint
        for code, rgb in (("38", fore), ("48", back)):
            codes += [f"{code};2;{rgb[0]};{rgb[1]};{rgb[2]}"] if rgb is not None else []
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colour and codes else text

    def cell(self, weight: float, width: int = 2, text: str = "") -> str:
        """One weight as a block of `width` columns, blue by weight, with a text on it if given; 0 is the background.

        >>> Pen().cell(0.5, 4), Pen().cell(0.97, 6, "0.97")
        ('====', ' 0.97 ')
        """
        if not self.colour:
            return pad(text, width, "centre") if text else shade(weight) * width
        if weight < _FAINT:
            return self.paint(pad(text, width, "centre"), faint=True) if text else " " * width
        colour = blue(weight, dark=self.dark)
        return self.paint(pad(text, width, "centre"), ink(colour), colour)

    def hatched(self, width: int = 2) -> str:
        """A masked cell: a fine hatch that cannot be read as a weight."""
        return self.paint("╱" * width, faint=True) if self.colour else pad("/", width, "centre")

    def current(self, text: str) -> str:
        """The current word: red, or in brackets."""
        return self.paint(text, red(dark=self.dark), bold=True) if self.colour else f"[{text}]"

    def quiet(self, text: str) -> str:
        """Secondary text, in a fainter colour."""
        return self.paint(text, faint=True)

    def strong(self, text: str) -> str:
        """Bold text."""
        return self.paint(text, bold=True)

    def word(self, text: str, weight: float) -> str:
        """A word shaded by the weight it receives; `text(0.50)` without colour."""
        if self.colour:
            return self.cell(weight, columns(text) + 2, text) if weight >= _FAINT else f" {text} "
        return f"{text}({weight:.2f})" if weight >= _FAINT else text

    def legend(self, low: float = 0.0, high: float = 1.0) -> str:
        """The colour scale with its end values: linear from low to high.

        >>> Pen().legend()
        '0 .:-=+*#%@ 1 (linear)'
        """
        steps = "".join(self.cell(i / 15, 1) for i in range(1, 16)) if self.colour else SHADES.strip()
        return f"{low:g} {steps} {high:g} (linear)"


def shade(weight: float) -> str:
    """The ASCII character of a weight in [0, 1]."""
    return SHADES[round(min(max(weight, 0.0), 1.0) * (len(SHADES) - 1))]


def columns(text: str) -> int:
    """The width of a text in terminal columns: wide (Chinese) characters take two, combining marks and colour codes none.

    >>> columns("我爱 it"), columns("é")
    (7, 1)
    """
    bare = _ESCAPES.sub("", text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in bare)


def pad(text: str, width: int, side: Literal["left", "right", "centre"] = "left") -> str:
    """The text padded with spaces to a width in columns, aligned to `side`. Longer texts are not cut.

    >>> pad("国", 4) + "|", pad("7", 4, "right"), pad("ab", 5, "centre") + "|"
    ('国  |', '   7', '  ab |')
    """
    spaces = max(width - columns(text), 0)
    before = {"left": 0, "right": spaces, "centre": spaces - spaces // 2}[side]
    return " " * before + text + " " * (spaces - before)


def table(rows: Sequence[Sequence[str]], *, gap: str = "  ") -> str:
    """Rows of texts as a table: the first column aligned left, the others right; the first row is the header.

    >>> print(table([["word", "n"], ["我", "12"]]))
    word   n
    我    12
    """
    widths = [max((columns(row[i]) for row in rows if i < len(row)), default=0) for i in range(max(map(len, rows), default=0))]
    lines = [gap.join(pad(cell, widths[i], "left" if i == 0 else "right") for i, cell in enumerate(row)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def weights_text(words: Sequence[tuple[str, float]], most: int = 6) -> str:
    """Return the words with the largest weights, largest first, with their weights.

    >>> weights_text([("the", 0.1), ("cat", 0.7), ("sat", 0.2)], most=2)
    'cat 0.70  sat 0.20'
    """
    largest = sorted(words, key=lambda item: -item[1])[:most]
    return "  ".join(f"{word} {weight:.2f}" for word, weight in largest)
