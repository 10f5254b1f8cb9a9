"""A sighting on paper: the heads of a model, one head's pattern, its word colours, its lines. SVG, PDF or PNG by matplotlib.

Text stays text, a figure is one paper column wide (3.35 in) or two (6.9 in), and each carries its proof in small print.
Axes: h heads, L queries, S keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from regard.colours import blue, hexadecimal, ink, red
from regard.plotting import blank, box, finish, house_style, legend, plain, ramp, ruler, save_figure

from .maps import AGAIN, exact_weights, hidden_cells, map_cells
from .payload import Texts
from .pieces import Piece

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .sighting import Seen, Sighting

Scale = Literal["linear", "log", "rank"]
WIDTHS = {1: 3.35, 2: 6.9}  # inches of one and two paper columns
_LABELS = 40  # tokens an axis can name; beyond, it is numbered


def heads(
    sighting: Sighting,
    *,
    batch: int = 0,
    call: int = 0,
    scale: Scale = "linear",
    form: str = "row",
    columns: int = 2,
    title: str | None = None,
) -> Figure:
    """Every layer and head as a thumbnail: layers down, heads across."""
    calls = [seen for seen in sighting if seen.call == call] or list(sighting)
    if not calls:
        raise ValueError("the sighting is empty: nothing was seen; run the model inside the `with regard.watch(model)` block")
    most = max(len(seen.head_ids) for seen in calls)
    side = WIDTHS[columns] * 0.92 / most
    with house_style([title or sighting.model]):
        figure = blank(WIDTHS[columns], min(0.62 + len(calls) * min(side, 0.9), 9.2))
        axes = figure.subplots(len(calls), most, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
        image = None
        for row, seen in zip(axes, calls, strict=True):
            cells = map_cells(seen, batch, 128, again=AGAIN // len(calls))
            for place, one in enumerate(row):
                if place >= len(seen.head_ids) or cells is None:
                    one.axis("off")
                    continue
                image = _draw(one, cells[place], _hidden(seen, cells[place], batch, place), scale, form)
                one.set_xticks([])
                one.set_yticks([])
                if row is axes[0]:
                    one.set_title(str(seen.head_ids[place]), fontweight="normal", fontsize=6.5, loc="center", pad=2)
                if place == 0:
                    one.set_ylabel(str(seen.layer), rotation=0, ha="right", va="center", fontsize=6.5, labelpad=4)
        if image is None:
            raise ValueError("nothing to draw: neither pooled maps nor queries and keys were kept; watch with readings=[Pooled(64, 64)]")
        legend(figure, image, axes.ravel().tolist(), scale)
        finish(figure, title or f"{sighting.model}: layers down, heads across", sighting.proof)
    return figure


def pattern(
    sighting: Sighting,
    layer: int,
    head: int,
    *,
    call: int = 0,
    batch: int = 0,
    form: str = "row",
    scale: Scale = "linear",
    columns: int = 1,
    numbers: bool | None = None,
    title: str | None = None,
) -> Figure:
    """One head: queries down and keys across, or in column form the other way round; with its words where they fit."""
    seen = sighting.find(layer, call)
    place = seen.head(head).seen.head_ids.index(head)
    texts = Texts(sighting, batch)
    queries, keys = texts.of(seen, "query"), texts.of(seen, "key")
    cells = map_cells(seen, batch, 1024 if max(len(queries), len(keys)) <= 1024 else 512, (head,))
    if cells is None:
        raise ValueError(
            f"layer {layer} kept neither a pooled map nor queries and keys; watch with readings=[Pooled(256, 256)] or keep=True"
        )
    down, across = (queries, keys) if form == "row" else (keys, queries)
    with house_style([p.label for p in (*queries, *keys)] + [title or ""]):
        width = WIDTHS[columns]
        named = max(len(down), len(across)) <= _LABELS
        ratio = min(max(len(down) / max(len(across), 1), 0.25), 2.2)
        figure = blank(width, min(0.75 + (width - 0.9) * ratio + (0.35 if named else 0), 9.2))
        axes = figure.subplots()
        image = _draw(axes, cells[0], _hidden(seen, cells[0], batch, place), scale, form, size=(len(queries), len(keys)))
        axes.xaxis.tick_top()
        if named:
            small: dict[str, Any] = {"fontsize": 7 if max(len(down), len(across)) <= 24 else 5.5}
            measure, room = ruler(), (width - 1) / max(len(across), 1)
            crowded = max(measure(p.label) for p in across) > room
            slant: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if crowded else {}
            axes.set_xticks(range(len(across)), [plain(p.label) for p in across], **slant, **small)
            axes.set_yticks(range(len(down)), [plain(p.label) for p in down], **small)
        else:
            for ticks, n in ((axes.set_xticks, len(across)), (axes.set_yticks, len(down))):
                ticks(range(0, n, _step(n)))
        axes.set_ylabel("query" if form == "row" else "key")
        axes.set_xlabel("key" if form == "row" else "query")
        axes.xaxis.set_label_position("top")
        exact = tuple(cells.shape[-2:]) == (len(queries), len(keys))
        if exact and (numbers if numbers is not None else max(len(down), len(across)) <= 12):
            _numbers(axes, cells[0] if form == "row" else cells[0].mT, image)
        legend(figure, image, axes, scale)
        finish(figure, title or f"{sighting.model}  layer {layer} · head {head}", seen.proof)
    return figure


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
    texts = Texts(sighting, batch)
    queries, keys = texts.of(seen, "query"), texts.of(seen, "key")
    chosen = range(len(queries)) if query is None else [query] if isinstance(query, int) else list(query)
    if weights is None:
        raise ValueError(f"layer {layer} kept no queries and keys to colour words by; watch with keep=True")
    if len(chosen) * len(keys) > 6000:
        raise ValueError(
            f"{len(chosen)} rows of {len(keys)} words do not fit on paper; choose rows with query=…, at most {6000 // len(keys)}"
        )
    own = {i: i + seen.query_pos.start - seen.key_pos.start for i in chosen} if seen.kind != "cross" else {}
    with house_style([p.label for p in (*queries, *keys)] + [title or ""]):
        width, line = WIDTHS[columns], 0.185
        runs = []
        measure = ruler()
        for i in chosen:
            lead = [] if i in own else [(plain(queries[i].label), None)]
            runs.append(_lines([*lead, *((plain(p.text or "␣"), k) for k, p in enumerate(keys))], keys, measure, width - 0.16))
        figure = blank(width, 0.62 + line * sum(map(len, runs)) + 0.04 * len(runs), constrained=False)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(figure.get_figheight(), 0))
        axes.axis("off")
        y = 0.42
        for i, run in zip(chosen, runs, strict=True):
            for row in run:
                for text, k, x, size in row:
                    here = k is None or own.get(i) == k
                    weight = 0.0 if k is None else float(weights[0, i, k])
                    shade = blue(weight, dark=False)
                    if not here and weight > 0.002:
                        axes.add_patch(box(x, y - line * 0.5, size, line * 0.9, hexadecimal(shade)))
                    colour = hexadecimal(red(dark=False)) if here else hexadecimal(ink(shade))
                    axes.text(x + 0.03, y - line * 0.05, text, va="center", color=colour, fontweight="bold" if here else "normal")
                y += line
            y += 0.04
        finish(figure, title or f"{sighting.model}  layer {layer} · head {head}", seen.proof, placed=True)
    return figure


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
    texts = Texts(sighting, batch)
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
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    below, above = ([plain(w.label if isinstance(w, Piece) else w) for w in row] for row in (target, source))
    with house_style([*below, *above, title]):
        measure = ruler()
        width = WIDTHS[columns]
        size = 8.0
        while size > 4.5 and max(sum(measure(w) + 0.1 for w in row) for row in (below, above)) * size / 8 > width - 0.16:
            size -= 0.5
        if max(sum(measure(w) + 0.06 for w in row) for row in (below, above)) * size / 8 > width:
            raise ValueError(f"{len(above)} and {len(below)} words do not fit in {width} in; pass columns=2 or a shorter text")
        figure = blank(width, 2.0, constrained=False)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(2.0, 0))
        axes.axis("off")
        top, bottom = (list(_spread([measure(w) * size / 8 for w in row], width)) for row in (above, below))
        drawn = [(float(w), i, j) for i, row in enumerate(weights.tolist()) for j, w in enumerate(row) if w >= least]
        for weight, i, j in sorted(drawn):
            a, b = top[j], bottom[i]
            curve = Curve([(a, 0.58), (a, 1.0), (b, 1.0), (b, 1.42)], [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
            axes.add_patch(
                PathPatch(
                    curve, fill=False, lw=0.3 + 2.4 * math.sqrt(weight), edgecolor=hexadecimal(blue(weight, dark=False)), capstyle="round"
                )
            )
        for words_, spots, y in ((above, top, 0.48), (below, bottom, 1.54)):
            for word, x in zip(words_, spots, strict=True):
                axes.text(x, y, word, ha="center", va="center", fontsize=size)
        finish(figure, title, proof, placed=True)
    return figure


def write_figure(sighting: Sighting, path: str | Path, *, layer: int | None = None, head: int | None = None, batch: int = 0) -> Path:
    """Write every head of a sighting, or with layer and head one of them, as .svg, .pdf or .png."""
    if (layer is None) != (head is None):
        raise ValueError(f"layer={layer} and head={head}: give both for one head's pattern, neither for all heads")
    figure = heads(sighting, batch=batch) if layer is None or head is None else pattern(sighting, layer, head, batch=batch)
    return save_figure(figure, path)


def _draw(axes: Any, cells: Tensor, hidden: Tensor | None, scale: Scale, form: str, size: tuple[int, int] | None = None) -> Any:
    """A map as an image; hidden cells are left clear so that the hatch behind them shows."""
    import numpy as np

    shown, norm = _scaled(cells.double(), scale)
    data = np.ma.array(shown.cpu().numpy(), mask=False if hidden is None else hidden.cpu().numpy())
    L, S = size or tuple(cells.shape[-2:])
    if form == "column":
        data, L, S = data.T, S, L
    axes.set_facecolor("white")
    if hidden is not None:
        axes.patch.set(hatch="//////", edgecolor="#c4c4c4", linewidth=0)
    for spine in axes.spines.values():
        spine.set(visible=True, linewidth=0.4, color="#999999")
    return axes.imshow(data, cmap=ramp(), norm=norm, aspect="auto", extent=(-0.5, S - 0.5, L - 0.5, -0.5), rasterized=data.size > 4096)


def _scaled(cells: Tensor, scale: Scale) -> tuple[Tensor, Any]:
    """What is drawn and how it becomes a colour. Rank is the share of this picture's cells that are lighter or alike."""
    from matplotlib.colors import LogNorm, Normalize

    if scale == "rank":
        known = cells[cells > 0].flatten().sort().values
        place = torch.searchsorted(known, cells.contiguous(), right=True).to(cells.dtype) / max(len(known), 1)
        return torch.where(cells > 0, place, 0.0), Normalize(0, 1)
    if scale == "log":
        return cells.clamp(min=1e-4), LogNorm(1e-4, 1)
    if scale != "linear":
        raise ValueError(f"scale={scale!r} is not known; use linear, log or rank")
    return cells, Normalize(0, 1)


