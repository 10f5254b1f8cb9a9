"""Readings by the compiled kernels: one pass with the lse known, every weight made, looked at and dropped.

Axes: B batch, h heads, L queries, S keys, k heaviest keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..readings import (
    At,
    Distance,
    Entropy,
    MaxLogit,
    NormWeighted,
    Pooled,
    Reading,
    Received,
    Rows,
    Same,
    Shape,
    Sink,
    Top,
    TopK,
    ValueNorm,
)
from . import native_ops as ops
from .spec import Spec

_KNOWN = (At, Distance, Entropy, MaxLogit, Pooled, Received, Rows, Same, Sink, TopK, ValueNorm)
_ONCE = (At, Distance, Pooled, Rows, Sink, TopK)  # one set of parameters a pass
_MOST_SAME = 4
_MOST_TOP = 256


def split(readings: tuple[Reading, ...]) -> tuple[list[Reading], tuple[Reading, ...]]:
    """Those one compiled pass can read, and the rest."""
    ours: list[Reading] = []
    for reading in readings:
        kind = type(reading)
        fits = kind in _KNOWN
        fits = fits and not (kind in _ONCE and any(type(other) is kind for other in ours))
        fits = fits and not (isinstance(reading, Same) and sum(isinstance(other, Same) for other in ours) == _MOST_SAME)
        if fits and not (isinstance(reading, TopK) and reading.k > _MOST_TOP):
            ours.append(reading)
    return ours, tuple(reading for reading in readings if not any(reading is mine for mine in ours))


class Pass:
    """Collects what one pass must write, runs it, and gives each reading its result."""

    def __init__(self, spec: Spec, shape: Shape) -> None:
        self.spec, self.shape = spec, shape
        # By shape alone, so that results do not depend on the number of threads.
        self.shares = max(1, min(-(-16 // (shape.B * shape.h)), -(-shape.L // 64)))
        self.wanted: dict[str, int] = {"shares": self.shares}
        self.kept: list[Tensor] = []
        self.same = 0

    def run(self, readings: list[Reading], lse: Tensor, seen: Tensor | None) -> dict[str, Any]:
        finish = {reading.name: self._prepare(reading) for reading in readings}
        (shape, numbers, query, key, _, key_bias, sees, _), _alive = ops.score_arguments(ops.Scores.of(self.spec, seen))
        ops._native.read(shape, numbers, query, key, key_bias, sees, lse.contiguous().data_ptr(), self.wanted)
        return {name: result() for name, result in finish.items()}

    def _input(self, name: str, x: Tensor) -> None:
        self.kept.append(x)
        self.wanted[name] = x.data_ptr()

    def _rows(self, name: str, *more: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """An output with one entry a row, (B, h, L, …)."""
        out = torch.zeros(self.shape.B, self.shape.h, self.shape.L, *more, dtype=dtype)
        self._input(name, out)
        return out

    def _sums(self, name: str, *axes: int) -> Tensor:
        """An output summed over rows, in shares: (shares, B, h, …)."""
        out = torch.empty(self.shares, self.shape.B, self.shape.h, *axes, dtype=torch.float64)
        self._input(name, out)
        return out

    def _prepare(self, reading: Reading) -> Callable[[], Any]:
        method: Callable[[Any], Callable[[], Any]] = getattr(self, "read_" + type(reading).__name__.lower())
        return method(reading)

    def read_entropy(self, reading: Entropy) -> Callable[[], Any]:
        out = self._rows("entropy")
        return lambda: out

    def read_received(self, reading: Received) -> Callable[[], Any]:
        out = self._received_sums()
        return lambda: out.sum(0).to(self.shape.dtype)

    def _received_sums(self) -> Tensor:
        for kept in self.kept:
            if kept.data_ptr() == self.wanted.get("received"):
                return kept
        return self._sums("received", self.shape.S)

    def read_topk(self, reading: TopK) -> Callable[[], Any]:
        weights, keys = self._rows("top_weights", reading.k), self._rows("top_keys", reading.k, dtype=torch.int64)
        self.wanted["top"] = reading.k
        return lambda: Top(weights, keys)

    def read_distance(self, reading: Distance) -> Callable[[], Any]:
        state = reading.start(self.shape)
        self.wanted["side"] = state["side"]
        out, mass = self._sums("distance", 2 * state["side"] + 1), self._rows("mass")
        return lambda: reading.finish({**state, "mass": out.sum(0).to(self.shape.dtype), "rows": mass})

    def read_at(self, reading: At) -> Callable[[], Any]:
        reading.start(self.shape)
        self._input("at_keys", reading._keys.to(torch.int64).contiguous())
        out = self._rows("at")
        return lambda: out

    def read_same(self, reading: Same) -> Callable[[], Any]:
        reading.start(self.shape)
        B, L, S = self.shape.B, self.shape.L, self.shape.S
        n = self.same
        self.same += 1
        rows, cols = reading._rows, reading._cols
        if any(ids.numel() and int(ids.abs().max()) >= 2**31 for ids in (rows, cols)):
            _, joint = torch.unique(torch.cat([rows.flatten(), cols.flatten()]), return_inverse=True)
            rows, cols = joint[: rows.numel()].view(rows.shape), joint[rows.numel() :].view(cols.shape)
        self._input(f"same_rows{n}", rows.expand(B, L).to(torch.int32).contiguous())
        self._input(f"same_keys{n}", cols.expand(B, S).to(torch.int32).contiguous())
        self.wanted |= {f"same_itself{n}": int(reading.itself), "same_count": self.same}
        out = self._rows(f"same{n}")
        return lambda: out

    def read_pooled(self, reading: Pooled) -> Callable[[], Any]:
        R, C = reading.start(self.shape).shape[-2:]
        self.wanted |= {"pooled_rows": R, "pooled_columns": C}
        out = self._sums("pooled", R, C)
        return lambda: reading.finish(out.sum(0).to(self.shape.dtype))

    def read_rows(self, reading: Rows) -> Callable[[], Any]:
        out = reading.start(self.shape)
        self._input("rows", out)
        self._input("chosen", torch.tensor(reading._list, dtype=torch.int64))
        self.wanted["chosen_count"] = len(reading._list)
        return lambda: out

    def read_maxlogit(self, reading: MaxLogit) -> Callable[[], Any]:
        out = self._rows("max_logit")
        shift = self.spec.row_shift
        return lambda: out if shift is None else out + shift.to(out.dtype)

    def read_sink(self, reading: Sink) -> Callable[[], Any]:
        out = self._rows("sink")
        self.wanted["sinks_read"] = reading.n
        return lambda: out

    def read_valuenorm(self, reading: ValueNorm) -> Callable[[], Any]:
        norms = self.shape.value_norms
        assert norms is not None
        self._input("norms", torch.where(norms.isfinite(), norms, 0).contiguous())
        by_query, received = self._rows("by_query"), self._received_sums()

        def result() -> NormWeighted:
            mass = received.sum(0).to(norms.dtype)
            return NormWeighted(by_query, torch.where(mass > 0, mass * norms, 0))

        return result


@torch.no_grad()
def read(spec: Spec, readings: list[Reading], lse: Tensor, seen: Tensor | None) -> dict[str, Any]:
    """Every given reading in one compiled pass, by name."""
    return Pass(spec, Shape.of(spec)).run(readings, lse, seen)


__all__ = ["read", "split"]
