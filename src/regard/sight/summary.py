"""Tables of a sighting: one row per call, batch item and head, or per query; and its text summary."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..html_table import html_table
from ..terminal import table

if TYPE_CHECKING:
    from .sighting import Seen, Sighting


def summary(sighting: Sighting) -> list[dict[str, Any]]:
    """Return one row per call, batch item and head, with readings averaged over queries."""
    rows: list[dict[str, Any]] = []
    for seen in sighting:
        numbers = head_numbers(seen)
        B = seen.shape[0]
        for b in range(B):
            for position, head in enumerate(seen.head_ids):
                row: dict[str, Any] = {
                    "layer": seen.layer,
                    "call": seen.call,
                    "name": seen.name,
                    "kind": seen.kind,
                    "batch": b,
                    "head": head,
                }
                row |= {name: float(value[b, position]) for name, value in numbers.items()}
                row |= {"labels": ", ".join(f"{label} {score:.2f}" for label, score in (seen.labels or {}).get(head, []))}
                row |= {"proof": seen.proof.output_error, "holds": seen.proof.holds}
                rows.append(row)
    return rows


def head_numbers(seen: Seen) -> dict[str, Tensor]:
    """Return each reading as one number per head, (B, h): the mean over queries that see a key, or the maximum for max_logit."""
    numbers: dict[str, Tensor] = {}
    readings = seen.readings
    seeing = _rows_with_keys(seen)

    def mean(x: Tensor) -> Tensor:
        return x.mean(-1) if seeing is None else (x * seeing).sum(-1) / seeing.sum(-1).clamp(min=1)

    if "entropy" in readings:
        numbers["entropy"] = mean(readings["entropy"])
    if "sink" in readings:
        numbers["sink"] = mean(readings["sink"])
    if "top" in readings:
        numbers["heaviest"] = mean(readings["top"].weights[..., 0])
    if "max_logit" in readings:
        numbers["max_logit"] = readings["max_logit"].amax(-1)
    if "distance" in readings:
        numbers["distance"] = mean_distance(readings["distance"])
    if "value_norm" in readings:
        numbers["value_norm"] = mean(readings["value_norm"].by_query)
    return numbers


def _rows_with_keys(seen: Seen) -> Tensor | None:
    """Return which queries see a key, (B, h, L) or broadcasting to it; None if all do. Padding often sees none, and no mean counts it."""
    seeing: Tensor | None = None
    if "max_logit" in seen.readings:
        seeing = seen.readings["max_logit"] > -math.inf
    elif "top" in seen.readings:
        seeing = seen.readings["top"].weights[..., 0] > 0
    elif seen.mask is not None and (spans := seen.mask.spans(len(seen.query_pos), len(seen.key_pos))) is not None:
        seeing = (spans[..., 0] < spans[..., 1]).any(-1)
    return None if seeing is None or bool(seeing.all()) else seeing


def heads_html(seen: Seen) -> str:
    """Return a table of a call's heads with their readings, averaged over the batch, for a notebook."""
    numbers = {name: value.mean(0) for name, value in head_numbers(seen).items()}
    rows = [["head", *numbers, *(["labels"] if seen.labels else [])]]
    for position, head in enumerate(seen.head_ids):
        row = [str(head), *(f"{float(value[position]):.2f}" for value in numbers.values())]
        if seen.labels:
            row.append(", ".join(f"{label} {score:.2f}" for label, score in seen.labels.get(head, [])))
        rows.append(row)
    return html_table(rows, title=f"layer {seen.layer}, {seen.name}, {seen.kind}", note=f"proof {seen.proof}")


def mean_distance(profile: Any) -> Tensor:
    """Compute the mean distance from query to key in positions, (B, h); a bin of offsets counts as its midpoint."""
    mass = profile.mass
    midpoint = mass.new_tensor([abs(a + b) / 2 for a, b in profile.offsets])
    return (mass * midpoint).sum(-1) / mass.sum(-1).clamp(min=1e-12)  # type: ignore[no-any-return]


def to_pandas(sighting: Sighting, per: str) -> Any:
    """Return a DataFrame with one row per head (per="head") or per query (per="query")."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install 'regard[tables]'") from error
    if per == "head":
        return pandas.DataFrame(summary(sighting))
    if per != "query":
        raise ValueError(f"per is {per!r}; pass 'head' or 'query'")
    frames = [_by_query(seen, pandas) for seen in sighting]
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()


def _by_query(seen: Seen, pandas: Any) -> Any:
    """Return a DataFrame of one call, one row per batch item, head and query."""
    B, h, L, _ = seen.shape
    index = pandas.MultiIndex.from_product([range(B), seen.head_ids, seen.query_pos], names=["batch", "head", "query"])
    columns: dict[str, Any] = {}
    for name, value in seen.readings.items():
        if name == "top":
            for k in range(value.keys.shape[-1]):
                columns |= {f"key{k}": value.keys[..., k], f"weight{k}": value.weights[..., k]}
        elif isinstance(value, Tensor) and tuple(value.shape) == (B, h, L) and name != "received":
            columns[name] = value
    frame = pandas.DataFrame({name: value.flatten().numpy(force=True) for name, value in columns.items()}, index=index).reset_index()
    frame.insert(0, "call", seen.call)
    frame.insert(0, "layer", seen.layer)
    return frame


def describe(sighting: Sighting, max_layers: int = 16) -> str:
    """Return a text summary: model and sizes, proof, mean readings of each layer, and what could not be captured."""
    if not len(sighting):
        return f"Sighting of {sighting.model}: no attention recorded yet" + _missed_lines(sighting)
    first = sighting[0]
    heads = sorted({seen.heads for seen in sighting})
    head_count = f"{heads[0]}" if len(heads) == 1 else f"{heads[0]}…{heads[-1]}"
    calls = max(seen.call for seen in sighting) + 1
    size = f"{len(first.query_pos):,} × {len(first.key_pos):,}"
    title = f"{sighting.model}: {sighting.layers} layers × {head_count} heads, {size} tokens" + (f", {calls} calls" if calls > 1 else "")
    lines = [title, f"proof {sighting.proof}"]
    rows = [["layer", "kind", "entropy", "heaviest", "sink", "distance", "name"]]
    first_calls = [seen for seen in sighting if seen.call == 0]
    for seen in first_calls[:max_layers]:
        numbers = {name: float(value.mean()) for name, value in head_numbers(seen).items()}
        cells = [f"{numbers[name]:.2f}" if name in numbers else "" for name in ("entropy", "heaviest", "sink", "distance")]
        rows.append([str(seen.layer), seen.kind, *cells, seen.name])
    lines.append(table(rows))
    if len(first_calls) > max_layers:
        lines.append(f"… and {len(first_calls) - max_layers} more layers; .summary() or .to_pandas() has all")
    if kept_bytes := sighting.kept_bytes:
        lines.append(f"queries and keys kept for exact weights: {kept_bytes / 1e6:.1f} MB")
    return "\n".join(lines) + _missed_lines(sighting)


def _missed_lines(sighting: Sighting) -> str:
    lines = [f"\nNOT CAPTURED: {m.name}, shape {tuple(m.shape)}: {m.advice}" for m in sighting.missed[:3]]
    rest = len(sighting.missed) - 3
    return "".join(lines) + (f"\nNOT CAPTURED: {rest} more; .missed has all" if rest > 0 else "")


def finite(x: float) -> float | None:
    """Return None for NaN and infinity, which JSON cannot hold."""
    return None if math.isnan(x) or math.isinf(x) else x
