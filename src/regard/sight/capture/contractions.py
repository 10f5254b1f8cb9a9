"""Read matrix products, einsums and weighted sums alike, as contractions with named axes; arrange one with weights as attention.

Axes: B batch, h heads, L queries, S keys, dv value width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

PRODUCTS = {
    "matmul", "__matmul__", "__rmatmul__", "linalg_matmul", "bmm", "mm", "mv", "inner", "tensordot", "einsum", "baddbmm", "addmm",
}  # fmt: skip
ADDING = {"baddbmm", "addmm"}  # beta · first argument + alpha · product of the other two


class Contraction(NamedTuple):
    """A product of two tensors: the name of each of their axes and of the result's. A name in both but not in the result is summed."""

    left: Tensor
    right: Tensor
    left_axes: tuple[Any, ...]
    right_axes: tuple[Any, ...]
    out_axes: tuple[Any, ...]


def contraction(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Contraction | None:
    """Return the contraction that a function of `PRODUCTS` computes; None for two vectors, or an einsum of not exactly two tensors."""
    if name == "einsum":
        return _einsum(args)
    if name in ADDING:
        given = [*args[1:3], *(kwargs[key] for key in ("batch1", "mat1", "batch2", "mat2") if key in kwargs)]
    else:
        given = [*args[:2], *(kwargs[key] for key in ("other", "mat2", "vec", "b") if key in kwargs)]
    left, right = given[:2] if len(given) > 1 else (None, None)
    left, right = (right, left) if name == "__rmatmul__" else (left, right)
    if not (isinstance(left, Tensor) and isinstance(right, Tensor)) or not left.dim() or not right.dim() or left.dim() + right.dim() < 3:
        return None
    if name == "tensordot":
        return _tensordot(left, right, kwargs.get("dims", args[2] if len(args) > 2 else 2))
    if name == "inner":
        return _tensordot(left, right, ([left.dim() - 1], [right.dim() - 1]))
    lead = max(left.dim(), right.dim()) - 2
    names = tuple(range(lead))
    left_lead, right_lead = names[lead + 2 - max(left.dim(), 2) :], names[lead + 2 - max(right.dim(), 2) :]
    rows, columns = ("i",) if left.dim() > 1 else (), ("j",) if right.dim() > 1 else ()
    left_axes, right_axes = (*left_lead, *rows, "k") if rows else ("k",), (*right_lead, "k", *columns) if columns else ("k",)
    return Contraction(left, right, left_axes, right_axes, (*names, *rows, *columns))


def _tensordot(left: Tensor, right: Tensor, dims: Any) -> Contraction | None:
    """torch.tensordot: sums over the listed axes, or over the last of one tensor and the first of the other."""
    if isinstance(dims, int):
        dims = (list(range(left.dim() - dims, left.dim())), list(range(dims)))
    if not isinstance(dims, list | tuple) or len(dims) != 2 or not all(isinstance(side, list | tuple) for side in dims):
        return None
    own, theirs = ([axis % x.dim() for axis in side] for side, x in zip(dims, (left, right), strict=True))
    left_axes = tuple(f"k{own.index(a)}" if a in own else f"i{a}" for a in range(left.dim()))
    right_axes = tuple(f"k{theirs.index(a)}" if a in theirs else f"j{a}" for a in range(right.dim()))
    return Contraction(left, right, left_axes, right_axes, tuple(a for a in (*left_axes, *right_axes) if a[0] != "k"))


def einsum_operands(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tensors of a call of torch.einsum with an equation."""
    return tuple(args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:])


def _einsum(args: tuple[Any, ...]) -> Contraction | None:
    if not args or not isinstance(args[0], str):
        return None
    operands = einsum_operands(args)
    equation = args[0].replace(" ", "")
    if len(operands) != 2 or not all(isinstance(x, Tensor) for x in operands):
        return None
    inputs, arrow, out = equation.partition("->")
    parts = inputs.split(",")
    if len(parts) != 2:
        return None
    if not arrow:  # then the result has the axes that occur once, in alphabetical order, after those of an ellipsis
        letters = inputs.replace("...", "").replace(",", "")
        out = ("..." if "..." in inputs else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    axes = [_letters(part, x.dim()) for part, x in zip(parts, operands, strict=True)]
    longest = max((tuple(a for a in part if isinstance(a, int)) for part in axes), key=len)
    out_axes = tuple(a for c in out.replace("...", "…") for a in (longest if c == "…" else (c,)))
    return Contraction(operands[0], operands[1], axes[0], axes[1], out_axes)


def _letters(part: str, dim: int) -> tuple[Any, ...]:
    """Name the axes of an einsum operand; those of an ellipsis are numbers, counted from the right."""
    letters = part.replace("...", "…")
    hidden = dim - len(letters.replace("…", ""))
    return tuple(a for c in letters for a in (range(-hidden, 0) if c == "…" else (c,)))


def weighted_sum(weights: Tensor, values: Tensor, dim: int) -> Contraction | None:
    """Return (weights * values).sum(dim) as a contraction; an axis along which one of them has size 1 belongs to the other."""
    n = max(weights.dim(), values.dim())
    names = range(n)

    if weights.dim() < n or values.dim() < n or values.shape[dim] != weights.shape[dim]:
        return None
    own = {a for a in names if weights.shape[a] > 1 or values.shape[a] == 1} | {dim % n}
    theirs = {a for a in names if values.shape[a] > 1 or weights.shape[a] == 1} | {dim % n}
    left = weights.squeeze([a for a in names if a not in own])
    right = values.squeeze([a for a in names if a not in theirs])
    out = tuple(a for a in names if a != dim % n)
    return Contraction(left, right, tuple(a for a in names if a in own), tuple(a for a in names if a in theirs), out)


@dataclass(eq=False)
class Arrangement:
    """A contraction of weights with values, with its axes arranged as attention: (B, h, L, S) by (B, h, S, dv) to (B, h, L, dv)."""

    weights: Tensor
    values: Tensor
    weight_axes: tuple[Any, ...]
    value_axes: tuple[Any, ...]
    out_axes: tuple[Any, ...]
    lead: tuple[Any, ...]
    row: Any  # None: no query axis, one query
    key: Any
    wide: tuple[Any, ...]  # the axes of a value
    sizes: tuple[int, int]  # (B, h)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, h, L, S)."""
        by_name = dict(zip(self.weight_axes, self.weights.shape, strict=True))
        return (*self.sizes, 1 if self.row is None else by_name[self.row], by_name[self.key])

    def of_weights(self, x: Tensor) -> Tensor:
        """Arrange the weights, or a tensor of their shape such as the scores: (B, h, L, S)."""
        row = () if self.row is None else (self.row,)
        x = x.reshape(self.weights.shape)  # without the axes of size 1 that `weighted_sum` left out
        x = x.permute([self.weight_axes.index(a) for a in (*self.lead, *row, self.key)])
        x = x.unsqueeze(-2) if self.row is None else x
        return x.expand(*self.lead_shape, *x.shape[-2:]).reshape(self.shape)

    @property
    def lead_shape(self) -> tuple[int, ...]:
        def size(axis: Any) -> int:
            sides = ((self.weight_axes, self.weights), (self.value_axes, self.values))
            return max(int(x.shape[axes.index(axis)]) for axes, x in sides if axis in axes)

        return tuple(size(axis) for axis in self.lead)

    def of_values(self) -> Tensor:
        """Arrange the values: (B, h, S, dv)."""
        present = [a for a in self.lead if a in self.value_axes]
        x = self.values.permute([self.value_axes.index(a) for a in (*present, self.key, *self.wide)])
        for place, axis in enumerate(self.lead):
            if axis not in self.value_axes:
                x = x.unsqueeze(place)
        count = len(self.lead)
        x = x.expand(*self.lead_shape, *x.shape[count:])
        return x.reshape(*self.sizes, x.shape[count], math.prod(x.shape[count + 1 :]))

    def _out_order(self) -> list[int]:
        row = () if self.row is None else (self.row,)
        return [self.out_axes.index(a) for a in (*self.lead, *row, *self.wide)]

    def of_output(self, out: Tensor) -> Tensor:
        """Arrange the product's result: (B, h, L, dv)."""
        x = out.permute(self._out_order())
        wide = math.prod(x.shape[x.dim() - len(self.wide) :])
        return x.reshape(*self.sizes, self.shape[2], wide)

    def to_output(self, output: Tensor, like: Tensor) -> Tensor:
        """Give an output (B, h, L, dv) the axes of the product's result."""
        order = self._out_order()
        inverse = [order.index(i) for i in range(len(order))]
        return output.reshape([like.shape[i] for i in order]).permute(inverse).contiguous().to(like.dtype)


def arrange(c: Contraction, weights_left: bool, heads: int | None) -> Arrangement | None:
    """Arrange a contraction whose left (or right) factor holds the weights; None if it is not a weighted sum along one axis."""
    weights, values, own, theirs = (
        (c.left, c.right, c.left_axes, c.right_axes) if weights_left else (c.right, c.left, c.right_axes, c.left_axes)
    )
    summed = [a for a in own if a in theirs and a not in c.out_axes]
    if len(summed) != 1 or any(a not in c.out_axes for a in (*own, *theirs) if a != summed[0]):
        return None
    rows = [a for a in own if a in c.out_axes and a not in theirs]
    row = rows[-1] if rows else None
    lead = tuple(a for a in own if a not in (row, summed[0]))
    if c.left_axes[-2:] == ("i", "k") and any(isinstance(a, int) for a in theirs if a not in own):
        return None  # a matmul whose values have more leading axes than the weights
    wide = tuple(a for a in theirs if a not in own)
    made = Arrangement(weights, values, own, theirs, c.out_axes, lead, row, summed[0], wide, (1, 1))
    sizes = made.lead_shape
    if heads is not None and len(lead) > 2 and sizes[-1] != heads and sizes[1:].count(heads) == 1:  # (B, h, blocks, L, S)
        place = 1 + sizes[1:].index(heads)
        made.lead = (*lead[:place], *lead[place + 1 :], lead[place])
    made.sizes = batch_and_heads(made.lead_shape, heads)
    return made


def batch_and_heads(lead: tuple[int, ...], heads: int | None) -> tuple[int, int]:
    """Split leading axes into batch and heads: the last is the head axis; a single one is B · h where the number of heads is known.

    >>> batch_and_heads((2, 4), None), batch_and_heads((8,), 4), batch_and_heads((3, 5, 4), None)
    ((2, 4), (2, 4), (15, 4))
    """
    if not lead:
        return 1, 1
    if len(lead) == 1:
        return (lead[0] // heads, heads) if heads and lead[0] % heads == 0 else (lead[0], 1)
    return math.prod(lead[:-1]), lead[-1]
