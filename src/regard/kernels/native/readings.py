"""Compute readings in one compiled pass, with the lse known, without storing the weights.

Each reading defines its own compiled form in `Reading.compiled`, in terms of `Pass`.

Axes: B batch, h heads, L queries, S keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...readings import Reading, Shape
from ..request import Request
from .dot import SPARSE_CHOICES, score_part
from .extension import compiled


class Pass:
    """Collects the outputs of one pass, then runs it. Implements `regard.readings.CompiledPass`."""

    def __init__(self, request: Request, lse: Tensor | None, mask: Tensor | None, index: Tensor | None) -> None:
        self.shape: Shape = request.reading_shape()
        self.row_shift = request.row_shift
        self._scores = score_part(request, mask)
        self._alive: list[Tensor] = []
        self._mass: Tensor | None = None
        self._received: Tensor | None = None
        # Determined by the shape alone, so that results do not depend on the number of threads.
        self.shares = max(1, min(-(-16 // (self.shape.B * self.shape.h)), -(-self.shape.L // 64)))
        self.outputs = compiled.Read(self._scores.scores, 0 if lse is None else self.address(lse.contiguous()), self.shares)
        if type(request.choice) in SPARSE_CHOICES:
            self.outputs.choice = compiled.Choice(SPARSE_CHOICES[type(request.choice)])
        if index is not None:
            self.outputs.choice, self.outputs.picked = compiled.Choice.picked, self.address(index.contiguous())

    def address(self, x: Tensor) -> int:
        self._alive.append(x)
        return x.data_ptr()

    def per_row(self, *axes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(self.shape.B, self.shape.h, self.shape.L, *axes, dtype=dtype)

    def over_rows(self, *axes: int) -> Tensor:
        return torch.empty(self.shares, self.shape.B, self.shape.h, *axes, dtype=torch.float64)

    def row_mass(self) -> Tensor:
        if self._mass is None:
            self._mass = self.per_row()
            self.outputs.mass = self.address(self._mass)
        return self._mass

    def received(self) -> Tensor:
        if self._received is None:
            self._received = self.over_rows(self.shape.S)
            self.outputs.received = self.address(self._received)
        return self._received

    def run(self) -> None:
        """Run the pass, which writes all requested outputs."""
        compiled.read(self.outputs, torch.get_num_threads())


@torch.no_grad()
def read(
    request: Request, lse: Tensor | None, mask: Tensor | None, index: Tensor | None = None
) -> tuple[dict[str, Any], tuple[Reading, ...]]:
    """The results of one compiled pass, by name; and the readings it does not support: custom ones, or a second of a kind.

    lse (B, h, L): of the softmax, or the thresholds of a sparse choice; index (B, h, L): the keys that Argmax picked.
    """
    run = Pass(request, lse, mask, index)
    finish: dict[str, Callable[[], Any]] = {}
    unsupported: list[Reading] = []
    for reading in request.readings:
        result = reading.compiled(run) if _computes_as_compiled(reading) else None
        if result is None:
            unsupported.append(reading)
        else:
            finish[reading.name] = result
    if finish:
        run.run()
    return {name: result() for name, result in finish.items()}, tuple(unsupported)


def _computes_as_compiled(reading: Reading) -> bool:
    """Whether `compiled` matches `start`, `add` and `finish`: false if a subclass overrides these without `compiled`."""
    for kind in type(reading).__mro__:
        if "compiled" in vars(kind):
            return True
        if not {"start", "add", "finish"}.isdisjoint(vars(kind)):
            return False
    return False


__all__ = ["Pass", "read"]
