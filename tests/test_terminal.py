"""Colours and terminal output: an even colour ramp, readable text colours, aligned columns, and when colour is used."""

import io
import itertools
import math

import pytest

from regard.colours import HEADS, blue, contrast, hexadecimal, ink, oklch, red, signed
from regard.terminal import SHADES, Pen, columns, pad, shade, table


def lightness(colour: tuple[int, int, int]) -> float:
    """The OKLab lightness of an sRGB colour, computed by the inverse of what `blue` uses."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (x / 255 for x in colour))
    l = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    m = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    s = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return 0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s


@pytest.mark.parametrize("dark", [True, False])
def test_the_blue_ramp_is_even_to_the_eye(dark: bool) -> None:
    steps = [lightness(blue(i / 20, dark=dark)) for i in range(21)]
    each = (steps[-1] - steps[0]) / 20
    assert abs(each) > 0.02
    assert all(b - a == pytest.approx(each, abs=0.006) for a, b in itertools.pairwise(steps))


def test_zero_is_the_background_and_out_of_range_is_clamped() -> None:
    assert blue(0, dark=False) == (255, 255, 255)
    assert len(set(blue(0))) == 1  # grey: no hue
    assert blue(7) == blue(1)
    assert blue(-1) == blue(0)
    assert signed(0, dark=False) == (255, 255, 255)
    assert signed(-1)[2] > signed(-1)[0]
    assert signed(1)[0] > signed(1)[2]


def test_known_colours() -> None:
    assert oklch(1, 0, 0) == (255, 255, 255)
    assert oklch(0.627955, 0.257683, 29.2339) == (255, 0, 0)  # sRGB red, from CSS Color 4
    assert hexadecimal((0, 114, 178)) == "#0072b2"
    assert len(set(HEADS)) == len(HEADS)


@pytest.mark.parametrize("dark", [True, False])
def test_text_on_every_weight_can_be_read(dark: bool) -> None:
    for i in range(101):
        back = blue(i / 100, dark=dark)
        assert contrast(ink(back), back) >= 4.5
    assert contrast(red(dark=dark), blue(0, dark=dark)) >= 4.5


def test_columns_and_padding_of_chinese_and_colour() -> None:
    coloured = Pen(colour=True).current("中国")
    assert columns(coloured) == 4
    assert columns(pad(coloured, 9)) == 9
    assert pad("中", 1) == "中"
    assert columns("e\u0301") == 1
    assert table([["a", "bb"], ["中国", "1"]]) == "a     bb\n中国   1"


def test_shades_grow_with_weight() -> None:
    assert [SHADES.index(shade(i / 9)) for i in range(10)] == list(range(10))
    assert shade(-1) == " "
    assert shade(2) == "@"


def test_a_word_is_marked_with_and_without_colour() -> None:
    plain, coloured = Pen(), Pen(colour=True)
    assert plain.word("blue", 0.5) == "blue(0.50)"
    assert plain.word("blue", 0.0) == "blue"
    assert plain.current("it") == "[it]"
    assert "48;2;" in coloured.word("blue", 0.5)
    assert "\x1b" not in coloured.word("blue", 0.0)
    assert "\x1b" not in coloured.cell(0.0, 3)
    assert "48;2;" not in coloured.hatched()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_when_colour_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORFGBG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert Pen.detect(io.StringIO()) == Pen(colour=False, dark=True)
    assert Pen.detect(Terminal()) == Pen(colour=True, dark=True)
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert Pen.detect(Terminal()) == Pen(colour=True, dark=False)
    monkeypatch.setenv("TERM", "dumb")
    assert not Pen.detect(Terminal()).colour
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Pen.detect(io.StringIO()).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Pen.detect(Terminal()).colour


def test_the_legend_has_its_numbers() -> None:
    assert Pen().legend(0, 0.5) == "0 .:-=+*#%@ 0.5 (linear)"
    assert Pen(colour=True).legend().count("48;2;") >= 14
    assert math.isclose(contrast(red(), red()), 1)
