"""Matplotlib figures of text: tokens coloured by one head's weights, and two rows of tokens joined by lines.

Axes: L queries, S keys; T target words, S source words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from regard.colours import blue, hexadecimal, ink, red
from regard.plotting import blank, box, escape_dollars, figure_style, finish, ruler

from .figures import WIDTHS
from .heatmaps import exact_weights
from .token_display import DisplayToken
from .token_texts import TokenTexts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..sighting import Sighting

_LINE = 0.185  # inches from one line of words to the next
_PARAGRAPH = 0.04  # inches between the texts of two queries
_MAX_WORDS = 6000  # in one figure


def words(
    sighting: Sighting,
    layer: int,
    head: int,
    *,
    query: int | Iterable[int] | None = None,
    call: int = 0,
    batch: int = 0,
    columns: int = 2,
    title: str | None = None,
) -> Figure:
    """Draw the text once per query (all by default): the query's token in red, the others on blue by weight."""
    seen = sighting.find(layer, call)
    weights = exact_weights(seen, batch, (head,))
    texts = TokenTexts(sighting, batch)
    queries, keys = texts.of(seen, "query"), texts.of(seen, "key")
    rows = range(len(queries)) if query is None else [query] if isinstance(query, int) else list(query)
    if weights is None:
        raise ValueError(f"layer {layer} kept no queries and keys to recompute weights from; watch with keep=True")
    if len(rows) * len(keys) > _MAX_WORDS:
        raise ValueError(
            f"{len(rows)} queries × {len(keys)} keys do not fit into one figure; pass at most {_MAX_WORDS // len(keys)} queries, query=[…]"
        )
    own_key = {i: i + seen.query_pos.start - seen.key_pos.start for i in rows} if seen.kind != "cross" else {}
    width = WIDTHS[columns]
    with figure_style([p.label for p in (*queries, *keys)] + [title or ""]):
        text_width = ruler()
        texts_of_queries = []
        for i in rows:
            # In cross-attention the query is not among the keys, and is drawn before them.
            leading = [] if i in own_key else [(escape_dollars(queries[i].label), None)]
            all_words = [*leading, *((escape_dollars(p.text or "␣"), k) for k, p in enumerate(keys))]
            texts_of_queries.append(_break_lines(all_words, keys, text_width, width - 0.16))
        figure, axes = _empty_page(width, 0.62 + _LINE * sum(map(len, texts_of_queries)) + _PARAGRAPH * len(rows))
        y = 0.42
        for i, lines in zip(rows, texts_of_queries, strict=True):
            for line in lines:
                for word in line:
                    current = word.key is None or own_key.get(i) == word.key
                    weight = 0.0 if word.key is None else float(weights[0, i, word.key])
                    _draw_word(axes, word, y, weight, current)
                y += _LINE
            y += _PARAGRAPH
        finish(figure, f"{sighting.model}  layer {layer} · head {head}" if title is None else title, seen.proof, placed=True)
    return figure


class _Word(NamedTuple):
    """A word and its place in a line, in inches."""

    text: str
    key: int | None  # its index among the keys; None for a query drawn before them
    x: float
    width: float


def _break_lines(
    all_words: Sequence[tuple[str, int | None]], keys: Sequence[DisplayToken], text_width: Callable[[str], float], width: float
) -> list[list[_Word]]:
    """Break words into lines of this width; tokens that continue a word follow without a gap."""
    lines: list[list[_Word]] = [[]]
    x = 0.08
    for text, key in all_words:
        size = text_width(text) + 0.06
        gap = 0.0 if key is not None and keys[key].mark == "+" else 0.015
        if x + gap + size > width + 0.08 and lines[-1]:
            lines.append([])
            x = 0.08
        lines[-1].append(_Word(text, key, x + gap, size))
        x += gap + size + (0.1 if key is None else 0)
    return lines


def _draw_word(axes: Any, word: _Word, y: float, weight: float, current: bool) -> None:
    """Draw a word on a box coloured by its weight; the current word in red without a box."""
    shade = blue(weight, dark=False)
    if not current and weight > 0.002:
        axes.add_patch(box(word.x, y - _LINE * 0.5, word.width, _LINE * 0.9, hexadecimal(shade)))
    colour = hexadecimal(red(dark=False)) if current else hexadecimal(ink(shade))
    axes.text(word.x + 0.03, y - _LINE * 0.05, word.text, va="center", color=colour, fontweight="bold" if current else "normal")


