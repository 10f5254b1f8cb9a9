"""The base class of readings, and what kernels give to it.

Axes: B batch, h heads, L queries, S keys, l rows and s columns of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """Sizes, device and dtype of the attention that is read: what `Reading.start` receives.

    B, h, L, S: batch, heads, queries, keys.
    device, dtype: of the weights.
    value_norms: ‖v‖, (B, h, S), for a reading with `needs_value_norms = True`; None for all others.

    >>> Shape(B=1, h=2, L=5, S=7, device=torch.device("cpu"), dtype=torch.float32).zeros(5).shape
    torch.Size([1, 2, 5])
    """

    B: int
    h: int
    L: int
    S: int
    device: torch.device
    dtype: torch.dtype
    value_norms: Tensor | None = None

    def zeros(self, *axes: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return zeros (B, h, *axes), on the device of the weights.

        axes: the axes after batch and heads; dtype: that of the weights by default.
        """
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

    >>> import regard
    >>> class Largest(regard.Reading):
    ...     name = "largest"
    ...     def start(self, shape):
    ...         return shape.zeros(shape.L)
    ...     def add(self, state, p, s, rows, cols):
    ...         part = state[..., rows.start : rows.stop]
    ...         torch.maximum(part, p.amax(-1), out=part)
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> regard.observe(q, q, q, readings=[Largest()]).readings["largest"][0, 0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    name: str
    needs_value_norms = False  # whether `Shape.value_norms` is to be set; over several ranks it fills up tile by tile: read it in `add`

    def start(self, shape: Shape) -> Any:
        """The state before the first tile: tensors, or a dict, tuple or dataclass of them."""
        raise NotImplementedError(f"{type(self).__name__} does not define start(shape); a reading must")

    def add(self, state: Any, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        """Add the weights p and scores s (B, h, l, s) of the tile rows × cols to the state (s is −∞ where masked)."""
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


class Sum(Reading):
    """A reading whose state is one tensor, a running sum."""

    def merge(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


@dataclass(frozen=True, eq=False)
class Total:
    """A running sum, and the inputs needed to add to it, prepared once."""

    total: Tensor
    inputs: SimpleNamespace


class SumWith(Reading):
    """A reading whose state is a running sum and prepared inputs."""

    def merge(self, a: Total, b: Total) -> Total:
        return replace(a, total=a.total + b.total)

    def finish(self, state: Total) -> Tensor:
        return state.total
