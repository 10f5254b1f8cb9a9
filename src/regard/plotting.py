"""The style shared by all matplotlib figures: fonts, sizes, colour map, colour bar, title and footnote, and how a figure is saved.

`plotting.mplstyle`, beside this file, holds the rcParams. matplotlib is imported only when something is drawn.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.colours import blue, hexadecimal
from regard.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = Path(__file__).with_suffix(".mplstyle")
_METADATA: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".png": {}, ".pdf": {"CreationDate": None}}
_SCREEN_DPI = 120  # pixels per inch in a notebook, drawn at twice that
_CJK = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_CJK_FONTS = (
    "Noto Sans CJK",
    "Source Han Sans",
    "PingFang",
    "Microsoft YaHei",
    "WenQuanYi",
    "Hiragino Sans",
    "SimHei",
    "Droid Sans Fallback",
)


@contextmanager
def figure_style(texts: Iterable[str]) -> Iterator[None]:
    """Apply `plotting.mplstyle` inside the block, with fonts that have the characters of these texts (Chinese included)."""
    try:
        import matplotlib
        from matplotlib import style
    except ImportError:
        raise ImportError("figures need matplotlib; install it with: pip install 'regard[pictures]'") from None
    fonts = _fonts(any(_CJK.search(text) for text in texts))
    with style.context(str(_STYLE)), matplotlib.rc_context({"font.family": fonts}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # _fonts has warned
        yield


def _fonts(chinese: bool) -> list[str]:
    """The font families to use, with one warning per figure if Chinese text has no font."""
    cjk = _cjk_font()
    if chinese and cjk is None:
        warnings.warn(
            "no font with Chinese characters was found, so they will show as boxes; install one (Debian: apt install fonts-noto-cjk)",
            stacklevel=4,
        )
    return ["DejaVu Sans", *([cjk] if cjk else [])]


@cache
def _cjk_font() -> str | None:
    """The name of an installed font with Chinese characters; searches the system where matplotlib's cached list has none."""
    from matplotlib import font_manager

    def best(names: Iterable[str]) -> str | None:
        known = sorted(set(names), key=lambda name: ("SC" not in name, name))  # simplified Chinese shapes before the others
        return next((name for family in _CJK_FONTS for name in known if name.startswith(family)), None)

    manager = font_manager.fontManager
    installed = best(font.name for font in manager.ttflist)
    if installed is None:
        for path in font_manager.findSystemFonts():
            if re.search(r"cjk|sourcehan|pingfang|yahei|msyh|wqy|simhei|hiragino|droidsansfallback", Path(path).name, re.IGNORECASE):
                manager.addfont(path)
        installed = best(font.name for font in manager.ttflist)
    return installed


def blank(width: float, height: float, *, constrained: bool = True) -> Figure:
    """An empty figure of this size in inches."""
    figure: Figure = _shown_figure()(figsize=(width, height), layout="constrained" if constrained else None)
    return figure


@cache
def _shown_figure() -> Any:
    """The class of all figures: a matplotlib figure that shows itself as the last value of a notebook's cell."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> tuple[bytes, dict[str, float]]:
            buffer = BytesIO()
            with figure_style([]):
                self.savefig(buffer, format="png", dpi=2 * _SCREEN_DPI)
            return buffer.getvalue(), {"width": self.get_figwidth() * _SCREEN_DPI, "height": self.get_figheight() * _SCREEN_DPI}

    return ShownFigure


def figure_file(path: str | Path) -> Path:
    """The path, checked: its suffix is a format figures are saved in."""
    target = Path(path)
    if target.suffix.lower() not in _METADATA:
        raise ValueError(f"{target.name} ends in {target.suffix or 'nothing'}; a figure is saved as {', '.join(_METADATA)}")
    return target


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure as .svg, .png or .pdf, without a date, so that the same figure gives the same file."""
    target = figure_file(path)
    kind = target.suffix.lower()
    metadata = {"Creator" if kind != ".png" else "Software": "regard", **_METADATA[kind]}
    with figure_style([]):
        return write_atomic(target, lambda draft: figure.savefig(draft, format=kind[1:], metadata=metadata))


def finish(figure: Figure, title: str, proof: object, *, placed: bool = False) -> None:
    """Write the title above and the proof (a footnote) below. A proof that does not hold is printed large.

    placed: for figures without constrained layout, whose texts are placed by hand.
    """
    holds = getattr(proof, "holds", True)
    footnote = "" if proof is None else escape_dollars(str(proof))
    font: dict[str, Any] = {"fontsize": 5, "color": "#5f5f5f"} if holds else {"fontsize": 9, "color": "#5b1fa6", "fontweight": "bold"}
    margin = 0.06 / figure.get_figwidth()
    if placed:
        figure.text(margin, 1 - 0.08 / figure.get_figheight(), escape_dollars(title), ha="left", va="top", fontsize=8, fontweight="bold")
        figure.text(margin, 0.05 / figure.get_figheight(), _wrapped(footnote, figure), ha="left", va="bottom", **font)
        return
    figure.suptitle(escape_dollars(title), x=margin, ha="left", fontsize=8)
    figure.supxlabel(_wrapped(footnote, figure), x=margin, ha="left", **font)


def _wrapped(text: str, figure: Figure) -> str:
    """The text broken into lines that fit the figure's width."""
    return "\n".join(textwrap.wrap(text, max(24, int(figure.get_figwidth() * 34)))) or text


def colour_bar(figure: Figure, image: Any, axes: Any, scale: str) -> None:
    """Add a colour bar, with the name of its scale above it."""
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=18, pad=0.02, fraction=0.04)
    bar.ax.tick_params(labelsize=6, length=0)
    bar.outline.set(linewidth=0.4, edgecolor="#999999")
    bar.ax.set_title(scale, fontsize=6, fontweight="normal", loc="left", pad=3)


@cache
def ramp() -> Any:
    """The colour map of attention weights, from 0 (white) to 1 (dark blue); masked cells are transparent."""
    from matplotlib.colors import ListedColormap

    return ListedColormap([hexadecimal(blue(i / 255, dark=False)) for i in range(256)], name="regard").with_extremes(bad=(0, 0, 0, 0))


def box(x: float, y: float, width: float, height: float, colour: str) -> Any:
    """A filled rectangle with rounded corners, as a patch."""
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.03", facecolor=colour, edgecolor="none")


def ruler() -> Callable[[str], float]:
    """A function that gives the width of a word set in bold at 8 points, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(dpi=144)
    renderer = FigureCanvasAgg(figure).get_renderer()
    widths: dict[str, float] = {}

    def measure(word: str) -> float:
        if word not in widths:
            widths[word] = float(figure.text(0, 0, word, fontsize=8, fontweight="bold").get_window_extent(renderer).width) / 144
        return widths[word]

    return measure


def escape_dollars(text: str) -> str:
    """The text with dollar signs escaped, which matplotlib would read as formulas."""
    return text.replace("$", r"\$")
