"""A figure of two sightings: second minus first, blue where weight was lost, orange where it was gained, white where nothing changed.

Axes: h heads, R × C cells of a pooled map.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.colours import hexadecimal, signed
from regard.plotting import blank, colour_bar, figure_style, finish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..comparison import Comparison


def difference(
    comparison: Comparison, layer: int | None = None, head: int | None = None, *, call: int = 0, batch: int = 0, title: str | None = None
) -> Figure:
    """One head's difference, or, without layer and head, the sixteen heads that differ most, each under its name.

    The scale is symmetric and the same in all of them: zero is the background.
    """
    if (layer is None) != (head is None):
        raise ValueError("give layer and head together, or neither for the heads that differ most")
    if layer is not None and head is not None:
        chosen = [row for row in comparison.rows if (row["layer"], row["call"], row["head"]) == (layer, call, head)]
        if not chosen:
            raise IndexError(f"layer {layer}, head {head}, call {call} is not in both sightings")
    else:
        chosen = [row for row in comparison.largest(len(comparison.rows)) if row["apart"] is not None][:16]
    if not chosen or any(row["apart"] is None for row in chosen):
        raise ValueError("there are no maps to subtract: both sightings need pooled maps of the same size, readings=[Pooled(64, 64)]")
    maps = [_map(comparison, row, batch) for row in chosen]
    top = max(float(cells.abs().max()) for cells in maps) or 1.0
    across = min(len(maps), 4)
    down = -(-len(maps) // across)
    with figure_style([title or ""]):
        figure = blank(3.35 if len(maps) == 1 else 6.9, 3.35 if len(maps) == 1 else 0.6 + 1.7 * down)
        axes = figure.subplots(down, across, squeeze=False)
        image = None
        for one in axes.flat[len(maps) :]:
            one.axis("off")
        for one, row, cells in zip(axes.flat, chosen, maps, strict=False):
            image = one.imshow(cells.cpu().numpy(), cmap=_ramp(), vmin=-top, vmax=top, aspect="auto", rasterized=cells.numel() > 4096)
            one.set_xticks([])
            one.set_yticks([])
            one.set_title(f"layer {row['layer']} · head {row['head']}   apart {row['apart']:.2f}", fontsize=6.5, fontweight="normal")
        axes[0, 0].set_ylabel("query")
        axes[-1, 0].set_xlabel("key")
        colour_bar(figure, image, axes.ravel().tolist(), "change")
        finish(figure, title or "Second − first", None)
    return figure


def _map(comparison: Comparison, row: dict[str, Any], batch: int) -> Tensor:
    cells = comparison.pooled[row["layer"], row["call"]]
    if not -cells.shape[0] <= batch < cells.shape[0]:
        raise IndexError(f"batch {batch} asked of {cells.shape[0]}")
    return cells[batch, row["place"]].float()


@cache
def _ramp() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap([hexadecimal(signed((i - 128) / 128, dark=False)) for i in range(257)], name="regard-difference")
