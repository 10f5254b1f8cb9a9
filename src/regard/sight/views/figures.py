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
    side = WIDTHS[columns] * 0.92 / most_heads
    with figure_style([title or sighting.model]):
        figure = blank(WIDTHS[columns], min(0.62 + len(calls) * min(side, 0.9), 9.2))
        grid = figure.subplots(len(calls), most_heads, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
        image = None
        for row, seen in zip(grid, calls, strict=True):
            cells = map_cells(seen, batch, 128, recompute=RECOMPUTED_WEIGHTS // len(calls))
            for position, axes in enumerate(row):
                if position >= len(seen.head_ids) or cells is None:
                    axes.axis("off")
                    continue
                image = _draw(axes, cells[position], _hidden(seen, cells[position], batch, position), scale, form)
                axes.set_xticks([])
                axes.set_yticks([])
                if row is grid[0]:
                    axes.set_title(str(seen.head_ids[position]), fontweight="normal", fontsize=6.5, loc="center", pad=2)
                if position == 0:
                    axes.set_ylabel(str(seen.layer), rotation=0, ha="right", va="center", fontsize=6.5, labelpad=4)
        if image is None:
            raise ValueError("nothing to draw: neither pooled maps nor queries and keys were kept; watch with readings=[Pooled(64, 64)]")
        colour_bar(figure, image, grid.ravel().tolist(), scale)
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
        _label_axes(axes, row_tokens, column_tokens, form, WIDTHS[columns])
        exact = tuple(cells.shape) == (len(queries), len(keys))
        if exact and (numbers if numbers is not None else longest <= 12):
            _write_numbers(axes, cells if form == "row" else cells.mT, image)
        colour_bar(figure, image, axes, scale)
        finish(figure, title or f"{sighting.model}  layer {layer} · head {head}", seen.proof)
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
