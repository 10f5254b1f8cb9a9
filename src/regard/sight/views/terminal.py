"""Terminal views of a sighting: thumbnails of all heads, one head's weights, coloured words; in 24-bit colour or plain characters.

Axes: h heads, L queries, S keys, R × C cells of a map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from regard.colours import blue
from regard.terminal import Pen, columns, pad, shade

from .heatmaps import exact_weights, hidden_cells, map_cells
from .token_texts import TokenTexts

if TYPE_CHECKING:
    from ..sighting import Sighting


def heads_text(sighting: Sighting, pen: Pen | None = None, *, batch: int = 0, call: int = 0, width: int = 100, side: int = 8) -> str:
    """Return a thumbnail of `side` columns for every layer and head: layers down, heads across, as many as fit the width."""
    pen = Pen.detect() if pen is None else pen
    calls = [seen for seen in sighting if seen.call == call]
    columns_of_heads = max(1, (width - 5) // (side + 1))
    parts: list[str] = []
    for seen in calls:
        head_ids = seen.head_ids[:columns_of_heads]
        cells = map_cells(seen, batch, 4 * side, head_ids)
        if cells is None:
            parts.append(f"{seen.layer:>3}  {pen.quiet('no map: watch with readings=[Pooled(64, 64)]')}")
            continue
        if not parts or len(parts) % 12 == 0:
            more = f" … {len(seen.head_ids) - columns_of_heads} more" if len(seen.head_ids) > columns_of_heads else ""
            parts.append(pen.quiet("     " + " ".join(pad(str(head), side, "centre") for head in head_ids) + more))
        blocks = [_blocks(_shrunk(cells[i], side), pen) for i in range(len(head_ids))]
        for n, row in enumerate(zip(*blocks, strict=True)):
            name = f"{seen.layer:>3}  " if n == 0 else "     "
            parts.append(name + " ".join(row))
    proof = sighting.proof
    parts.append("")
    parts.append(pen.legend() + "   " + (pen.quiet if proof.holds else pen.strong)(str(proof)))
    return "\n".join(parts)


def pattern_text(
    sighting: Sighting, layer: int, head: int, pen: Pen | None = None, *, batch: int = 0, call: int = 0, width: int = 100
) -> str:
    """Return one head's weights, queries down and keys across: with tokens and numbers, tokens only, or a map, whichever fits the width."""
    pen = Pen.detect() if pen is None else pen
    seen = sighting.find(layer, call)
    texts = TokenTexts(sighting, batch)
    queries, keys = ([token.label for token in texts.of(seen, side)] for side in ("query", "key"))
    title = pen.strong(f"layer {layer} · head {head}") + "  " + pen.quiet(str(seen.proof))
    left = max(map(columns, queries), default=0)
    cell = max(6, max(map(columns, keys), default=0) + 1)
    if left + 1 + cell * len(keys) <= width and (weights := exact_weights(seen, batch, (head,))) is not None:
        hidden = hidden_cells(seen.mask, len(queries), len(keys), len(queries), len(keys), batch=batch, head=head)
        lines = _numbered_rows(weights[0], hidden, queries, keys, left, cell, pen)
    elif left + 1 + 2 * len(keys) <= width and len(queries) <= 64 and (weights := exact_weights(seen, batch, (head,))) is not None:
        lines = [pad(name, left, "right") + " " + "".join(map(pen.cell, weights[0, i].tolist())) for i, name in enumerate(queries)]
    elif (cells := map_cells(seen, batch, min(width - 2, 96), (head,))) is not None:
        lines = _blocks(cells[0].tolist(), pen)
    else:
        raise ValueError(f"layer {layer} has neither a pooled map nor queries and keys; watch with readings=[Pooled(64, 64)] or keep=True")
    return "\n".join([title, "", *lines, "", pen.legend()])


def _numbered_rows(
    weights: Tensor, hidden: Tensor | None, queries: Sequence[str], keys: Sequence[str], left: int, cell: int, pen: Pen
) -> list[str]:
    """Return weights (L, S) as a table of numbers in coloured cells of `cell` characters, with token labels; masked cells are hatched."""
    lines = [" " * (left + 1) + "".join(pad(key, cell, "centre") for key in keys)]
    for i, name in enumerate(queries):
        row = "".join(
            pen.hatched(cell)
            if hidden is not None and bool(hidden[i, j])
            else pen.cell(weight, cell, (f"{weight:.2f}" + ("" if pen.colour else shade(weight))) if weight >= 0.005 else "·")
            for j, weight in enumerate(weights[i].tolist())
        )
        lines.append(pad(name, left, "right") + " " + row)
    return lines


def words_text(
    sighting: Sighting,
    layer: int,
    head: int,
    pen: Pen | None = None,
    *,
    queries: Sequence[int] | None = None,
    batch: int = 0,
    call: int = 0,
) -> str:
    """Return the text once per query: the query's token in red, the others in blue by weight."""
    pen = Pen.detect() if pen is None else pen
    seen = sighting.find(layer, call)
    weights = exact_weights(seen, batch, (head,))
    if weights is None:
        raise ValueError(f"layer {layer} kept no queries and keys to recompute weights from; watch with keep=True")
    texts = TokenTexts(sighting, batch)
    query_tokens, keys = texts.of(seen, "query"), texts.of(seen, "key")
    lines = []
    for i in range(len(query_tokens)) if queries is None else queries:
        own_key = -1 if seen.kind == "cross" else i + seen.query_pos.start - seen.key_pos.start
        leading = [pen.current(query_tokens[i].label) + " "] if own_key < 0 else []
        row = [pen.current(key.text) if k == own_key else pen.word(key.text, float(weights[0, i, k])) for k, key in enumerate(keys)]
        lines.append(" ".join(leading + row))
    return "\n".join([*lines, "", pen.legend() + "   " + pen.quiet(str(seen.proof))])


def _shrunk(cells: Tensor, side: int) -> list[list[float]]:
    """Shrink a map to at most side × side cells by maximum, so that a thin diagonal stays visible."""
    R, C = cells.shape
    rows, cols = min(side, R), min(side, C)
    values = cells.tolist()
    return [
        [
            max(values[i][j] for i in range(r * R // rows, (r + 1) * R // rows) for j in range(c * C // cols, (c + 1) * C // cols))
            for c in range(cols)
        ]
        for r in range(rows)
    ]


def _blocks(cells: list[list[float]], pen: Pen) -> list[str]:
    """Return a map as text, two rows of cells per line: as half blocks, or without colour as one character for the larger cell."""
    lines = []
    for upper in range(0, len(cells), 2):
        above = cells[upper]
        below = cells[upper + 1] if upper + 1 < len(cells) else [0.0] * len(above)
        if pen.colour:
            lines.append("".join(_half(a, b, pen) for a, b in zip(above, below, strict=True)))
        else:
            lines.append("".join(shade(max(a, b)) for a, b in zip(above, below, strict=True)))
    return lines


def _half(above: float, below: float, pen: Pen) -> str:
    """Return one character that shows two weights; weights under 0.02 keep the terminal's background."""
    upper, lower = (blue(weight, dark=pen.dark) if weight >= 0.02 else None for weight in (above, below))
    if upper is None:
        return " " if lower is None else pen.paint("▄", lower)
    return pen.paint("▀", upper, lower)
