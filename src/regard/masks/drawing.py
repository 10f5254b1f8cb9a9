"""A mask as a small picture: text for the terminal, SVG for notebooks. Queries down, keys across."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import Literal
from zlib import crc32

from regard.masks.mask import Mask

Cell = Literal["all", "none", "some"]

_NOTEBOOK_CELLS = 32
_LIGHT = "--ink:#1d4f9e;--soft:#8fb2e3;--line:#d5dae2;--hatch:#8a93a0"
_DARK = "--ink:#86b4f5;--soft:#3d6296;--line:#3a414b;--hatch:#77818e"
_STYLE = (  # the browser's colour scheme first, then the themes of Jupyter and VS Code
    f".regard-mask{{{_LIGHT};margin:8px 0;font:12px system-ui,sans-serif}}"
    f"@media(prefers-color-scheme:dark){{.regard-mask{{{_DARK}}}}}"
    f"[data-jp-theme-light=true] .regard-mask,.vscode-light .regard-mask{{{_LIGHT}}}"
    f"[data-jp-theme-light=false] .regard-mask,.vscode-dark .regard-mask{{{_DARK}}}"
    ".regard-mask .all{fill:var(--ink)}.regard-mask .some{fill:var(--soft)}.regard-mask path{stroke:var(--line);stroke-width:.5}"
    ".regard-mask .hatch{stroke:var(--hatch);stroke-width:1}.regard-mask code{background:none;color:inherit}"
)


def _cell(mask: Mask, rows: range, cols: range, L: int, S: int, batch: int, head: int) -> Cell:
    """Whether all, none or some of a rectangle is visible, computed in quarters so that a huge one is never built."""
    if len(rows) * len(cols) > 1 << 20:
        a, b = (len(rows) + 1) // 2, (len(cols) + 1) // 2
        first: Cell | None = None
        for r in filter(len, (rows[:a], rows[a:])):
            for c in filter(len, (cols[:b], cols[b:])):
                cell = _cell(mask, r, c, L, S, batch, head)
                if cell == "some" or first not in (None, cell):
                    return "some"
                first = cell
        return first or "none"
    tile = mask.tile(rows, cols, L, S)
    if isinstance(tile, str):
        return tile
    one = tile[batch if tile.shape[0] > 1 else 0, head if tile.shape[1] > 1 else 0]
    return "all" if bool(one.all()) else "some" if bool(one.any()) else "none"


def _grid(mask: Mask, L: int, S: int, max_rows: int, max_cols: int, batch: int, head: int) -> list[list[Cell]]:
    """The pattern on at most max_rows × max_cols cells."""
    for name, index, size in (("batch", batch, mask.lead[0]), ("head", head, mask.lead[1])):
        if index < 0 or (size > 1 and index >= size):
            raise ValueError(f"{name} is {index} but {mask!r} has {size}; count from 0")
    mask.check_size(L, S)
    down, across = max(1, -(-L // max_rows)), max(1, -(-S // max_cols))
    return [
        [_cell(mask, range(r, min(r + down, L)), range(c, min(c + across, S)), L, S, batch, head) for c in range(0, S, across)]
        for r in range(0, L, down)
    ]


def as_text(mask: Mask, L: int, S: int, *, width: int, batch: int, head: int, ascii: bool) -> str:
    """The mask as text: two characters a cell, which makes cells nearly square; one line per row of cells."""
    if width < 2:
        raise ValueError(f"width is {width}; a drawing needs at least 2 columns")
    characters: dict[Cell, str] = {"all": "##", "some": "++", "none": ".."} if ascii else {"all": "██", "some": "▒▒", "none": "··"}
    return "\n".join("".join(characters[cell] for cell in row) for row in _grid(mask, L, S, width // 2, width // 2, batch, head))


def as_html(mask: Mask) -> str:
    """The mask as an inline SVG with its code below, in the page's light or dark colours."""
    L, S = mask.size
    S = mask._preview_keys if S is None else S
    L = S if L is None else L
    grid = _grid(mask, L, S, _NOTEBOOK_CELLS, _NOTEBOOK_CELLS, 0, 0)
    rows, cols = len(grid), max(map(len, grid), default=0)
    side = 8 if max(rows, cols) > 16 else 12
    wide, high = cols * side, rows * side
    name = f"regard-hatch-{crc32(repr(mask).encode()):08x}"
    cells = ""
    for y, row in enumerate(grid):
        x = 0
        for kind, run in groupby(row):  # one rectangle per run of equal cells keeps the picture small
            n = len(list(run))
            if kind != "none":
                cells += f'<rect class="{kind}" x="{x * side}" y="{y * side}" width="{n * side}" height="{side}"/>'
            x += n
    lines = "".join([f"M{x * side} 0V{high}" for x in range(cols + 1)] + [f"M0 {y * side}H{wide}" for y in range(rows + 1)])
    code, shape = escape(repr(mask)), f"{L} queries × {S} keys" + (", first sequence and head" if mask.lead != (1, 1) else "")
    partly = ", pale blue partly visible" if any("some" in row for row in grid) else ""
    return (
        f'<figure class="regard-mask"><style>{_STYLE}</style>'
        f'<svg width="{wide + 1}" height="{high + 1}" viewBox="-.5 -.5 {wide + 1} {high + 1}" role="img" aria-label="{code}, {shape}">'
        f'<defs><pattern id="{name}" width="4" height="4" patternUnits="userSpaceOnUse"><path class="hatch" d="M0 4L4 0"/></pattern></defs>'
        f'<rect width="{wide}" height="{high}" fill="url(#{name})"/>{cells}<path d="{lines}"/></svg>'
        f"<figcaption><code>{code}</code><br>{shape}: blue visible, hatched hidden{partly}</figcaption></figure>"
    )
