"""Readings: exact statistics of the attention weights, computed tile by tile in O(N · k) memory, without storing the weights.

A reading receives every tile of weights once, normalised, detached and before dropout. ``observe(..., readings=[Entropy(),
TopK(4)])`` returns the results by name in ``Attended.readings``. A reading object holds only its settings; its running totals
are in the state that ``start`` creates.

Axes: B batch, h heads, L queries, S keys, l rows and s columns of a tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """Sizes, device and dtype of the attention that is read."""

    B: int
    h: int
    L: int
    S: int
    device: torch.device
    dtype: torch.dtype
    value_norms: Tensor | None = None  # (B, h, S): ‖v‖, where a reading says `needs_value_norms`

    def zeros(self, *axes: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.zeros(self.B, self.h, *axes, dtype=dtype or self.dtype, device=self.device)


class CompiledPass(Protocol):
    """One pass of the compiled kernels over the weights, as readings prepare it (`kernels/native/readings.py`)."""

    shape: Shape
    outputs: Any  # the C++ record `Read`: one field per output or input, 0 while unused
    row_shift: Tensor | None  # (B, h, L): `Lowered.row_shift`, which the scores of the pass lack

    def address(self, x: Tensor) -> int:
        """The address of a tensor; the tensor is kept alive until the pass has run."""

    def per_row(self, *axes: int, dtype: torch.dtype = ...) -> Tensor:
        """A zeroed output with one entry per row, (B, h, L, …)."""

    def over_rows(self, *axes: int) -> Tensor:
        """An output summed over rows, as partial sums, float64 (shares, B, h, …): sum its first axis."""

    def row_mass(self) -> Tensor:
        """Each row's total weight, (B, h, L); shared by all readings that need it."""

    def received(self) -> Tensor:
        """Each key's total weight as partial sums, float64 (shares, B, h, S); shared by all readings that need it."""


class Reading:
    """Base class of readings: `start`, then `add` for every tile, then `finish`. `merge` joins the states of different tiles.

    A new reading is a subclass with a ``name``, ``start`` and ``add``; ``merge`` is for `regard.parallel`, ``compiled`` for speed.
    """

    name: str
    needs_value_norms = False  # whether `Shape.value_norms` is to be set; over several ranks it fills up tile by tile: read it in `add`

    def start(self, shape: Shape) -> Any:
        """The state before the first tile: tensors, or a dict, tuple or dataclass of them."""
        raise NotImplementedError(f"{type(self).__name__} does not define start(shape); a reading must")

    def add(self, state: Any, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        """Add the weights p and scores s (B, h, l, s) of one tile to the state (s is −∞ where masked)."""
        raise NotImplementedError(f"{type(self).__name__} does not define add(state, p, s, rows, cols); a reading must")

    def compiled(self, run: CompiledPass) -> Callable[[], Any] | None:
        """Request this reading from a compiled pass: set fields of `run.outputs`, and return a function that builds the result.

        None if there is no compiled form, or the pass already has another reading of this kind; then `add` is used.
        """
        return None

    def merge(self, a: Any, b: Any) -> Any:
        """The state after the tiles of both a and b."""
        raise NotImplementedError(f"{type(self).__name__} does not define merge(a, b), which regard.parallel needs")

    def finish(self, state: Any) -> Any:
        """The result, from the state after the last tile."""
        return state

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v}" for k, v in vars(self).items() if not k.startswith("_") and not isinstance(v, Tensor))
        return f"{type(self).__name__}({settings})"


class _Sum(Reading):
    """A reading whose state is one tensor, a running sum."""

    def merge(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


@dataclass(frozen=True, eq=False)
class Total:
    """A running sum, and the inputs needed to add to it, prepared once."""

    total: Tensor
    inputs: SimpleNamespace


class _SumWith(Reading):
    """A reading whose state is a running sum and prepared inputs."""

    def merge(self, a: Total, b: Total) -> Total:
        return replace(a, total=a.total + b.total)

    def finish(self, state: Total) -> Tensor:
        return state.total


class Entropy(_Sum):
    """``−Σ p ln p`` of each row in nats, (B, h, L): 0 if all weight is on one key, ln S if it is uniform."""

    name = "entropy"

    def start(self, shape: Shape) -> Tensor:
        return shape.zeros(shape.L)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        state[:, :, rows.start : rows.stop] -= torch.special.xlogy(p, p).sum(-1)

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor] | None:
        if run.outputs.entropy:
            return None
        out = run.per_row()
        run.outputs.entropy = run.address(out)
        return lambda: out


