"""Matplotlib figures of a sighting, as SVG, PDF or PNG: all heads of a model, or the weights of one head.

Text is stored as text, a figure is one column of a paper wide (3.35 in) or two (6.9 in), and shows its proof in small print.
Axes: h heads, L queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from regard.colours import hexadecimal, ink
from regard.plotting import blank, colour_bar, escape_dollars, figure_style, finish, ramp, ruler, save_figure

from .heatmaps import RECOMPUTED_WEIGHTS, hidden_cells, map_cells
from .token_display import DisplayToken
from .token_texts import TokenTexts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..sighting import Seen, Sighting

Scale = Literal["linear", "log", "rank"]
WIDTHS = {1: 3.35, 2: 6.9}  # inches of one and two columns of a paper
_FINE_THUMBNAILS = 36  # most thumbnails drawn with 128 cells a side; more of them have 64, and are not recomputed
_GRID_CELLS = 60  # cells of a thumbnail's side, at least about, as it is drawn beside the others
_LABELLED_TOKENS = 40  # most tokens written on an axis; longer axes show positions


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
    """Draw every layer and head as a thumbnail: layers down, heads across."""
    calls = [seen for seen in sighting if seen.call == call] or list(sighting)
    if not calls:
        raise ValueError("the sighting is empty; run the model inside the `with regard.watch(model)` block")
    most_heads = max(len(seen.head_ids) for seen in calls)
    side = 128 if len(calls) * most_heads <= _FINE_THUMBNAILS else 64
    rows = [_thumbnails(seen, batch, side, scale, form, len(calls)) for seen in calls]
    known = next((row for row in rows if row is not None), None)
    if known is None:
        raise ValueError("nothing to draw: neither pooled maps nor queries and keys were kept; watch with readings=[Pooled(64, 64)]")
    with figure_style([title or sighting.model]):
        side_inches = min(WIDTHS[columns] * 0.92 / most_heads, 1.6, 8.58 / len(calls))
        # Many layers of few heads make a narrow figure, not one with an empty half.
        figure = blank(min(WIDTHS[columns], max(side_inches * most_heads + 1.1, WIDTHS[1])), 0.62 + len(calls) * side_inches)
        axes = figure.subplots()
        _draw_grid(axes, rows, most_heads)
        first = next(seen for seen, row in zip(calls, rows, strict=True) if row is not None)
        names = first.head_ids if len(first.head_ids) == most_heads else range(most_heads)
        axes.xaxis.tick_top()
        axes.set_xticks([i + 0.5 for i in range(most_heads)], [f"head {n}" if most_heads <= 8 else str(n) for n in names], fontsize=6.5)
        layers = [f"layer {seen.layer}" for seen in calls]
        axes.set_yticks([i + 0.5 for i in range(len(calls))], layers, fontsize=6.5, rotation=90, va="center")
        axes.tick_params(length=0, pad=2)
        axes.set_box_aspect(len(calls) / most_heads)
        colour_bar(figure, _mappable(scale), axes, scale)
        down, across = ("queries", "keys") if form == "row" else ("keys", "queries")
        axes.set_xlabel(across, fontsize=6.5)  # not the figure's own label, which holds the proof
        axes.set_ylabel(down, fontsize=6.5)
        finish(figure, f"{sighting.model}: layers down, heads across" if title is None else title, sighting.proof)
    return figure


def _thumbnails(seen: Seen, batch: int, side: int, scale: Scale, form: str, layers: int) -> list[Any] | None:
    """Return the maps of a layer's heads as RGBA images, masked cells transparent; None if there is nothing to draw."""
    cells = map_cells(seen, batch, side, recompute=RECOMPUTED_WEIGHTS // (8 * layers))
    if cells is None:
        return None
    images = []
    for position, head_cells in enumerate(cells):
        values, norm = _scaled(head_cells.double(), scale)
        image = ramp()(norm(values.cpu().numpy()))
        hidden = _hidden(seen, head_cells, batch, position)
        if hidden is not None:
            image[hidden.cpu().numpy(), 3] = 0
        images.append(image.transpose(1, 0, 2) if form == "column" else image)
    return images


def _draw_grid(axes: Any, rows: list[list[Any] | None], most_heads: int) -> None:
    """Draw all thumbnails as one image, head i of layer j at (i, j), with a hatched background behind what is masked."""
    import numpy as np

    sizes = [image.shape for row in rows if row is not None for image in row]
    height, width = max(h for h, _, _ in sizes), max(w for _, w, _ in sizes)
    finer = max(1, round(_GRID_CELLS / max(height, width)))  # so that a gap of whole cells is thin between small maps too
    height, width = height * finer, width * finer
    gap = max(2, round(0.05 * max(height, width)))
    canvas = np.ones((len(rows) * (height + gap) - gap, most_heads * (width + gap) - gap, 4))
    for j, row in enumerate(rows):
        for i, image in enumerate(row or []):
            y, x = np.arange(height) * image.shape[0] // height, np.arange(width) * image.shape[1] // width
            top, left = j * (height + gap), i * (width + gap)
            canvas[max(top - 1, 0) : top + height + 1, max(left - 1, 0) : left + width + 1, :3] = 0.6  # a thin frame
            canvas[top : top + height, left : left + width] = image[y][:, x]
    if (canvas[..., 3] == 0).any():
        axes.patch.set(hatch="//////", edgecolor="#c4c4c4", linewidth=0)
    for spine in axes.spines.values():
        spine.set(visible=True, linewidth=0.4, color="#999999")
    axes.imshow(canvas, aspect="auto", extent=(0, most_heads, len(rows), 0), interpolation="antialiased")


def _mappable(scale: Scale) -> Any:
    """Return what the colour bar of a scale shows."""
    from matplotlib.cm import ScalarMappable

    return ScalarMappable(_scaled(torch.ones(1), scale)[1], ramp())


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
    """Draw one head's weights, queries down and keys across (form="row") or the other way round ("column").

    Axes show tokens where they fit, cells their weights where there are few (or `numbers` says so).
    """
    seen = sighting.find(layer, call)
    position = seen.head(head).seen.head_ids.index(head)
    texts = TokenTexts(sighting, batch)
    queries, keys = texts.of(seen, "query"), texts.of(seen, "key")
    maps = map_cells(seen, batch, 1024 if max(len(queries), len(keys)) <= 1024 else 512, (head,))
    if maps is None:
        raise ValueError(
            f"layer {layer} has neither a pooled map nor queries and keys; watch with readings=[Pooled(256, 256)] or keep=True"
        )
    cells = maps[0]
    row_tokens, column_tokens = (queries, keys) if form == "row" else (keys, queries)
    longest = max(len(row_tokens), len(column_tokens))
    with figure_style([p.label for p in (*queries, *keys)] + [title or ""]):
        figure = blank(WIDTHS[columns], _pattern_height(WIDTHS[columns], len(row_tokens), len(column_tokens)))
        axes = figure.subplots()
        image = _draw(axes, cells, _hidden(seen, cells, batch, position), scale, form, size=(len(queries), len(keys)))
        if 0.25 <= len(row_tokens) / max(len(column_tokens), 1) <= 2.2:  # else square cells would leave a strip
            axes.set_aspect("equal")
        _label_axes(axes, row_tokens, column_tokens, form, WIDTHS[columns])
        exact = tuple(cells.shape) == (len(queries), len(keys))
        if exact and (numbers if numbers is not None else longest <= 12):
            _write_numbers(axes, cells if form == "row" else cells.mT, image)
        colour_bar(figure, image, axes, scale)
        finish(figure, f"{sighting.model}  layer {layer} · head {head}" if title is None else title, seen.proof)
    return figure


def _pattern_height(width: float, rows: int, columns: int) -> float:
    """Return the height in inches that makes cells square, within bounds."""
    ratio = min(max(rows / max(columns, 1), 0.25), 2.2)
    labelled = max(rows, columns) <= _LABELLED_TOKENS
    return min(0.75 + (width - 0.9) * ratio + (0.35 if labelled else 0), 9.2)


def _label_axes(axes: Any, rows: Sequence[DisplayToken], columns: Sequence[DisplayToken], form: str, width: float) -> None:
    """Label rows and columns: with their tokens if there are few, slanted if they are crowded, else with positions."""
    axes.xaxis.tick_top()
    longest = max(len(rows), len(columns))
    if longest <= _LABELLED_TOKENS:
        font: dict[str, Any] = {"fontsize": 7 if longest <= 24 else 5.5}
        text_width, column_width = ruler(), (width - 1) / max(len(columns), 1)
        crowded = max(text_width(token.label) for token in columns) > column_width
        slant: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if crowded else {}
        axes.set_xticks(range(len(columns)), [escape_dollars(token.label) for token in columns], **slant, **font)
        axes.set_yticks(range(len(rows)), [escape_dollars(token.label) for token in rows], **font)
    else:
        for set_ticks, n in ((axes.set_xticks, len(columns)), (axes.set_yticks, len(rows))):
            set_ticks(range(0, n, _tick_step(n)))
    axes.set_ylabel("query" if form == "row" else "key")
    axes.set_xlabel("key" if form == "row" else "query")
    axes.xaxis.set_label_position("top")


def write_figure(sighting: Sighting, path: str | Path, *, layer: int | None = None, head: int | None = None, batch: int = 0) -> Path:
    """Save a figure of all heads of a sighting, or with layer and head of one of them, as .svg, .pdf or .png."""
    if (layer is None) != (head is None):
        raise ValueError(f"layer={layer} and head={head}: give both for one head, neither for all heads")
    figure = heads(sighting, batch=batch) if layer is None or head is None else pattern(sighting, layer, head, batch=batch)
    return save_figure(figure, path)


def _draw(axes: Any, cells: Tensor, hidden: Tensor | None, scale: Scale, form: str, size: tuple[int, int] | None = None) -> Any:
    """Draw a map as an image; masked cells are transparent, so that a hatched background shows through."""
    import numpy as np

    values, norm = _scaled(cells.double(), scale)
    data = np.ma.array(values.cpu().numpy(), mask=False if hidden is None else hidden.cpu().numpy())
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
    """Return the values to draw and their normalisation. A cell's rank is the fraction of positive cells that are not larger."""
    from matplotlib.colors import LogNorm, Normalize

    if scale == "rank":
        ordered = cells[cells > 0].flatten().sort().values
        rank = torch.searchsorted(ordered, cells.contiguous(), right=True).to(cells.dtype) / max(len(ordered), 1)
        return torch.where(cells > 0, rank, 0.0), Normalize(0, 1)
    if scale == "log":
        return cells.clamp(min=1e-4), LogNorm(1e-4, 1)
    if scale != "linear":
        raise ValueError(f"scale is {scale!r}; use linear, log or rank")
    return cells, Normalize(0, 1)


def _tick_step(n: int) -> int:
    """Return a round distance between ticks, for about six ticks."""
    rough = int("1" + "0" * (len(str(n // 6)) - 1))
    return next(rough * m for m in (1, 2, 5, 10) if rough * m * 6 >= n)


def _hidden(seen: Seen, cells: Tensor, batch: int, position: int) -> Tensor | None:
    """Return which cells of the map of the head at this position are masked, (R, C) bool; None if none is."""
    R, C = cells.shape[-2:]
    hidden = hidden_cells(seen.mask, len(seen.query_pos), len(seen.key_pos), R, C, batch=batch, head=seen.head_ids[position])
    return None if hidden is None else hidden.to(cells.device) & (cells == 0)


def _write_numbers(axes: Any, cells: Tensor, image: Any) -> None:
    """Write the weight into every cell that is not almost zero."""
    shades = image.cmap(image.norm(image.get_array()))
    for i, row in enumerate(cells.tolist()):
        for j, weight in enumerate(row):
            if weight >= 0.005:
                r, g, b = (round(255 * float(c)) for c in shades[i][j][:3])
                axes.text(j, i, f"{weight:.2f}", ha="center", va="center", fontsize=5.5, color=hexadecimal(ink((r, g, b))))
