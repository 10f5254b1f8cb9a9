"""The colours of weights, differences and heads, the same in the terminal, in figures and on web pages (`regard.web.palette`).

Colours are defined in OKLCH, where equal steps look equal, and returned as sRGB bytes. Ottosson 2020, "A perceptual color space for image
processing".
"""

from __future__ import annotations

import math
from typing import TypeAlias

RGB: TypeAlias = tuple[int, int, int]

BLUE, ORANGE, CRIMSON = 255.0, 60.0, 25.0  # hues
_CHROMA = 0.12  # the largest that sRGB can show at every lightness of the blue ramp

# One colour a head, safe for colour-blind eyes (Okabe and Ito 2008), without the red kept for the current word.
HEADS: tuple[RGB, ...] = ((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (240, 228, 66), (110, 110, 110))


def blue(weight: float, *, dark: bool = True) -> RGB:
    """The colour of a weight in [0, 1]: one hue, lightness linear in the weight; 0 is the background (white, or near black).

    >>> blue(0, dark=False), blue(1, dark=False)
    ((255, 255, 255), (14, 71, 134))
    """
    weight = min(max(weight, 0.0), 1.0)
    start, stop = (0.25, 0.76) if dark else (1.0, 0.40)
    return oklch(start + (stop - start) * weight, _chroma(weight), BLUE)


def red(*, dark: bool = True) -> RGB:
    """The colour reserved for the current word (the query)."""
    return oklch(0.66 if dark else 0.55, 0.20, CRIMSON)


def signed(difference: float, *, dark: bool = True) -> RGB:
    """The colour of a difference in [−1, 1]: blue below, orange above, the background in the middle."""
    size = min(abs(difference), 1.0)
    start, stop = (0.25, 0.72) if dark else (1.0, 0.55)
    return oklch(start + (stop - start) * size, _chroma(size), BLUE if difference < 0 else ORANGE)


def ink(background: RGB) -> RGB:
    """The text colour on a background: black or white, whichever has more contrast."""
    black, white = (0, 0, 0), (255, 255, 255)
    return black if contrast(black, background) >= contrast(white, background) else white


def contrast(a: RGB, b: RGB) -> float:
    """The WCAG contrast ratio, 1 to 21; text needs 4.5, graphics 3.

    >>> contrast((0, 0, 0), (255, 255, 255))
    21.0
    """
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def hexadecimal(colour: RGB) -> str:
    """A colour in CSS notation.

    >>> hexadecimal((14, 71, 134))
    '#0e4786'
    """
    return "#{:02x}{:02x}{:02x}".format(*colour)


def oklch(lightness: float, chroma: float, hue: float) -> RGB:
    """Convert a lightness in [0, 1], a chroma and a hue in degrees to sRGB bytes."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    r = _byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s)
    g = _byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s)
    return r, g, _byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)


def _chroma(weight: float) -> float:
    """The chroma of a weight: rises steeply from 0, so that small weights already look coloured."""
    return _CHROMA * math.sin(math.pi * min(weight, 0.75) / 1.5)


def _byte(linear: float) -> int:
    c = min(max(linear, 0.0), 1.0)
    return round(255 * (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055))


def _luminance(colour: RGB) -> float:
    channels = [c / 255 for c in colour]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