class Received(_Sum):
    """The total weight each key receives from all queries, (B, h, S)."""

    name = "received"

    def start(self, shape: Shape) -> Tensor:
        return shape.zeros(shape.S)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        state[:, :, cols.start : cols.stop] += p.sum(-2)

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor]:
        shares, dtype = run.received(), run.shape.dtype
        return lambda: shares.sum(0).to(dtype)


class RowMass(_Sum):
    """The total weight of each row, (B, h, L): 1, or 0 for a row without visible keys; less than 1 with sinks."""

    name = "row_mass"

    def start(self, shape: Shape) -> Tensor:
        return shape.zeros(shape.L)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        state[:, :, rows.start : rows.stop] += p.sum(-1)

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor]:
        mass = run.row_mass()
        return lambda: mass


MAX_COMPILED_TOP = 256  # the compiled pass inserts into a sorted list, which is slow beyond this length


class Top(NamedTuple):
    """The k heaviest keys of each row, heaviest first; weight 0 and key −1 where a row has fewer."""

    weights: Tensor  # (B, h, L, k)
    keys: Tensor  # (B, h, L, k) int64


class TopK(Reading):
    """The k heaviest keys of each row and their weights: a :class:`Top`."""

    name = "top"

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError(f"k is {k}; TopK needs at least one key")
        self.k = k

    def start(self, shape: Shape) -> Top:
        return Top(shape.zeros(shape.L, self.k), torch.full((shape.B, shape.h, shape.L, self.k), -1, device=shape.device))

    def add(self, state: Top, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        block = slice(rows.start, rows.stop)
        best, index = p.topk(min(self.k, len(cols)), -1)
        self._keep(
            state,
            block,
            torch.cat([state.weights[:, :, block], best], -1),
            torch.cat([state.keys[:, :, block], index + cols.start], -1),
        )

    def _keep(self, state: Top, block: slice, weights: Tensor, keys: Tensor) -> None:
        """Store the k heaviest of these candidates for a block of rows."""
        weights, order = weights.topk(self.k, -1)
        state.weights[:, :, block] = weights
        state.keys[:, :, block] = keys.gather(-1, order).masked_fill(weights == 0, -1)

    def compiled(self, run: CompiledPass) -> Callable[[], Top] | None:
        if run.outputs.top or self.k > MAX_COMPILED_TOP:
            return None
        weights, keys = run.per_row(self.k), run.per_row(self.k, dtype=torch.int64)
        run.outputs.top_weights, run.outputs.top_keys, run.outputs.top = run.address(weights), run.address(keys), self.k
        return lambda: Top(weights, keys)

    def merge(self, a: Top, b: Top) -> Top:
        merged = Top(a.weights.clone(), a.keys.clone())
        self._keep(merged, slice(None), torch.cat([a.weights, b.weights], -1), torch.cat([a.keys, b.keys], -1))
        return merged


class Profile(NamedTuple):
    """Mean weight by signed offset key − query, with the last query at the position of the last key."""

    mass: Tensor  # (B, h, bins): mean over the rows with visible keys; a row's bins sum to its total weight
    offsets: tuple[tuple[int, int], ...]  # (first, last) offset of each bin


class Distance(Reading):
    """How far heads attend: weight by signed offset in bins … −8…−5, −4…−3, −2, −1, 0, 1, 2, 3…4, 5…8 …: a :class:`Profile`."""

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


class At(_SumWith):
    """The weight on one chosen key per query, (B, h, L). keys (L,), (B, L) or (B, h, L); −1 gives 0."""

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


class Same(_SumWith):
    """The weight on keys with the same id as the query, (B, h, L): ids (S,) or (B, S); the queries are the last L.

    The query's own position is left out unless ``itself``. With ``key_ids`` the keys have ids of their own: an induction head
    attends to keys whose *predecessor* equals the query, i.e. ``key_ids`` shifted by one.
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


class Pooled(_SumWith):
    """A thumbnail of the weights, (B, h, rows, cols): each cell is the total weight on its keys, averaged over its queries.

    Every row of the thumbnail sums to 1 (to the row's total weight). rows and cols are at most L and S.
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


class Rows(_SumWith):
    """All weights of chosen queries, (B, h, n, S)."""

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


class MaxLogit(Reading):
    """The largest score of each row, (B, h, L); −∞ where a row has no visible keys."""

    name = "max_logit"

    def start(self, shape: Shape) -> Tensor:
        return shape.zeros(shape.L) - math.inf

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        block = state[:, :, rows.start : rows.stop]
        block.copy_(torch.maximum(block, s.amax(-1)))

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor] | None:
        if run.outputs.max_logit:
            return None
        out, shift = run.per_row(), run.row_shift
        run.outputs.max_logit = run.address(out)
        return lambda: out if shift is None else out + shift.to(out.dtype)

    def merge(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.maximum(a, b)


class Sink(_Sum):
    """The weight each row puts on the first n keys, (B, h, L)."""

    name = "sink"

    def __init__(self, n: int = 1) -> None:
        if n < 1:
            raise ValueError(f"n is {n}; Sink needs at least one key")
        self.n = n

    def start(self, shape: Shape) -> Tensor:
        return shape.zeros(shape.L)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        if cols.start < self.n:
            state[:, :, rows.start : rows.stop] += p[..., : self.n - cols.start].sum(-1)

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor] | None:
        if run.outputs.sink:
            return None
        out = run.per_row()
        run.outputs.sink, run.outputs.sinks_read = run.address(out), self.n
        return lambda: out


class NormWeighted(NamedTuple):
    """‖p·v‖ summed along each axis of the pattern."""

    by_query: Tensor  # (B, h, L): Σ_n ‖p v_n‖ of each query
    by_key: Tensor  # (B, h, S): Σ over queries of ‖p v_n‖ of each key


@dataclass(frozen=True, eq=False)
class WeightedTotals:
    """The running sums of `ValueNorm`."""

    by_query: Tensor
    by_key: Tensor
    inputs: SimpleNamespace


class ValueNorm(Reading):
    """Norm-weighted attention ``‖p·v‖ = p‖v‖``: a large weight on a tiny value contributes little (Kobayashi et al. 2020, section 3)."""

    name = "value_norm"
    needs_value_norms = True

    def start(self, shape: Shape) -> WeightedTotals:
        assert shape.value_norms is not None
        return WeightedTotals(shape.zeros(shape.L), shape.zeros(shape.S), SimpleNamespace(norms=shape.value_norms))

    def add(self, state: WeightedTotals, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        norms = state.inputs.norms[:, :, cols.start : cols.stop]
        mass = p.sum(-2)
        state.by_key[:, :, cols.start : cols.stop] += torch.where(mass > 0, mass * norms, 0)
        weighted = p @ torch.where(norms.isfinite(), norms, 0).unsqueeze(-1)
        state.by_query[:, :, rows.start : rows.stop] += weighted.squeeze(-1)

    def merge(self, a: WeightedTotals, b: WeightedTotals) -> WeightedTotals:
        return replace(a, by_query=a.by_query + b.by_query, by_key=a.by_key + b.by_key)

    def finish(self, state: WeightedTotals) -> NormWeighted:
        return NormWeighted(state.by_query, state.by_key)

    def compiled(self, run: CompiledPass) -> Callable[[], NormWeighted] | None:
        norms = run.shape.value_norms
        assert norms is not None
        if run.outputs.by_query:
            return None
        by_query, received = run.per_row(), run.received()
        clean = torch.where(norms.isfinite(), norms, 0).contiguous()
        run.outputs.norms, run.outputs.by_query = run.address(clean), run.address(by_query)

        def result() -> NormWeighted:
            mass = received.sum(0).to(norms.dtype)
            return NormWeighted(by_query, torch.where(mass > 0, mass * norms, 0))

        return result
