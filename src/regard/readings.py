"""What is read off the weights without keeping them: exact, tile by tile, in O(N · k) memory.

A reading sees every tile of weights once, after the normaliser is known and before dropout, detached. ``observe(...,
readings=[Entropy(), TopK(4)])`` returns them by name in ``Attended.readings``.

Axes: B batch, h heads, L queries, S keys, l rows and s columns of a tile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .kernels.spec import Spec


@dataclass(frozen=True)
class Shape:
    """What a reading must know before the first tile."""

    B: int
    h: int
    L: int
    S: int
    device: torch.device
    dtype: torch.dtype
    value_norms: Tensor | None = None  # (B, h, S): ‖v‖

    @staticmethod
    def of(spec: Spec) -> Shape:
        from .kernels.spec import accumulator

        norms = None
        if any(isinstance(reading, ValueNorm) for reading in spec.readings):
            norms = spec.value.detach().to(accumulator(spec.value.dtype)).norm(dim=-1).repeat_interleave(spec.group, 1)
        return Shape(*spec.sizes, spec.query.device, accumulator(spec.query.dtype), norms)

    def zeros(self, *axes: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.zeros(self.B, self.h, *axes, dtype=dtype or self.dtype, device=self.device)


class Reading:
    """start → add every tile → finish. ``merge`` joins two states that saw different columns of the same rows, or different rows."""

    name: str

    def start(self, shape: Shape) -> Any:
        raise NotImplementedError

    def add(self, state: Any, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        """See weights p and scores s (B, h, l, s) of a tile (s is −∞ where masked)."""
        raise NotImplementedError

    def merge(self, a: Any, b: Any) -> Any:
        """The state that saw everything a and b saw."""
        raise NotImplementedError

    def finish(self, state: Any) -> Any:
        return state

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v}" for k, v in vars(self).items() if not k.startswith("_") and not isinstance(v, Tensor))
        return f"{type(self).__name__}({shown})"


class _Sum(Reading):
    """A reading whose state is one tensor that only grows by addition."""

    def merge(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class Entropy(_Sum):
    """``−Σ p ln p`` of each row in nats, (B, h, L): 0 looks at one key, ln S at all alike."""

    name = "entropy"

    def start(self, shape: Shape) -> Tensor:
        return shape.zeros(shape.L)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        state[:, :, rows.start : rows.stop] -= torch.special.xlogy(p, p).sum(-1)


class Received(_Sum):
    """The mass each key receives from all queries, (B, h, S)."""

    name = "received"

    def start(self, shape: Shape) -> Tensor:
        return shape.zeros(shape.S)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        state[:, :, cols.start : cols.stop] += p.sum(-2)


class Top(NamedTuple):
    """The k heaviest keys of each row, heaviest first; weight 0 and key −1 where a row sees fewer."""

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
        best, where = p.topk(min(self.k, len(cols)), -1)
        self._keep(
            state, block, torch.cat([state.weights[:, :, block], best], -1), torch.cat([state.keys[:, :, block], where + cols.start], -1)
        )

    def _keep(self, state: Top, block: slice, weights: Tensor, keys: Tensor) -> None:
        weights, order = weights.topk(self.k, -1)
        state.weights[:, :, block] = weights
        state.keys[:, :, block] = keys.gather(-1, order).masked_fill(weights == 0, -1)

    def merge(self, a: Top, b: Top) -> Top:
        merged = Top(a.weights.clone(), a.keys.clone())
        self._keep(merged, slice(None), torch.cat([a.weights, b.weights], -1), torch.cat([a.keys, b.keys], -1))
        return merged


class Profile(NamedTuple):
    """Mean mass by signed offset key − query, nearest last query to last key."""

    mass: Tensor  # (B, h, bins): mean over the rows that see anything; a row's bins sum to its total mass
    offsets: tuple[tuple[int, int], ...]  # (first, last) offset of each bin


class Distance(Reading):
    """How far heads look: mass by signed offset in bins … −8…−5, −4…−3, −2, −1, 0, 1, 2, 3…4, 5…8 …: a :class:`Profile`."""

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

    def merge(self, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        return {**a, "mass": a["mass"] + b["mass"], "rows": a["rows"] + b["rows"]}

    def finish(self, state: dict[str, Any]) -> Profile:
        side = state["side"]
        seen = (state["rows"] > 0).sum(-1, keepdim=True).clamp(min=1)
        return Profile(state["mass"] / seen, tuple(_edges(n) for n in range(-side, side + 1)))


def _bin(distance: int) -> int:
    """0 → 0, 1 → 1, 2 → 2, 3…4 → 3, 5…8 → 4 …"""
    return 0 if distance == 0 else (distance - 1).bit_length() + 1


def _signed_bin(offset: int) -> int:
    return _bin(offset) if offset >= 0 else -_bin(-offset)


def _edges(number: int) -> tuple[int, int]:
    """The first and last offset of a signed bin."""
    if number < 0:
        low, high = _edges(-number)
        return -high, -low
    return (number, number) if number < 3 else (2 ** (number - 2) + 1, 2 ** (number - 1))


class At(_Sum):
    """The weight on one given key per query, (B, h, L). keys (L,), (B, L) or (B, h, L); −1 reads 0."""

    name = "at"

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys

    def start(self, shape: Shape) -> Tensor:
        keys = self.keys.unsqueeze(1) if self.keys.dim() == 2 else self.keys
        if keys.shape[-1] != shape.L:
            raise ValueError(f"At got {keys.shape[-1]} keys for {shape.L} queries; give one key per query")
        self._keys = keys.to(shape.device).expand(shape.B, shape.h, shape.L)
        return shape.zeros(shape.L)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        place = self._keys[:, :, rows.start : rows.stop] - cols.start
        inside = (place >= 0) & (place < len(cols))
        found = p.gather(-1, place.clamp(0, len(cols) - 1).unsqueeze(-1)).squeeze(-1)
        state[:, :, rows.start : rows.stop] += found * inside


class Same(_Sum):
    """The mass on keys that carry the query's own id, (B, h, L): ids (S,) or (B, S), the queries being the last L.

    The query's own position is left out unless ``itself``. With ``key_ids`` the keys carry other ids than the queries: an
    induction head looks at keys whose *predecessor* equals the query, i.e. ``key_ids`` shifted by one.
    """

    name = "same"

    def __init__(self, ids: Tensor, key_ids: Tensor | None = None, *, itself: bool = False, name: str = "same") -> None:
        self.ids, self.key_ids, self.itself, self.name = ids, ids if key_ids is None else key_ids, itself, name

    def start(self, shape: Shape) -> Tensor:
        ids, keys = (x if x.dim() == 2 else x.unsqueeze(0) for x in (self.ids, self.key_ids))
        if keys.shape[-1] != shape.S or ids.shape[-1] < shape.L:
            raise ValueError(
                f"Same got ids for {ids.shape[-1]} queries and {keys.shape[-1]} keys; expected at least {shape.L} and exactly {shape.S}"
            )
        self._rows = ids[:, ids.shape[-1] - shape.L :].to(shape.device)
        self._cols = keys.to(shape.device)
        self._shift = shape.S - shape.L
        return shape.zeros(shape.L)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        same = self._rows[:, rows.start : rows.stop, None] == self._cols[:, None, cols.start : cols.stop]  # (B|1, l, s)
        if not self.itself:
            own = torch.arange(rows.start, rows.stop, device=p.device).unsqueeze(-1) + self._shift
            same = same & (own != torch.arange(cols.start, cols.stop, device=p.device))
        state[:, :, rows.start : rows.stop] += (p * same.unsqueeze(1)).sum(-1)


class Pooled(_Sum):
    """A thumbnail of the pattern, (B, h, rows, cols): each cell the mass its queries put on its keys, a mean over queries.

    Every row of the thumbnail sums to 1 (to the row's total mass). Resolution is cut to what the pattern has.
    """

    name = "pooled"

    def __init__(self, rows: int, cols: int) -> None:
        if rows < 1 or cols < 1:
            raise ValueError(f"Pooled({rows}, {cols}): a map needs at least one row and one column")
        self.rows, self.cols = rows, cols

    def start(self, shape: Shape) -> Tensor:
        self._L, self._S = shape.L, shape.S
        return shape.zeros(min(self.rows, shape.L), min(self.cols, shape.S))

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        R, C = state.shape[-2:]
        across = _cells(cols, self._S, C, p)  # (s, c)
        down = _cells(rows, self._L, R, p)  # (l, r)
        first_r, first_c = rows.start * R // self._L, cols.start * C // self._S
        state[:, :, first_r : first_r + down.shape[1], first_c : first_c + across.shape[1]] += down.mT @ (p @ across)

    def finish(self, state: Tensor) -> Tensor:
        R = state.shape[-2]
        count = torch.bincount(torch.arange(self._L, device=state.device) * R // max(self._L, 1), minlength=R).to(state.dtype)
        return state / count.clamp(min=1).unsqueeze(-1)


def _cells(span: range, total: int, cells: int, like: Tensor) -> Tensor:
    """Which cell each position belongs to, as 0/1 columns for the cells this span touches."""
    index = torch.arange(span.start, span.stop, device=like.device) * cells // total
    index = index - span.start * cells // total
    return torch.nn.functional.one_hot(index, (span.stop - 1) * cells // total - span.start * cells // total + 1).to(like.dtype)


class Rows(_Sum):
    """The whole weight rows of chosen queries, (B, h, n, S)."""

    name = "rows"

    def __init__(self, indices: Tensor | list[int]) -> None:
        self.indices = torch.as_tensor(indices, dtype=torch.int64)

    def start(self, shape: Shape) -> Tensor:
        if self.indices.numel() and not (int(self.indices.min()) >= -shape.L and int(self.indices.max()) < shape.L):
            raise ValueError(f"Rows asks for queries {self.indices.tolist()} but there are only {shape.L}")
        self._list = [int(i) % shape.L for i in self.indices]
        return shape.zeros(len(self._list), shape.S)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        for place, row in enumerate(self._list):
            if row in rows:
                state[:, :, place, cols.start : cols.stop] += p[:, :, row - rows.start]


class MaxLogit(Reading):
    """The largest score of each row, (B, h, L); −∞ where a row sees nothing."""

    name = "max_logit"

    def start(self, shape: Shape) -> Tensor:
        return shape.zeros(shape.L) - math.inf

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        block = state[:, :, rows.start : rows.stop]
        block.copy_(torch.maximum(block, s.amax(-1)))

    def merge(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.maximum(a, b)


class Sink(_Sum):
    """The mass each row puts on the first n keys, (B, h, L)."""

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


class NormWeighted(NamedTuple):
    """‖p·v‖ summed along each axis of the pattern."""

    by_query: Tensor  # (B, h, L): Σ_n ‖p v_n‖ of each query
    by_key: Tensor  # (B, h, S): what each key sends to all queries


class ValueNorm(Reading):
    """Norm-weighted attention ``‖p·v‖ = p‖v‖``: weight on a key whose value is tiny does little (Kobayashi et al. 2020, section 3)."""

    name = "value_norm"

    def start(self, shape: Shape) -> NormWeighted:
        assert shape.value_norms is not None
        self._norms = shape.value_norms
        return NormWeighted(shape.zeros(shape.L), shape.zeros(shape.S))

    def add(self, state: NormWeighted, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        norms = self._norms[:, :, cols.start : cols.stop]
        mass = p.sum(-2)
        state.by_key[:, :, cols.start : cols.stop] += torch.where(mass > 0, mass * norms, 0)
        weighted = p @ torch.where(norms.isfinite(), norms, 0).unsqueeze(-1)
        state.by_query[:, :, rows.start : rows.stop] += weighted.squeeze(-1)

    def merge(self, a: NormWeighted, b: NormWeighted) -> NormWeighted:
        return NormWeighted(a.by_query + b.by_query, a.by_key + b.by_key)
