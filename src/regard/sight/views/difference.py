"""A figure that compares two sightings: second minus first, blue for less weight, orange for more, white for no change.

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
    """Draw one head's difference, or, without layer and head, those of the sixteen heads that differ most.

    All heads share one symmetric colour scale; zero is the background.
    """
    if (layer is None) != (head is None):
        raise ValueError(f"layer={layer} and head={head}: give layer and head together, or neither for the heads that differ most")
    if layer is not None and head is not None:
        chosen = [row for row in comparison.rows if (row["layer"], row["call"], row["head"]) == (layer, call, head)]
        if not chosen:
            raise IndexError(f"layer {layer}, head {head}, call {call} is not in both sightings")
    else:
        chosen = [row for row in comparison.largest(len(comparison.rows)) if row["apart"] is not None][:16]
    if not chosen or any(row["apart"] is None for row in chosen):
        raise ValueError("no maps to subtract: watch both texts with readings=[Pooled(64, 64)], which gives pooled maps of the same size")
    maps = [_map(comparison, row, batch) for row in chosen]
    top = max(float(cells.abs().max()) for cells in maps) or 1.0
    columns = min(len(maps), 4)
    rows = -(-len(maps) // columns)
    with figure_style([title or ""]):
        figure = blank(3.35 if len(maps) == 1 else 6.9, 3.35 if len(maps) == 1 else 0.6 + 1.7 * rows)
        axes = figure.subplots(rows, columns, squeeze=False)
        image = None
        for axis in axes.flat[len(maps) :]:
            axis.axis("off")
        for axis, row, cells in zip(axes.flat, chosen, maps, strict=False):
            image = axis.imshow(cells.cpu().numpy(), cmap=_ramp(), vmin=-top, vmax=top, aspect="auto", rasterized=cells.numel() > 4096)
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_title(f"layer {row['layer']} · head {row['head']}   apart {row['apart']:.2f}", fontsize=6.5, fontweight="normal")
        axes[0, 0].set_ylabel("query")
        axes[-1, 0].set_xlabel("key")
        colour_bar(figure, image, axes.ravel().tolist(), "change")
        finish(figure, title or "Second − first", None)
    return figure


def _map(comparison: Comparison, row: dict[str, Any], batch: int) -> Tensor:
    cells = comparison.pooled[row["layer"], row["call"]]
    if not -cells.shape[0] <= batch < cells.shape[0]:
        raise IndexError(f"batch is {batch}; the sightings hold {cells.shape[0]} batch items, 0 … {cells.shape[0] - 1}")
    return cells[batch, row["place"]].float()


@cache
def _ramp() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap([hexadecimal(signed((i - 128) / 128, dark=False)) for i in range(257)], name="regard-difference")
