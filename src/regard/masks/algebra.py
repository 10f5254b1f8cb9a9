"""Masks made of other masks: `&`, `|`, `~`, and the mask that shows everything."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import ClassVar

import torch
from torch import Tensor

from regard.masks import ranges
from regard.masks.mask import Mask, Size, Verdict


def _parenthesised(mask: Mask, precedence: int) -> str:
    """The mask's repr, in parentheses where an operator of this precedence needs them."""
    return f"({mask!r})" if mask._precedence < precedence else repr(mask)


def _shared_lead(masks: Sequence[Mask]) -> tuple[int, int]:
    """The (B, h) several masks share."""
    sizes = []
    for axis, name in enumerate(("sequences", "heads")):
        by_size = {mask.lead[axis]: mask for mask in masks if mask.lead[axis] != 1}
        if len(by_size) > 1:
            listed = " and ".join(f"{mask!r} ({size} {name})" for size, mask in by_size.items())
            raise ValueError(
                f"masks made for different numbers of {name} cannot be combined: {listed}; build them for the same number, or for 1"
            )
        sizes.append(next(iter(by_size), 1))
    return sizes[0], sizes[1]


@dataclass(frozen=True, repr=False)
class Everything(Mask):
    """Every key is visible to every query."""

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        return "all"

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        return torch.ones((1, 1, 1, 1), dtype=torch.bool, device=device)

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor:
        return torch.tensor([[[[[0, S]]]]], dtype=torch.int32, device=device)

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        return self

    def __repr__(self) -> str:
        return "everything()"


@dataclass(frozen=True, repr=False)
class Not(Mask):
    """`~mask`: visible where the mask is hidden."""

    mask: Mask
    _precedence: ClassVar[int] = 3

    @property
    def lead(self) -> tuple[int, int]:
        return self.mask.lead

    @property
    def device(self) -> torch.device | None:
        return self.mask.device

    @property
    def size(self) -> Size:
        return self.mask.size

    @property
    def _preview_keys(self) -> int:
        return self.mask._preview_keys

    def check(self, B: int, h: int, L: int, S: int) -> None:
        self.mask.check(B, h, L, S)

    def check_size(self, L: int, S: int) -> None:
        self.mask.check_size(L, S)

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        verdict = self.mask.covers(r0, r1, c0, c1, L, S)
        return verdict and ("none" if verdict == "all" else "all")

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        return ~self.mask.fill(r0, r1, c0, c1, L, S, device)

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        hidden = self.mask.key_ranges(L, S, device)
        return None if hidden is None else ranges.complement(hidden, S)

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        return self.mask.part(rows, cols, L, S).__invert__()

    def aligned(self, axes: tuple[int, ...]) -> Mask:
        aligned = self.mask.aligned(axes)
        return self if aligned is self.mask else self.remember(("aligned", axes), lambda: Not(aligned))

    @property
    def operands(self) -> tuple[Mask, ...]:
        return (self.mask,)

    def __repr__(self) -> str:
        return f"~{_parenthesised(self.mask, 3)}"


class Parts(Mask):
    """A mask made of several masks: base class of &, | and per_head."""

    def __init__(self, parts: tuple[Mask, ...]) -> None:
        self.__dict__["parts"] = parts
        self.__dict__["_lead"] = _shared_lead(parts)

    parts: tuple[Mask, ...]
    _lead: tuple[int, int]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"masks never change: cannot set {name!r}; build a new one with & | ~")

    @property
    def lead(self) -> tuple[int, int]:
        return self._lead

    @cached_property
    def device(self) -> torch.device | None:
        return next((part.device for part in self.parts if part.device is not None), None)

    @property
    def size(self) -> Size:
        L, S = ([part.size[axis] for part in self.parts if part.size[axis] is not None] for axis in (0, 1))
        return next(iter(L), None), next(iter(S), None)

    @property
    def _preview_keys(self) -> int:
        return max(part._preview_keys for part in self.parts)

    @property
    def operands(self) -> tuple[Mask, ...]:
        return self.parts

    def aligned(self, axes: tuple[int, ...]) -> Mask:
        parts = tuple(part.aligned(axes) for part in self.parts)
        if all(map(operator.is_, parts, self.parts)):
            return self
        return self.remember(("aligned", axes), lambda: type(self)(parts))

    def check(self, B: int, h: int, L: int, S: int) -> None:
        for part in self.parts:
            part.check(B, h, L, S)

    def check_size(self, L: int, S: int) -> None:
        for part in self.parts:
            part.check_size(L, S)


class _Joined(Parts):
    """Base class of & and |. The order of the parts matters only in the repr."""

    commutes = True
    _operator: ClassVar[str]
    _decisive: ClassVar[Verdict]  # the verdict of one part that decides the whole tile
    _otherwise: ClassVar[Verdict]  # the tile's verdict when every part has the other one

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and set(self.parts) == set(other.parts)

    def __hash__(self) -> int:
        return hash((self._operator, frozenset(self.parts)))

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        return reduce(partial(combine, type(self)), (mask.part(rows, cols, L, S) for mask in self.parts))

    def __repr__(self) -> str:
        return f" {self._operator} ".join(_parenthesised(part, self._precedence) for part in self.parts)

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        undecided = False
        for part in self.parts:
            verdict = part.covers(r0, r1, c0, c1, L, S)
            if verdict == self._decisive:
                return verdict
            undecided = undecided or verdict is None
        return None if undecided else self._otherwise

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        join = torch.logical_and if self._decisive == "none" else torch.logical_or
        undecided = (part for part in self.parts if part.covers(r0, r1, c0, c1, L, S) is None)
        return reduce(join, (part.fill(r0, r1, c0, c1, L, S, device) for part in undecided))

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        join = ranges.intersection if self._decisive == "none" else ranges.union
        joined: Tensor | None = None
        for part in self.parts:
            visible = part.key_ranges(L, S, device)
            if visible is None:
                return None
            joined = visible if joined is None else join(joined, visible, S)
            if not ranges.fits(joined.shape[:-2].numel(), joined.shape[-2]):
                return None
        return joined


class And(_Joined):
    """Visible in every part."""

    _precedence = 2
    _operator = "&"
    _decisive, _otherwise = "none", "all"


class Or(_Joined):
    """Visible in at least one part."""

    _precedence = 1
    _operator = "|"
    _decisive, _otherwise = "all", "none"


def combine(kind: type[_Joined], left: Mask, right: Mask) -> Mask:
    """Join two masks, flattening a & (b & c) and dropping parts that change nothing."""
    full: Mask = Everything()
    identity, absorbing = (full, Not(full)) if kind is And else (Not(full), full)
    parts: list[Mask] = []
    for mask in (left, right):
        for part in mask.parts if isinstance(mask, kind) else (mask,):
            if part == absorbing or part.__invert__() in parts:  # spelled out: a compiled graph cannot trace ~ on an object
                return absorbing
            if part != identity and part not in parts:
                parts.append(part)
    if not parts:
        return identity
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def everything() -> Mask:
    """Return the mask in which every key is visible to every query; `~everything()` hides all of them.

    >>> everything().tile(range(4), range(4), 4, 4)
    'all'
    """
    return Everything()
