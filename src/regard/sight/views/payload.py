"""A sighting as one compact JSON object: the data of the report page, the notebook view and the studio.

Arrays are stored in one binary blob (gzip, base64); the JSON refers to them by ``[offset, length, type]``. A short text keeps its exact
weights (float32), a long one 8-bit pooled maps and the keys with the largest weights of every row.

Axes: h heads, L queries, S keys, R × C cells of a pooled map, k largest weights of a row.
"""

from __future__ import annotations

import base64
import gzip
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.choices import Softmax
from regard.masks import Mask

from ..labels import ranked
from .heatmaps import RECOMPUTED_WEIGHTS, exact_weights, hidden_cells, map_cells
from .token_display import DisplayToken
from .token_texts import TokenTexts, tokens_json

if TYPE_CHECKING:
    from ..proof import Proof
    from ..sighting import Seen, Sighting

FORMAT = 1
EXACT_BYTES = 8_000_000  # limit of the float32 weights of all heads; above it the page gets maps and top keys
BLOB_BYTES = 11_000_000  # limit before gzip; 14.7 MB as base64
_MAP_BYTES = 4_000_000
_FLOAT_TOKENS = 512  # most tokens for which a per-token reading is stored as float32
_MAX_POINTS = 4096  # of a per-token reading of a longer text

Ref = list[int | str]


