"""What every figure shares: the house style and its fonts, the ramp, the legend, the title and the proof in small print."""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.colours import blue, hexadecimal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = Path(__file__).with_name("regard.mplstyle")
_DATED: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".png": {}, ".pdf": {"CreationDate": None}}
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
def house_style(texts: Iterable[str]) -> Iterator[None]:
    """The house style, with fonts that know the characters of these texts."""
    try:
        import matplotlib
        from matplotlib import style
    except ImportError:
        raise ImportError("figures need matplotlib; install it with: pip install 'regard[pictures]'") from None
    fonts = _fonts(any(_CJK.search(text) for text in texts))
    with style.context(str(_STYLE)), matplotlib.rc_context({"font.family": fonts}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # said once, and what to do, by _fonts
        yield


def _fonts(chinese: bool) -> list[str]:
    found = _cjk_font()
    if chinese and found is None:
        warnings.warn(
            "no font with Chinese characters was found, so they will show as boxes; install one (Debian: apt install fonts-noto-cjk)",
            stacklevel=4,
        )
    return ["DejaVu Sans", *([found] if found else [])]


@cache
def _cjk_font() -> str | None:
    """The name of an installed font with Chinese characters, looking again where matplotlib's own list is older than the font."""
    from matplotlib import font_manager

    def best(names: Iterable[str]) -> str | None:
        known = sorted(set(names), key=lambda name: ("SC" not in name, name))  # simplified Chinese shapes before the others
        return next((name for wanted in _CJK_FONTS for name in known if name.startswith(wanted)), None)

    manager = font_manager.fontManager
    found = best(font.name for font in manager.ttflist)
    if found is None:
        for path in font_manager.findSystemFonts():
            if re.search(r"cjk|sourcehan|pingfang|yahei|msyh|wqy|simhei|hiragino|droidsansfallback", Path(path).name, re.IGNORECASE):
                manager.addfont(path)
        found = best(font.name for font in manager.ttflist)
    return found


def blank(width: float, height: float, *, constrained: bool = True) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained" if constrained else None)


def figure_file(path: str | Path) -> Path:
    """A path a figure can be saved at: its ending is one that can be drawn."""
    target = Path(path)
    if target.suffix.lower() not in _DATED:
        raise ValueError(f"{target.name} ends in {target.suffix or 'nothing'}; a figure is saved as {', '.join(_DATED)}")
    return target


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure as .svg, .png or .pdf, without a date in it: the same picture is the same file."""
    target = figure_file(path)
    kind = target.suffix.lower()
    target.parent.mkdir(parents=True, exist_ok=True)
    with house_style([]):
        figure.savefig(target, metadata={"Creator" if kind != ".png" else "Software": "regard", **_DATED[kind]})
    return target


def finish(figure: Figure, title: str, proof: object, *, placed: bool = False) -> None:
    """The title above and the proof below, small; a proof that fails is not small."""
    holds = getattr(proof, "holds", True)
    said = "" if proof is None else plain(str(proof))
    look: dict[str, Any] = {"fontsize": 5, "color": "#5f5f5f"} if holds else {"fontsize": 9, "color": "#5b1fa6", "fontweight": "bold"}
    margin = 0.06 / figure.get_figwidth()
    if placed:
        figure.text(margin, 1 - 0.08 / figure.get_figheight(), plain(title), ha="left", va="top", fontsize=8, fontweight="bold")
        figure.text(margin, 0.05 / figure.get_figheight(), _folded(said, figure), ha="left", va="bottom", **look)
        return
    figure.suptitle(plain(title), x=margin, ha="left", fontsize=8)
    figure.supxlabel(_folded(said, figure), x=margin, ha="left", **look)


def _folded(text: str, figure: Figure) -> str:
    """The text on as many lines as the width asks for."""
    return "\n".join(textwrap.wrap(text, max(24, int(figure.get_figwidth() * 34)))) or text


def legend(figure: Figure, image: Any, axes: Any, scale: str) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=18, pad=0.02, fraction=0.04)
    bar.ax.tick_params(labelsize=6, length=0)
    bar.outline.set(linewidth=0.4, edgecolor="#999999")
    bar.ax.set_title(scale, fontsize=6, fontweight="normal", loc="left", pad=3)


@cache
def ramp() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap([hexadecimal(blue(i / 255, dark=False)) for i in range(256)], name="regard").with_extremes(bad=(0, 0, 0, 0))


def box(x: float, y: float, width: float, height: float, colour: str) -> Any:
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.03", facecolor=colour, edgecolor="none")


def ruler() -> Callable[[str], float]:
    """Inches a word takes at 8 points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(dpi=144)
    renderer = FigureCanvasAgg(figure).get_renderer()
    known: dict[str, float] = {}

    def measure(word: str) -> float:
        if word not in known:
            known[word] = float(figure.text(0, 0, word, fontsize=8, fontweight="bold").get_window_extent(renderer).width) / 144
        return known[word]

    return measure


def plain(text: str) -> str:
    """Text, not mathematics: matplotlib reads dollar signs as formulas."""
    return text.replace("$", r"\$")
