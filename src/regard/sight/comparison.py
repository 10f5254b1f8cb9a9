"""Two sightings side by side: two texts, or two checkpoints of one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..terminal import table
from .summary import head_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .sighting import Seen, Sighting

_SHOWN = ("entropy", "heaviest", "sink", "distance")


@dataclass(frozen=True, eq=False)
class Comparison:
    """One row per layer, call and head: each number of the first, of the second, and how far their patterns are apart.

    `apart` is the mean total variation of the pooled maps (0 the same, 1 nothing in common); None where their sizes differ.
    pooled: (B, h, rows, cols) second − first, by (layer, call), where their sizes agree.
    """

    rows: list[dict[str, Any]]
    pooled: dict[tuple[int, int], Tensor]

    def largest(self, count: int = 10) -> list[dict[str, Any]]:
        """The heads that differ most."""
        return sorted(self.rows, key=_difference, reverse=True)[:count]

    def figure(self, layer: int | None = None, head: int | None = None, **options: Any) -> Figure:
        """Second − first as a picture, blue to orange: one head, or the heads that differ most. Options as `difference.difference`."""
        from .views.difference import difference

        return difference(self, layer, head, **options)

    def to_pandas(self) -> Any:
        import pandas

        return pandas.DataFrame(self.rows)

    def __str__(self) -> str:
        head = ["layer.head", *(f"{name} a → b" for name in _SHOWN), "apart"]
        body = [
            [f"{row['layer']}.{row['head']}"]
            + [f"{row[name + '_a']:.2f} → {row[name + '_b']:.2f}" if name + "_a" in row else "" for name in _SHOWN]
            + ["" if row["apart"] is None else f"{row['apart']:.3f}"]
            for row in self.largest(20)
        ]
        return table([head, *body])


def compare(first: Sighting, second: Sighting) -> Comparison:
    """Match the two by layer and call; heads that only one of them has are left out."""
    others = {(seen.layer, seen.call): seen for seen in second}
    rows: list[dict[str, Any]] = []
    pooled: dict[tuple[int, int], Tensor] = {}
    for a in first:
        b = others.get((a.layer, a.call))
        if b is None:
            continue
        apart = _pooled(a, b, pooled)
        before, after = head_numbers(a), head_numbers(b)
        for head in (head for head in a.head_ids if head in b.head_ids):
            i, j = a.head_ids.index(head), b.head_ids.index(head)
            row: dict[str, Any] = {"layer": a.layer, "call": a.call, "name": a.name, "head": head, "place": i}
            for name in before.keys() & after.keys():
                row |= {f"{name}_a": float(before[name][:, i].mean()), f"{name}_b": float(after[name][:, j].mean())}
            row["apart"] = None if apart is None else float(apart[i])
            rows.append(row)
    if not rows:
        raise ValueError("the two sightings share no layer, call and head; compare sightings of one architecture")
    return Comparison(rows, pooled)


def _pooled(a: Seen, b: Seen, into: dict[tuple[int, int], Tensor]) -> Tensor | None:
    x, y = a.readings.get("pooled"), b.readings.get("pooled")
    if x is None or y is None or x.shape != y.shape or a.head_ids != b.head_ids:
        return None
    difference = into[a.layer, a.call] = y - x
    apart: Tensor = difference.abs().sum(-1).mean((0, 2)) / 2  # (h,)
    return apart


def _difference(row: dict[str, Any]) -> float:
    if row["apart"] is not None:
        return float(row["apart"])
    return sum(abs(float(row[f"{name}_a"]) - float(row[f"{name}_b"])) for name in _SHOWN if f"{name}_a" in row)