class Blob:
    """Concatenated arrays, each aligned to four bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._refs: dict[bytes, Ref] = {}
        self.size = 0

    def add(self, array: np.ndarray[Any, Any], kind: str) -> Ref:
        """Append an array, unless an equal one is stored already, and return its reference.

        kind: f4, u1, u2, or p2/p4 (u2/u4 stored as byte planes, which compress better).
        """
        if kind in ("p2", "p4"):
            width = int(kind[1])
            data = np.ascontiguousarray(array.astype(f"<u{width}").reshape(-1, 1).view(np.uint8).T).tobytes()
        else:
            data = np.ascontiguousarray(array.astype("<" + kind)).tobytes()
        if (stored := self._refs.get(data)) is not None and stored[2] == kind:
            return stored
        ref: Ref = [self.size, int(array.size), kind]
        padding = -len(data) % 4
        self._parts += [data, b"\0" * padding]
        self._refs[data] = ref
        self.size += len(data) + padding
        return ref

    def text(self, level: int = 6) -> str:
        """Return all arrays as base64 text of gzip data. level: of compression; 0 stores them as they are."""
        return base64.b64encode(gzip.compress(b"".join(self._parts), level, mtime=0)).decode("ascii")


def encode8(weights: Tensor, top: Tensor) -> Tensor:
    """Encode weights in [0, top] as bytes c with weight ≈ top·(c/255)²: small weights keep their order, and only zero becomes 0.

    >>> encode8(torch.tensor([0.0, 1e-6, 0.25, 1.0]), torch.tensor(1.0)).tolist()
    [0, 1, 128, 255]
    """
    code = (weights / top.clamp(min=1e-30)).clamp(0, 1).sqrt().mul(255).round()
    return torch.where(weights > 0, code.clamp(min=1), 0).to(torch.uint8)


def build_payload(
    sighting: Sighting,
    *,
    batch: int = 0,
    title: str | None = None,
    exact_bytes: int = EXACT_BYTES,
    blob_bytes: int = BLOB_BYTES,
    level: int = 6,
) -> dict[str, Any]:
    """Return the data that the page draws for one batch item, as plain JSON values. level: of the compression of its arrays."""
    calls = list(sighting)
    if not calls:
        missed = "".join(f"; not captured: {name}: {advice}" for name, _, advice in sighting.missed)
        raise ValueError(
            f"the sighting is empty, so there is nothing to draw; run the model inside the `with regard.watch(model)` block{missed}"
        )
    blob = Blob()
    texts = TokenTexts(sighting, batch)
    sizes = [_sizes(seen) for seen in calls]
    heads = sum(h for h, _, _ in sizes)
    weights = sum(h * L * S for h, L, S in sizes)
    exact = 4 * weights <= exact_bytes
    recompute = RECOMPUTED_WEIGHTS if weights <= RECOMPUTED_WEIGHTS else 0
    side = 256
    while side > 32 and heads * side * side > _MAP_BYTES:
        side //= 2
    entries = [_entry(seen, batch, exact, side, recompute, blob, texts) for seen in calls]
    depth, wide = _top_budget(calls, sizes, entries, blob_bytes - blob.size)
    for seen, entry in zip(calls, entries, strict=True):
        if entry["exact"] is None and "top" in seen.readings:
            entry["top"] = _top(seen, batch, depth, wide, blob)
    return {
        "format": FORMAT,
        "model": str(sighting.model),
        "title": title,
        "texts": texts.to_json(),
        "seen": entries,
        "missed": [[str(part) for part in missed] for missed in sighting.missed],
        "bytes": blob.size,
        "blob": blob.text(level),
    }


def pair_payload(weights: Tensor, target: Sequence[str], source: Sequence[str], *, title: str = "") -> dict[str, Any]:
    """Return one alignment (T, S) of target words (queries) with source words (keys) as a payload of one head."""
    weights = torch.as_tensor(weights).detach()
    if weights.dim() != 2 or tuple(weights.shape) != (len(target), len(source)):
        raise ValueError(
            f"weights are {tuple(weights.shape)} but there are {len(target)} target and {len(source)} source words; "
            "pass one row per target word and one column per source word"
        )
    blob = Blob()
    exact = blob.add(_array(weights.float()), "f4")
    rows = weights.double().sum(-1)
    error = float((rows - 1).abs().max()) if len(target) else 0.0
    entropy = -torch.special.xlogy(weights.double(), weights.double()).sum(-1)
    entry = {
        "layer": 0, "call": 0, "name": "alignment", "kind": "cross", "heads": 1, "L": len(target), "S": len(source),
        "query": {"text": 1, "start": 0}, "key": {"text": 0, "start": 0}, "mask": None, "labels": [[]], "ids": [0], "exact": exact,
        "proof": {"row_sum_error": error, "rows_checked": len(target), "holds": error < 1e-3},
        "means": {"entropy": [float(entropy.mean()) if len(target) else 0.0]},
    }  # fmt: skip
    texts = [tokens_json([DisplayToken(word, "_") for word in words]) for words in (source, target)]
    payload = {"format": FORMAT, "model": "", "title": title, "texts": texts, "seen": [entry], "missed": []}
    return {**payload, "bytes": blob.size, "blob": blob.text()}


def proof_json(proof: Proof) -> dict[str, Any]:
    """Return a proof as plain JSON values; NaN and infinity become null."""
    return {name: _number(value) if isinstance(value, float) else value for name, value in asdict(proof).items()}


def _entry(seen: Seen, batch: int, exact: bool, side: int, recompute: int, blob: Blob, texts: TokenTexts) -> dict[str, Any]:
    """Return one call: its description, its weights or maps, and its readings."""
    h, L, S = _sizes(seen)
    entry: dict[str, Any] = {
        "layer": int(seen.layer), "call": int(seen.call), "name": str(seen.name), "kind": str(seen.kind), "heads": h, "L": L, "S": S,
        "query": texts.location(seen, "query"), "key": texts.location(seen, "key"), "mask": None if seen.mask is None else repr(seen.mask),
        "proof": proof_json(seen.proof), "labels": _labels(seen), "ids": list(seen.head_ids), "exact": None,
    }  # fmt: skip
    weights = exact_weights(seen, batch) if exact else None
    if weights is not None:
        entry["exact"] = blob.add(_array(_with_masked(weights.float(), seen, batch)), "f4")
    elif (cells := map_cells(seen, batch, side, recompute=recompute)) is not None:
        entry["map"] = _map(seen, cells, batch, blob)
    _add_readings(entry, seen, batch, blob)
    return entry


def _map(seen: Seen, cells: Tensor, batch: int, blob: Blob) -> dict[str, Any]:
    """Return pooled maps (h, R, C) as bytes, and which of their cells are masked."""
    _, L, S = _sizes(seen)
    rows, cols = cells.shape[-2:]
    top = cells.amax((-1, -2))
    encoded: dict[str, Any] = {
        "rows": rows, "cols": cols, "cells": blob.add(_array(encode8(cells, top[:, None, None])), "u1"), "top": _floats(top)
    }  # fmt: skip
    hidden = hidden_cells(seen.mask, L, S, rows, cols, batch=batch)
    if hidden is not None:
        encoded["hidden"] = blob.add(np.packbits(_array(hidden), axis=None), "u1")
    return encoded


def _add_readings(entry: dict[str, Any], seen: Seen, batch: int, blob: Blob) -> None:
    """Add the readings per token, the distance profile, and the means per head."""
    readings = seen.readings
    means: dict[str, list[float | None]] = {}
    for name in ("entropy", "sink", "received"):
        if name in readings:
            entry[name], mean = _track(readings[name][batch].detach(), blob)
            means[name] = mean
    if "value_norm" in readings:
        entry["value_norm"], means["value_norm"] = _track(readings["value_norm"].by_key[batch].detach(), blob)
    if "max_logit" in readings:
        softmax = seen.kept is not None and type(seen.kept.spec.choice) is Softmax
        # The page computes every score from a row's largest score and its softmax weights.
        if entry["exact"] is not None and softmax and len(seen.query_pos) <= _FLOAT_TOKENS:
            entry["max_logit"], _ = _track(readings["max_logit"][batch].detach(), blob)
        means["max_logit"] = _floats(readings["max_logit"][batch].detach().amax(-1))
    if "distance" in readings:
        profile = readings["distance"]
        entry["distance"] = {"offsets": [list(o) for o in profile.offsets], "mass": [_floats(m) for m in profile.mass[batch]]}
    entry["means"] = means


def _with_masked(weights: Tensor, seen: Seen, batch: int) -> Tensor:
    """Return weights (h, L, S) with −1 where the mask hides a key."""
    _, L, S = weights.shape
    mask_per_head = isinstance(seen.mask, Mask) and seen.mask.lead[1] > 1
    for position, head in enumerate(seen.head_ids if mask_per_head else (0,)):
        hidden = hidden_cells(seen.mask, L, S, L, S, batch=batch, head=head)
        if hidden is not None:
            part = weights[position] if mask_per_head else weights
            filled = part.masked_fill(hidden.to(weights.device) & (part == 0), -1)
            weights = torch.cat([weights[:position], filled[None], weights[position + 1 :]]) if mask_per_head else filled
    return weights


def _track(values: Tensor, blob: Blob) -> tuple[dict[str, Any], list[float | None]]:
    """Return a reading per token (h, n), as float32 or for long texts as bytes of at most `_MAX_POINTS` means; and its mean per head."""
    values = torch.where(values.isfinite(), values, 0.0).float()
    mean = _floats(values.mean(-1))
    n = values.shape[-1]
    if n <= _FLOAT_TOKENS:
        return {"points": n, "values": blob.add(_array(values), "f4")}, mean
    points = min(n, _MAX_POINTS)
    point = torch.arange(n, device=values.device) * points // n
    averaged = values.new_zeros(values.shape[0], points).index_add_(-1, point, values) / torch.bincount(point, minlength=points)
    top = averaged.amax(-1)
    return {"points": points, "bytes": blob.add(_array(encode8(averaged, top[:, None])), "u1"), "top": _floats(top)}, mean


def _top(seen: Seen, batch: int, depth: int, wide: bool, blob: Blob) -> dict[str, Any]:
    """Return the `depth` largest weights of every row and their keys; `wide`: weights as 16 bits instead of 8."""
    weights, keys = (x[batch, :, :, :depth].detach() for x in seen.readings["top"])  # (h, L, k)
    S = _sizes(seen)[2]
    kind = "p2" if S < 1 << 16 else "p4"
    absent = (1 << (16 if kind == "p2" else 32)) - 1
    indices = torch.where(keys < 0, absent, keys)
    code = weights.float().clamp(0, 1).mul(65535).round() if wide else encode8(weights.float(), torch.tensor(1.0, device=weights.device))
    return {
        "k": int(weights.shape[-1]), "keys": blob.add(_array(indices), kind), "absent": absent,
        "weights": blob.add(_array(code), "p2" if wide else "u1"), "rounded": not wide,
    }  # fmt: skip


def _top_budget(
    calls: Iterable[Seen], sizes: Iterable[tuple[int, int, int]], entries: Iterable[dict[str, Any]], bytes_left: int
) -> tuple[int, bool]:
    """Return how many keys per row fit into the bytes left, and whether their weights can have 16 bits."""
    key_bytes, most_keys = 0, 0  # bytes of one key for every row; keys per row in the readings
    for seen, (h, L, S), entry in zip(calls, sizes, entries, strict=True):
        if entry["exact"] is None and "top" in seen.readings:
            key_bytes += h * L * (2 if S < 1 << 16 else 4)
            most_keys = max(most_keys, int(seen.readings["top"].weights.shape[-1]))
    rows = max(key_bytes, 1) // 2
    for depth in range(min(most_keys, 8), 0, -1):
        for wide in (True, False):
            if depth * (key_bytes + rows * (2 if wide else 1)) <= bytes_left:
                # Another key per row is worth more than 16 bits per weight.
                return depth, wide
    return 1, False


def _labels(seen: Seen) -> list[list[list[Any]]]:
    """Return [[label, score], …] of each head, best first, without labels that have no meaning (NaN)."""
    rows = [
        [(name, round(float(score), 4)) for name, score in (seen.labels or {}).get(head, ()) if score == score] for head in seen.head_ids
    ]
    return [[list(pair) for pair in ranked(row)] for row in rows]


def _sizes(seen: Seen) -> tuple[int, int, int]:
    return len(seen.head_ids), len(seen.query_pos), len(seen.key_pos)


def _array(values: Tensor) -> np.ndarray[Any, Any]:
    return values.detach().to("cpu").numpy()  # numpy needs CPU memory


def _floats(values: Tensor) -> list[float | None]:
    return [_number(v) for v in values.tolist()]


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
