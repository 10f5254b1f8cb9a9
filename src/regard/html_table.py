"""A table as HTML, for results that show themselves in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isnan

from .colours import blue

_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5em 0"
_CELL = "padding:.15em .8em;border:0"


def html_table(
    rows: Sequence[Sequence[str]], *, title: str = "", note: str = "", shades: Sequence[Sequence[float | None]] | None = None, rest: int = 0
) -> str:
    """Return rows of texts as a table: the first row is the header; columns of numbers are aligned right.

    shades  by body cell, a weight in [0, 1] that colours its background, or None; the colour suits light and dark pages
    rest    how many further rows are not shown; said below the table

    >>> html_table([["part", "count"], ["query", "4,096"]], title="layer").count("<td")
    2
    """
    header, *body = rows
    sides = [_side([row[column] for row in body]) if column else "text-align:left" for column in range(len(header))]
    lines = [f'<div class="regard-table" style="overflow-x:auto"><table style="{_TABLE}">']
    if title:
        lines.append(f'<caption style="text-align:left;font-weight:600;caption-side:top;white-space:nowrap">{escape(title)}</caption>')
    cells = "".join(f'<th scope="col" style="{_CELL};{side}">{escape(text)}</th>' for side, text in zip(sides, header, strict=True))
    lines.append(f"<thead><tr>{cells}</tr></thead><tbody>")
    for number, row in enumerate(body):
        shade = shades[number] if shades is not None else [None] * len(row)
        cells = "".join(
            f'<td style="{_CELL};{side}{_background(weight)}">{escape(text)}</td>'
            for side, text, weight in zip(sides, row, shade, strict=True)
        )
        lines.append(f"<tr>{cells}</tr>")
    lines.append("</tbody></table>")
    notes = [*([f"{rest:,} more rows"] if rest else []), *([note] if note else [])]
    lines += [f'<div style="font-size:85%;opacity:.75">{escape(text)}</div>' for text in notes]
    return "".join(lines) + "</div>"


def _side(cells: Sequence[str]) -> str:
    """The style of a column: its cells are numbers, with or without a unit, or text."""
    numbers = all(cell.lstrip("−-")[:1].isdigit() for cell in cells if cell not in ("", "n/a", "nan"))
    return "text-align:right;white-space:nowrap" if numbers else "text-align:left"


def _background(weight: float | None) -> str:
    if weight is None or isnan(weight) or weight <= 0:
        return ""
    red, green, deep = blue(0.75, dark=False)
    return f";background:rgba({red},{green},{deep},{min(weight, 1.0) * 0.6:.2f})"
