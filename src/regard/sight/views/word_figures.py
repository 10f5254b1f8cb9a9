"""Figures of words by matplotlib: a text coloured by one head's weights, and two rows of words joined by lines.

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
from .token_display import Piece
from .token_texts import TokenTexts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..sighting import Sighting

_LINE = 0.185  # inches from one line of words to the next
_PARAGRAPH = 0.04  # inches between the texts of two queries
_MOST_WORDS = 6000  # in one figure


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
    """The text once for each query (all of them by default): the current word red, the others blue by weight."""
    seen = sighting.find(layer, call)
    weights = exact_weights(seen, batch, (head,))
    texts = TokenTexts(sighting, batch)
    queries, keys = texts.of(seen, "query"), texts.of(seen, "key")
    chosen = range(len(queries)) if query is None else [query] if isinstance(query, int) else list(query)
    if weights is None:
        raise ValueError(f"layer {layer} kept no queries and keys to colour words by; watch with keep=True")
    if len(chosen) * len(keys) > _MOST_WORDS:
        raise ValueError(
            f"{len(chosen)} rows of {len(keys)} words do not fit on paper; choose rows with query=…, at most {_MOST_WORDS // len(keys)}"
        )
    own_key = {i: i + seen.query_pos.start - seen.key_pos.start for i in chosen} if seen.kind != "cross" else {}
    width = WIDTHS[columns]
    with figure_style([p.label for p in (*queries, *keys)] + [title or ""]):
        measure = ruler()
        texts_of_queries = []
        for i in chosen:
            # Cross-attention: the query is not among the keys and stands before them.
            leading = [] if i in own_key else [(escape_dollars(queries[i].label), None)]
            all_words = [*leading, *((escape_dollars(p.text or "␣"), k) for k, p in enumerate(keys))]
            texts_of_queries.append(_break_lines(all_words, keys, measure, width - 0.16))
        figure, axes = _empty_page(width, 0.62 + _LINE * sum(map(len, texts_of_queries)) + _PARAGRAPH * len(chosen))
        y = 0.42
        for i, lines in zip(chosen, texts_of_queries, strict=True):
            for line in lines:
                for word in line:
                    current = word.key is None or own_key.get(i) == word.key
                    weight = 0.0 if word.key is None else float(weights[0, i, word.key])
                    _draw_word(axes, word, y, weight, current)
                y += _LINE
            y += _PARAGRAPH
        finish(figure, title or f"{sighting.model}  layer {layer} · head {head}", seen.proof, placed=True)
    return figure


class _Word(NamedTuple):
    """A word and where it stands in its line, in inches."""

    text: str
    key: int | None  # its number among the keys; None for a query that stands before them
    x: float
    width: float


def _break_lines(
    all_words: Sequence[tuple[str, int | None]], keys: Sequence[Piece], measure: Callable[[str], float], width: float
) -> list[list[_Word]]:
    """Words set in lines of this width; pieces of one word stand without a gap."""
    lines: list[list[_Word]] = [[]]
    x = 0.08
    for text, key in all_words:
        size = measure(text) + 0.06
        gap = 0.0 if key is not None and keys[key].mark == "+" else 0.015
        if x + gap + size > width + 0.08 and lines[-1]:
            lines.append([])
            x = 0.08
        lines[-1].append(_Word(text, key, x + gap, size))
        x += gap + size + (0.1 if key is None else 0)
    return lines


def _draw_word(axes: Any, word: _Word, y: float, weight: float, current: bool) -> None:
    """A word on a box coloured by its weight; the current word in red without one."""
    shade = blue(weight, dark=False)
    if not current and weight > 0.002:
        axes.add_patch(box(word.x, y - _LINE * 0.5, word.width, _LINE * 0.9, hexadecimal(shade)))
    colour = hexadecimal(red(dark=False)) if current else hexadecimal(ink(shade))
    axes.text(word.x + 0.03, y - _LINE * 0.05, word.text, va="center", color=colour, fontweight="bold" if current else "normal")


def _empty_page(width: float, height: float) -> tuple[Figure, Any]:
    """A figure and axes that measure it in inches from the top left corner."""
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
    """Two rows of words, keys above and queries below, joined by lines as strong as the weights."""
    seen = sighting.find(layer, call)
    weights = exact_weights(seen, batch, (head,))
    if weights is None:
        raise ValueError(f"layer {layer} kept no queries and keys to draw lines from; watch with keep=True")
    texts = TokenTexts(sighting, batch)
    shown = title or f"{sighting.model}  layer {layer} · head {head}"
    return lines_of(weights[0], texts.of(seen, "query"), texts.of(seen, "key"), columns=columns, least=least, title=shown, proof=seen.proof)


def lines_of(
    weights: Tensor,
    target: Sequence[str | Piece],
    source: Sequence[str | Piece],
    *,
    columns: int = 2,
    least: float = 0.02,
    title: str = "",
    proof: object = None,
) -> Figure:
    """Lines for weights (T, S) between any two rows of words, such as a translation's alignment."""
    below, above = ([escape_dollars(w.label if isinstance(w, Piece) else w) for w in row] for row in (target, source))
    width = WIDTHS[columns]
    with figure_style([*below, *above, title]):
        measure = ruler()
        size = _font_size(below, above, measure, width)
        figure, axes = _empty_page(width, 2.0)
        top, bottom = (list(_spread([measure(w) * size / 8 for w in row], width)) for row in (above, below))
        drawn = [(float(w), i, j) for i, row in enumerate(weights.tolist()) for j, w in enumerate(row) if w >= least]
        for weight, i, j in sorted(drawn):
            _draw_line(axes, top[j], bottom[i], weight)
        for row, middles, y in ((above, top, 0.48), (below, bottom, 1.54)):
            for word, x in zip(row, middles, strict=True):
                axes.text(x, y, word, ha="center", va="center", fontsize=size)
        finish(figure, title, proof, placed=True)
    return figure


def _font_size(below: Sequence[str], above: Sequence[str], measure: Callable[[str], float], width: float) -> float:
    """The largest font, in points, in which both rows fit the width."""
    size = 8.0
    while size > 4.5 and max(sum(measure(w) + 0.1 for w in row) for row in (below, above)) * size / 8 > width - 0.16:
        size -= 0.5
    if max(sum(measure(w) + 0.06 for w in row) for row in (below, above)) * size / 8 > width:
        raise ValueError(f"{len(above)} and {len(below)} words do not fit in {width} in; pass columns=2 or a shorter text")
    return size


def _draw_line(axes: Any, top: float, bottom: float, weight: float) -> None:
    """A curve from a word above to a word below, thicker and darker with the weight."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    points = [(top, 0.58), (top, 1.0), (bottom, 1.0), (bottom, 1.42)]
    curve = Curve(points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
    colour = hexadecimal(blue(weight, dark=False))
    axes.add_patch(PathPatch(curve, fill=False, lw=0.3 + 2.4 * math.sqrt(weight), edgecolor=colour, capstyle="round"))


def _spread(widths: Sequence[float], room: float) -> Iterator[float]:
    """The middles of words spread over the width, never further apart than reads well."""
    gap = min(max((room - 0.16 - sum(widths)) / max(len(widths), 1), 0.02), 0.45)
    x = (room - sum(widths) - gap * (len(widths) - 1)) / 2
    for width in widths:
        yield x + width / 2
        x += width + gap
