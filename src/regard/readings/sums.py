"""Sums and maxima along rows and columns of the weights: entropy, weight received, row mass, largest score, first keys.

Axes: B batch, h heads, L queries, S keys, l rows and s columns of a tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .reading import CompiledPass, Reading, Shape, Sum


class Differentiable(Reading):
    """A reading that can be differentiated: with ``grad=True`` gradients flow from its result to everything the weights depend on."""

    grad = False

    def __init__(self, *, grad: bool = False) -> None:
        kind = next(kind for kind in type(self).__mro__ if "dense" in vars(kind))
        if grad and type(self).add is not getattr(kind, "add", None):
            raise TypeError(f"{type(self).__name__} overrides {kind.__name__}.add, whose gradient kernels know; use grad=False")
        self.grad = grad

    def dense(self, p: Tensor, s: Tensor) -> Tensor:
        """The result from all weights and scores (B, h, L, S), in operations that autograd differentiates."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'grad=True' if self.grad else ''})"


class Entropy(Differentiable, Sum):
    """``−Σ p ln p`` of each row in nats, (B, h, L): 0 if all weight is on one key, ln S if it is uniform.

    grad: whether gradients flow through it, to train with it as a loss.

    >>> from regard import observe
    >>> q = torch.randn(1, 1, 4, 8, requires_grad=True)
    >>> observe(q, q, q, readings=[Entropy(grad=True)]).readings["entropy"].mean().backward()
    >>> q.grad.shape
    torch.Size([1, 1, 4, 8])
    """

    name = "entropy"

    def dense(self, p: Tensor, s: Tensor) -> Tensor:
        return -torch.where(p > 0, p * p.where(p > 0, 1).log(), 0).sum(-1)

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


class Received(Differentiable, Sum):
    """The total weight each key receives from all queries, (B, h, S).

    grad: whether gradients flow through it, to train with it as a loss.

    >>> from regard import observe
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Received()]).readings["received"][0, 0].round(decimals=3)
    tensor([1., 1., 1., 1.])
    """

    name = "received"

    def dense(self, p: Tensor, s: Tensor) -> Tensor:
        return p.sum(-2)

    def start(self, shape: Shape) -> Tensor:
        return shape.zeros(shape.S)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        state[:, :, cols.start : cols.stop] += p.sum(-2)

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor]:
        shares, dtype = run.received(), run.shape.dtype
        return lambda: shares.sum(0).to(dtype)


class RowMass(Sum):
    """The total weight of each row, (B, h, L): 1, or 0 for a row without visible keys; less than 1 with sinks."""

    name = "row_mass"

    def start(self, shape: Shape) -> Tensor:
        return shape.zeros(shape.L)

    def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        state[:, :, rows.start : rows.stop] += p.sum(-1)

    def compiled(self, run: CompiledPass) -> Callable[[], Tensor]:
        mass = run.row_mass()
        return lambda: mass


class MaxLogit(Differentiable):
    """The largest score of each row, (B, h, L); −∞ where a row has no visible keys. Its gradient goes to the first largest.

    grad: whether gradients flow through it, to train with it as a loss.

    >>> from regard import observe
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[MaxLogit()]).readings["max_logit"][0, 0]
    tensor([0., 0., 0., 0.])
    """

    name = "max_logit"

    def dense(self, p: Tensor, s: Tensor) -> Tensor:
        if not s.shape[-1]:
            return s.new_full(s.shape[:-1], -math.inf)
        return s.gather(-1, s.detach().argmax(-1, keepdim=True)).squeeze(-1)

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


class Sink(Sum):
    """The weight each row puts on the first n keys, (B, h, L).

    n: how many keys at the start.

    Raises ValueError for an n below 1.

    >>> from regard import observe
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Sink(2)]).readings["sink"][0, 0]
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """

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