def _step(n: int) -> int:
    """A round number of positions from one tick to the next, for about six ticks."""
    rough = int("1" + "0" * (len(str(n // 6)) - 1))
    return next(rough * m for m in (1, 2, 5, 10) if rough * m * 6 >= n)


def _hidden(seen: Seen, cells: Tensor, batch: int, place: int) -> Tensor | None:
    R, C = cells.shape[-2:]
    hidden = hidden_cells(seen.mask, len(seen.query_pos), len(seen.key_pos), R, C, batch=batch, head=seen.head_ids[place])
    return None if hidden is None else hidden.to(cells.device) & (cells == 0)


def _numbers(axes: Any, cells: Tensor, image: Any) -> None:
    shades = image.cmap(image.norm(image.get_array()))
    for i, row in enumerate(cells.tolist()):
        for j, weight in enumerate(row):
            if weight >= 0.005:
                r, g, b = (round(255 * float(c)) for c in shades[i][j][:3])
                axes.text(j, i, f"{weight:.2f}", ha="center", va="center", fontsize=5.5, color=hexadecimal(ink((r, g, b))))


Placed = tuple[str, int | None, float, float]


def _lines(
    items: Sequence[tuple[str, int | None]], keys: Sequence[Piece], measure: Callable[[str], float], width: float
) -> list[list[Placed]]:
    """Words set in lines: (text, key, x, width)."""
    lines: list[list[Placed]] = [[]]
    x = 0.08
    for text, k in items:
        size = measure(text) + 0.06
        gap = 0.0 if k is not None and keys[k].mark == "+" else 0.015
        if x + gap + size > width + 0.08 and lines[-1]:
            lines.append([])
            x = 0.08
        lines[-1].append((text, k, x + gap, size))
        x += gap + size + (0.1 if k is None else 0)
    return lines


def _spread(widths: Sequence[float], room: float) -> Iterator[float]:
    """Middles of words spread over the room, never further apart than reads well."""
    gap = min(max((room - 0.16 - sum(widths)) / max(len(widths), 1), 0.02), 0.45)
    x = (room - sum(widths) - gap * (len(widths) - 1)) / 2
    for width in widths:
        yield x + width / 2
        x += width + gap
