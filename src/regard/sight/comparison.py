"""Compare two sightings: of two texts, or of two checkpoints of one model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..files import write_text
from ..html_table import html_table
from ..terminal import table
from .summary import finite, head_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .sighting import Seen, Sighting

_SHOWN = 18  # rows of the printed table, which should fit a screen
_COLUMNS = ("entropy", "heaviest", "sink", "distance")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """One row per layer, call and head: the readings of the first sighting (`_a`), of the second (`_b`), and the distance of their weights.

    `apart` is the mean total variation distance of the pooled weights (0: equal, 1: disjoint); None where their sizes differ.
    pooled: second − first of the pooled weights, (B, h, rows, cols), by (layer, call), where their sizes agree.
    """

    rows: list[dict[str, Any]]
    pooled: dict[tuple[int, int], Tensor]

    def largest(self, count: int = 10) -> list[dict[str, Any]]:
        """Return the rows of the heads that differ most."""
        return sorted(self.rows, key=_difference_size, reverse=True)[:count]

    def figure(self, layer: int | None = None, head: int | None = None, **options: Any) -> Figure:
        """Draw second − first as a heat map, blue to orange: one head, or the heads that differ most. Options: see `views.difference`."""
        from .views.difference import difference

        return difference(self, layer, head, **options)

    def save(self, path: str | Path, layer: int | None = None, head: int | None = None, **options: Any) -> Path:
        """Write the figure as .svg, .pdf or .png (arguments as for `figure`), or all rows as .json."""
        path = Path(path)
        if path.suffix.lower() == ".json":
            rows = [{name: finite(x) if isinstance(x, float) else x for name, x in row.items()} for row in self.rows]
            return write_text(path, json.dumps(rows, indent=1, allow_nan=False) + "\n")
        from ..plotting import figure_file, save_figure

        figure_file(path)
        return save_figure(self.figure(layer, head, **options), path)

    def to_pandas(self) -> Any:
        """Return the rows as a DataFrame."""
        import pandas

        return pandas.DataFrame(self.rows)

    def __repr__(self) -> str:
        row = self.largest(1)[0]
        apart = "" if row["apart"] is None else f", apart {row['apart']:.3f}"
        return f"Comparison({len(self.rows)} heads; most different: layer {row['layer']}, head {row['head']}{apart})"

    def __str__(self) -> str:
        rest = len(self.rows) - _SHOWN
        return table(self._texts()) + (f"\n… {rest:,} more heads; .rows or .to_pandas() has all" if rest > 0 else "")

    def _repr_html_(self) -> str:
        note = "a: first sighting, b: second; apart: total variation distance of the weights, 0 equal, 1 disjoint"
        return html_table(self._texts(), title="heads that differ most", note=note, rest=max(len(self.rows) - _SHOWN, 0))

    def _texts(self) -> list[list[str]]:
        header = ["layer.head", *(f"{name} a → b" for name in _COLUMNS), "apart"]
        body = [
            [f"{row['layer']}.{row['head']}"]
            + [f"{row[name + '_a']:.2f} → {row[name + '_b']:.2f}" if name + "_a" in row else "" for name in _COLUMNS]
            + ["" if row["apart"] is None else f"{row['apart']:.3f}"]
            for row in self.largest(_SHOWN)
        ]
        return [header, *body]


def compare(first: Sighting, second: Sighting) -> Comparison:
    """Match two sightings by layer, call and head; heads that only one of them has are left out."""
    second_by_call = {(seen.layer, seen.call): seen for seen in second}
    rows: list[dict[str, Any]] = []
    pooled: dict[tuple[int, int], Tensor] = {}
    for a in first:
        b = second_by_call.get((a.layer, a.call))
        if b is None:
            continue
        apart: Tensor | None = None  # (h,)
        if (difference := _pooled_difference(a, b)) is not None:
            pooled[a.layer, a.call] = difference
            apart = difference.abs().sum(-1).mean((0, 2)) / 2
        numbers_a, numbers_b = head_numbers(a), head_numbers(b)
        for head in (head for head in a.head_ids if head in b.head_ids):
            i, j = a.head_ids.index(head), b.head_ids.index(head)
            row: dict[str, Any] = {"layer": a.layer, "call": a.call, "name": a.name, "head": head, "place": i}
            for name in numbers_a.keys() & numbers_b.keys():
                row |= {f"{name}_a": float(numbers_a[name][:, i].mean()), f"{name}_b": float(numbers_b[name][:, j].mean())}
            row["apart"] = None if apart is None else float(apart[i])
            rows.append(row)
    if not rows:
        raise ValueError("the two sightings share no layer, call and head; compare sightings of the same architecture")
    return Comparison(rows, pooled)


def _pooled_difference(a: Seen, b: Seen) -> Tensor | None:
    """Return b − a of the pooled weights, (B, h, rows, cols); None where they cannot be subtracted."""
    x, y = a.readings.get("pooled"), b.readings.get("pooled")
    if x is None or y is None or x.shape != y.shape or a.head_ids != b.head_ids:
        return None
    difference: Tensor = y - x
    return difference


def _difference_size(row: dict[str, Any]) -> float:
    """Return how much a head differs: by its weights, or where they cannot be compared by its readings."""
    if row["apart"] is not None:
        return float(row["apart"])
    return sum(abs(float(row[f"{name}_a"]) - float(row[f"{name}_b"])) for name in _COLUMNS if f"{name}_a" in row)
