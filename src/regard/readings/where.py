"""Where the weights are: by distance, on chosen keys, on keys of the same id, as a thumbnail, as whole rows.

Axes: B batch, h heads, L queries, S keys, l rows and s columns of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .reading import CompiledPass, Reading, Shape, SumWith, Total


class Profile(NamedTuple):
    """Mean weight by signed offset key − query, with the last query at the position of the last key.

    mass: (B, h, bins): mean over the rows with visible keys; a row's bins sum to its total weight.
    offsets: (first, last) offset of each bin.

    >>> from regard import causal, observe
    >>> q = torch.zeros(1, 1, 2, 8)
    >>> profile = observe(q, q, q, mask=causal(), readings=[Distance()]).readings["distance"]
    >>> {bin: round(mass, 2) for bin, mass in zip(profile.offsets, profile.mass[0, 0].tolist()) if mass}
    {(-1, -1): 0.25, (0, 0): 0.75}
    """

    mass: Tensor
    offsets: tuple[tuple[int, int], ...]


class Distance(Reading):
    """How far heads attend: weight by signed offset in bins … −8…−5, −4…−3, −2, −1, 0, 1, 2, 3…4, 5…8 …: a :class:`Profile`.

    >>> from regard import observe
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Distance()]).readings["distance"].mass.shape[:2]
    torch.Size([1, 1])
    """

    name = "distance"

    def start(self, shape: Shape) -> dict[str, Any]:
        side = _bin(max(shape.L, shape.S, 1))
        return {"mass": shape.zeros(2 * side + 1), "rows": shape.zeros(shape.L), "side": side, "shift": shape.S - shape.L}

    def add(self, state: dict[str, Any], p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        side = state["side"]
        first, last = cols.start - (rows.stop - 1 + state["shift"]), cols.stop - 1 - (rows.start + state["shift"])
        lo, hi = _signed_bin(first), _signed_bin(last)
        state["rows"][:, :, rows.start : rows.stop] += p.sum(-1)
        if lo == hi:
            state["mass"][:, :, side + lo] += p.sum((-1, -2))
            return
        offset = torch.arange(cols.start, cols.stop, device=p.device) - (
            torch.arange(rows.start, rows.stop, device=p.device) + state["shift"]
        ).unsqueeze(-1)
        flat = p.flatten(-2)
        for number in range(lo, hi + 1):
            a, b = _edges(number)
            inside = ((offset >= a) & (offset <= b)).flatten().to(p.dtype)
            state["mass"][:, :, side + number] += flat @ inside

    def compiled(self, run: CompiledPass) -> Callable[[], Profile] | None:
        if run.outputs.distance:
            return None
        state = self.start(run.shape)
        bins, mass = run.over_rows(2 * state["side"] + 1), run.row_mass()
        run.outputs.distance, run.outputs.side = run.address(bins), state["side"]
        return lambda: self.finish({**state, "mass": bins.sum(0).to(run.shape.dtype), "rows": mass})

    def merge(self, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        return {**a, "mass": a["mass"] + b["mass"], "rows": a["rows"] + b["rows"]}

    def finish(self, state: dict[str, Any]) -> Profile:
        side = state["side"]
        count = (state["rows"] > 0).sum(-1, keepdim=True).clamp(min=1)
        return Profile(state["mass"] / count, tuple(_edges(n) for n in range(-side, side + 1)))


def _bin(distance: int) -> int:
    """The bin of a distance: 0 → 0, 1 → 1, 2 → 2, 3…4 → 3, 5…8 → 4 …"""
    return 0 if distance == 0 else (distance - 1).bit_length() + 1


def _signed_bin(offset: int) -> int:
    return _bin(offset) if offset >= 0 else -_bin(-offset)


def _edges(number: int) -> tuple[int, int]:
    """The first and last offset of a signed bin."""
    if number < 0:
        low, high = _edges(-number)
        return -high, -low
    return (number, number) if number < 3 else (2 ** (number - 2) + 1, 2 ** (number - 1))


class At(SumWith):
    """The weight on one chosen key per query, (B, h, L).

    keys: the chosen key, (L,), (B, L) or (B, h, L); −1 gives 0.

    Raises ValueError for keys of another shape or dtype.

    >>> from regard import observe
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[At(torch.tensor([0, 0, 1, -1]))]).readings["at"][0, 0]
    tensor([0.2500, 0.2500, 0.2500, 0.0000])
    """

    name = "at"

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys

    def start(self, shape: Shape) -> Total:
        keys = self.keys.unsqueeze(1) if self.keys.dim() == 2 else self.keys
        if keys.shape[-1] != shape.L:
            raise ValueError(f"At got {keys.shape[-1]} keys for {shape.L} queries; give one key per query")
        return Total(shape.zeros(shape.L), SimpleNamespace(keys=keys.to(shape.device).expand(shape.B, shape.h, shape.L)))

    def add(self, state: Total, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        column = state.inputs.keys[:, :, rows.start : rows.stop] - cols.start
        inside = (column >= 0) & (column < len(cols))
        weight = p.gather(-1, column.clamp(0, len(cols) - 1).unsqueeze(-1)).squeeze(-1)
        state.total[:, :, rows.start : rows.stop] += weight * inside

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor] | None:
        if run.outputs.at:
            return None
        keys = self.start(run.shape).inputs.keys
        out = run.per_row()
        run.outputs.at_keys, run.outputs.at = run.address(keys.to(torch.int64).contiguous()), run.address(out)
        return lambda: out


class Same(SumWith):
    """The weight on keys with the same id as the query, (B, h, L).

    ids: a number per position, (S,) or (B, S); the queries are the last L.
    key_ids: the keys' own ids, where they differ: an induction head attends to keys whose predecessor equals the query, i.e. ids shifted
        by one.
    itself: whether the query's own position counts.
    name: the key in `readings`, for several of them in one call.

    Raises ValueError for ids of another shape.

    >>> from regard import observe
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Same(torch.tensor([5, 6, 5, 5]))]).readings["same"][0, 0]
    tensor([0.5000, 0.0000, 0.5000, 0.5000])
    """

    name = "same"

    def __init__(self, ids: Tensor, key_ids: Tensor | None = None, *, itself: bool = False, name: str = "same") -> None:
        self.ids, self.key_ids, self.itself, self.name = ids, ids if key_ids is None else key_ids, itself, name

    def start(self, shape: Shape) -> Total:
        ids, keys = (x if x.dim() == 2 else x.unsqueeze(0) for x in (self.ids, self.key_ids))
        if keys.shape[-1] != shape.S or ids.shape[-1] < shape.L:
            raise ValueError(
                f"Same got ids for {ids.shape[-1]} queries and {keys.shape[-1]} keys; expected at least {shape.L} and exactly {shape.S}"
            )
        queries = ids[:, ids.shape[-1] - shape.L :].to(shape.device)
        return Total(shape.zeros(shape.L), SimpleNamespace(queries=queries, keys=keys.to(shape.device), shift=shape.S - shape.L))

    def add(self, state: Total, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        inputs = state.inputs
        same = inputs.queries[:, rows.start : rows.stop, None] == inputs.keys[:, None, cols.start : cols.stop]  # (B|1, l, s)
        if not self.itself:
            own = torch.arange(rows.start, rows.stop, device=p.device).unsqueeze(-1) + inputs.shift
            same = same & (own != torch.arange(cols.start, cols.stop, device=p.device))
        state.total[:, :, rows.start : rows.stop] += (p * same.unsqueeze(1)).sum(-1)

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor] | None:
        inputs, (B, L, S) = self.start(run.shape).inputs, (run.shape.B, run.shape.L, run.shape.S)
        queries, keys = inputs.queries, inputs.keys
        if any(ids.numel() and int(ids.abs().max()) >= 2**31 for ids in (queries, keys)):  # the pass compares 32 bits
            _, joint = torch.unique(torch.cat([queries.flatten(), keys.flatten()]), return_inverse=True)
            queries, keys = joint[: queries.numel()].view(queries.shape), joint[queries.numel() :].view(keys.shape)
        out = run.per_row()
        ids = (run.address(x.expand(B, n).to(torch.int32).contiguous()) for x, n in ((queries, L), (keys, S)))
        return (lambda: out) if run.outputs.add_same(*ids, self.itself, run.address(out)) else None


class Pooled(SumWith):
    """A thumbnail of the weights, (B, h, rows, cols): each cell is the total weight on its keys, averaged over its queries.

    Every row of the thumbnail sums to 1 (to the row's total weight). It is at most L × S.

    rows, cols: the size of the thumbnail.

    Raises ValueError for a size below 1.

    >>> from regard import observe
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Pooled(2, 2)]).readings["pooled"][0, 0]
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """

    name = "pooled"

    def __init__(self, rows: int, cols: int) -> None:
        if rows < 1 or cols < 1:
            raise ValueError(f"Pooled({rows}, {cols}): a map needs at least one row and one column")
        self.rows, self.cols = rows, cols

    def start(self, shape: Shape) -> Total:
        total = shape.zeros(min(self.rows, shape.L), min(self.cols, shape.S))
        return Total(total, SimpleNamespace(L=shape.L, S=shape.S))

    def add(self, state: Total, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        (R, C), L, S = state.total.shape[-2:], state.inputs.L, state.inputs.S
        across = _cells(cols, S, C, p)  # (s, c)
        down = _cells(rows, L, R, p)  # (l, r)
        first_r, first_c = rows.start * R // L, cols.start * C // S
        state.total[:, :, first_r : first_r + down.shape[1], first_c : first_c + across.shape[1]] += down.mT @ (p @ across)

    def finish(self, state: Total) -> Tensor:
        total, L = state.total, state.inputs.L
        R = total.shape[-2]
        count = torch.bincount(torch.arange(L, device=total.device) * R // max(L, 1), minlength=R).to(total.dtype)
        return total / count.clamp(min=1).unsqueeze(-1)

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor] | None:
        if run.outputs.pooled:
            return None
        state = self.start(run.shape)
        R, C = state.total.shape[-2:]
        cells = run.over_rows(R, C)
        run.outputs.pooled, run.outputs.pooled_rows, run.outputs.pooled_columns = run.address(cells), R, C
        return lambda: self.finish(replace(state, total=cells.sum(0).to(run.shape.dtype)))


def _cells(span: range, total: int, cells: int, like: Tensor) -> Tensor:
    """The cell of each position, one-hot over the cells that this span touches."""
    index = torch.arange(span.start, span.stop, device=like.device) * cells // total
    index = index - span.start * cells // total
    return torch.nn.functional.one_hot(index, (span.stop - 1) * cells // total - span.start * cells // total + 1).to(like.dtype)


class Rows(SumWith):
    """All weights of chosen queries, (B, h, n, S).

    indices: the queries, whole numbers (n,).

    Raises ValueError for other indices.

    >>> from regard import observe
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Rows([0, 3])]).readings["rows"].shape
    torch.Size([1, 1, 2, 4])
    """

    name = "rows"

    def __init__(self, indices: Tensor | list[int]) -> None:
        self.indices = torch.as_tensor(indices, dtype=torch.int64)

    def start(self, shape: Shape) -> Total:
        if self.indices.numel() and not (int(self.indices.min()) >= -shape.L and int(self.indices.max()) < shape.L):
            raise ValueError(
                f"Rows got query indices {self.indices.tolist()} but there are only {shape.L} queries; use −{shape.L} … {shape.L - 1}"
            )
        chosen = [int(i) % shape.L for i in self.indices]
        return Total(shape.zeros(len(chosen), shape.S), SimpleNamespace(chosen=chosen))

    def add(self, state: Total, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        for i, row in enumerate(state.inputs.chosen):
            if row in rows:
                state.total[:, :, i, cols.start : cols.stop] += p[:, :, row - rows.start]

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor] | None:
        if run.outputs.rows:
            return None
        state = self.start(run.shape)
        chosen = torch.tensor(state.inputs.chosen, dtype=torch.int64)
        run.outputs.rows, run.outputs.chosen, run.outputs.chosen_count = run.address(state.total), run.address(chosen), len(chosen)
        return lambda: state.total
