"""Figures of a sighting by matplotlib, as SVG, PDF or PNG: all heads of a model, or the pattern of one head.

Text stays text, a figure is one column of a paper wide (3.35 in) or two (6.9 in), and each carries its proof in small print.
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
from .token_display import Piece
from .token_texts import TokenTexts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..sighting import Seen, Sighting

Scale = Literal["linear", "log", "rank"]
WIDTHS = {1: 3.35, 2: 6.9}  # inches of one and two columns of a paper
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
    most_heads = max(len(seen.head_ids) for seen in calls)
    side = WIDTHS[columns] * 0.92 / most_heads
    with figure_style([title or sighting.model]):
        figure = blank(WIDTHS[columns], min(0.62 + len(calls) * min(side, 0.9), 9.2))
        grid = figure.subplots(len(calls), most_heads, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
        image = None
        for row, seen in zip(grid, calls, strict=True):
            cells = map_cells(seen, batch, 128, recompute=RECOMPUTED_WEIGHTS // len(calls))
            for place, axes in enumerate(row):
                if place >= len(seen.head_ids) or cells is None:
                    axes.axis("off")
                    continue
                image = _draw(axes, cells[place], _hidden(seen, cells[place], batch, place), scale, form)
                axes.set_xticks([])
                axes.set_yticks([])
                if row is grid[0]:
                    axes.set_title(str(seen.head_ids[place]), fontweight="normal", fontsize=6.5, loc="center", pad=2)
                if place == 0:
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
    """One head: queries down and keys across, or in column form the other way round; with its words where they fit."""
    seen = sighting.find(layer, call)
    place = seen.head(head).seen.head_ids.index(head)
    texts = TokenTexts(sighting, batch)
    queries, keys = texts.of(seen, "query"), texts.of(seen, "key")
    maps = map_cells(seen, batch, 1024 if max(len(queries), len(keys)) <= 1024 else 512, (head,))
    if maps is None:
        raise ValueError(
            f"layer {layer} kept neither a pooled map nor queries and keys; watch with readings=[Pooled(256, 256)] or keep=True"
        )
    cells = maps[0]
    down, across = (queries, keys) if form == "row" else (keys, queries)
    longest = max(len(down), len(across))
    with figure_style([p.label for p in (*queries, *keys)] + [title or ""]):
        figure = blank(WIDTHS[columns], _pattern_height(WIDTHS[columns], len(down), len(across)))
        axes = figure.subplots()
        image = _draw(axes, cells, _hidden(seen, cells, batch, place), scale, form, size=(len(queries), len(keys)))
        _label_axes(axes, down, across, form, WIDTHS[columns])
        exact = tuple(cells.shape) == (len(queries), len(keys))
        if exact and (numbers if numbers is not None else longest <= 12):
            _write_numbers(axes, cells if form == "row" else cells.mT, image)
        colour_bar(figure, image, axes, scale)
        finish(figure, title or f"{sighting.model}  layer {layer} · head {head}", seen.proof)
    return figure


def _pattern_height(width: float, down: int, across: int) -> float:
    """Inches that give square cells where that is neither too flat nor too tall."""
    ratio = min(max(down / max(across, 1), 0.25), 2.2)
    named = max(down, across) <= _LABELS
    return min(0.75 + (width - 0.9) * ratio + (0.35 if named else 0), 9.2)


def _label_axes(axes: Any, down: Sequence[Piece], across: Sequence[Piece], form: str, width: float) -> None:
    """Name rows and columns: by their words where there are few, slanted where they are crowded; else by their numbers."""
    axes.xaxis.tick_top()
    longest = max(len(down), len(across))
    if longest <= _LABELS:
        font: dict[str, Any] = {"fontsize": 7 if longest <= 24 else 5.5}
        measure, room = ruler(), (width - 1) / max(len(across), 1)
        crowded = max(measure(p.label) for p in across) > room
        slant: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if crowded else {}
        axes.set_xticks(range(len(across)), [escape_dollars(p.label) for p in across], **slant, **font)
        axes.set_yticks(range(len(down)), [escape_dollars(p.label) for p in down], **font)
    else:
        for set_ticks, n in ((axes.set_xticks, len(across)), (axes.set_yticks, len(down))):
            set_ticks(range(0, n, _tick_step(n)))
    axes.set_ylabel("query" if form == "row" else "key")
    axes.set_xlabel("key" if form == "row" else "query")
    axes.xaxis.set_label_position("top")


def write_figure(sighting: Sighting, path: str | Path, *, layer: int | None = None, head: int | None = None, batch: int = 0) -> Path:
    """Write every head of a sighting, or with layer and head one of them, as .svg, .pdf or .png."""
    if (layer is None) != (head is None):
        raise ValueError(f"layer={layer} and head={head}: give both for one head's pattern, neither for all heads")
    figure = heads(sighting, batch=batch) if layer is None or head is None else pattern(sighting, layer, head, batch=batch)
    return save_figure(figure, path)


def _draw(axes: Any, cells: Tensor, hidden: Tensor | None, scale: Scale, form: str, size: tuple[int, int] | None = None) -> Any:
    """Draw a map as an image; masked cells are transparent so that the hatch behind them shows."""
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
    """The values to draw, and their normalisation to colours. Rank is the share of this figure's cells that are lighter or equal."""
    from matplotlib.colors import LogNorm, Normalize

    if scale == "rank":
        ordered = cells[cells > 0].flatten().sort().values
        rank = torch.searchsorted(ordered, cells.contiguous(), right=True).to(cells.dtype) / max(len(ordered), 1)
        return torch.where(cells > 0, rank, 0.0), Normalize(0, 1)
    if scale == "log":
        return cells.clamp(min=1e-4), LogNorm(1e-4, 1)
    if scale != "linear":
        raise ValueError(f"scale={scale!r} is not known; use linear, log or rank")
    return cells, Normalize(0, 1)


def _tick_step(n: int) -> int:
    """A round number of positions from one tick to the next, for about six ticks."""
    rough = int("1" + "0" * (len(str(n // 6)) - 1))
    return next(rough * m for m in (1, 2, 5, 10) if rough * m * 6 >= n)


def _hidden(seen: Seen, cells: Tensor, batch: int, place: int) -> Tensor | None:
    """Which cells of a map are masked, (R, C) bool; None if none is."""
    R, C = cells.shape[-2:]
    hidden = hidden_cells(seen.mask, len(seen.query_pos), len(seen.key_pos), R, C, batch=batch, head=seen.head_ids[place])
    return None if hidden is None else hidden.to(cells.device) & (cells == 0)


def _write_numbers(axes: Any, cells: Tensor, image: Any) -> None:
    """Write the weight into every cell that is not almost zero."""
    shades = image.cmap(image.norm(image.get_array()))
    for i, row in enumerate(cells.tolist()):
        for j, weight in enumerate(row):
            if weight >= 0.005:
                r, g, b = (round(255 * float(c)) for c in shades[i][j][:3])
                axes.text(j, i, f"{weight:.2f}", ha="center", va="center", fontsize=5.5, color=hexadecimal(ink((r, g, b))))