def _empty_page(width: float, height: float) -> tuple[Figure, Any]:
    """Return a figure, and axes whose units are inches from its top left corner."""
    figure = blank(width, height, constrained=False)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(figure.get_figheight(), 0))
    axes.axis("off")
    return figure, axes


def alignment(
    sighting: Sighting,
    layer: int,
    head: int,
    *,
    call: int = 0,
    batch: int = 0,
    columns: int = 2,
    least: float = 0.02,
    title: str | None = None,
) -> Figure:
    """Draw two rows of tokens, keys above and queries below, joined by lines that are stronger for larger weights."""
    seen = sighting.find(layer, call)
    weights = exact_weights(seen, batch, (head,))
    if weights is None:
        raise ValueError(f"layer {layer} kept no queries and keys to recompute weights from; watch with keep=True")
    texts = TokenTexts(sighting, batch)
    title = f"{sighting.model}  layer {layer} · head {head}" if title is None else title
    queries, keys = texts.of(seen, "query"), texts.of(seen, "key")
    return alignment_lines(weights[0], queries, keys, columns=columns, least=least, title=title, proof=seen.proof)


def alignment_lines(
    weights: Tensor,
    target: Sequence[str | DisplayToken],
    source: Sequence[str | DisplayToken],
    *,
    columns: int = 2,
    least: float = 0.02,
    title: str = "",
    proof: object = None,
) -> Figure:
    """Draw weights (T, S) ≥ `least` as lines between any two rows of words, such as a translation's alignment."""
    below, above = ([escape_dollars(w.label if isinstance(w, DisplayToken) else w) for w in row] for row in (target, source))
    width = WIDTHS[columns]
    with figure_style([*below, *above, title]):
        text_width = ruler()
        size = _font_size(below, above, text_width, width)
        figure, axes = _empty_page(width, 2.0)
        top, bottom = (list(_spread([text_width(w) * size / 8 for w in row], width)) for row in (above, below))
        drawn = [(float(w), i, j) for i, row in enumerate(weights.tolist()) for j, w in enumerate(row) if w >= least]
        for weight, i, j in sorted(drawn):
            _draw_line(axes, top[j], bottom[i], weight)
        for row, middles, y in ((above, top, 0.48), (below, bottom, 1.54)):
            for word, x in zip(row, middles, strict=True):
                axes.text(x, y, word, ha="center", va="center", fontsize=size)
        finish(figure, title, proof, placed=True)
    return figure


def _font_size(below: Sequence[str], above: Sequence[str], text_width: Callable[[str], float], width: float) -> float:
    """Return the largest font size, in points, in which both rows fit the width."""
    size = 8.0
    while size > 4.5 and max(sum(text_width(w) + 0.1 for w in row) for row in (below, above)) * size / 8 > width - 0.16:
        size -= 0.5
    if max(sum(text_width(w) + 0.06 for w in row) for row in (below, above)) * size / 8 > width:
        raise ValueError(f"{len(above)} and {len(below)} words do not fit in {width} in; pass columns=2 or a shorter text")
    return size


def _draw_line(axes: Any, top: float, bottom: float, weight: float) -> None:
    """Draw a curve from a word above to a word below, thicker and darker for larger weights."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    points = [(top, 0.58), (top, 1.0), (bottom, 1.0), (bottom, 1.42)]
    curve = Curve(points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
    colour = hexadecimal(blue(weight, dark=False))
    axes.add_patch(PathPatch(curve, fill=False, lw=0.3 + 2.4 * math.sqrt(weight), edgecolor=colour, capstyle="round"))


def _spread(widths: Sequence[float], total_width: float) -> Iterator[float]:
    """Iterate over the centres of words spread evenly over the width, with gaps of 0.02 to 0.45 inches."""
    gap = min(max((total_width - 0.16 - sum(widths)) / max(len(widths), 1), 0.02), 0.45)
    x = (total_width - sum(widths) - gap * (len(widths) - 1)) / 2
    for width in widths:
        yield x + width / 2
        x += width + gap
