"""The mask protocol: what a mask implements, and what callers ask of it.

B batch, h heads, L queries (rows), S keys (columns). True = visible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor

from regard.masks.ranges import MAX_SPANS
from regard.tracing import outlives_trace

Device: TypeAlias = torch.device | str | int | None
Verdict: TypeAlias = Literal["all", "none"] | None
Size: TypeAlias = tuple[int | None, int | None]
Tile: TypeAlias = Literal["all", "none"] | Tensor
_T = TypeVar("_T")


class Mask(ABC):
    """Which keys are visible to each query (True = visible), computed tile by tile instead of stored as L × S. Immutable.

    Combine masks with `&` (visible in both), `|` (visible in either) and `~` (inverted).

    A mask of your own is a subclass with `fill`; `covers` lets tiles be skipped, `key_ranges` lets compiled kernels run it. For most masks
    :func:`regard.rule` is shorter.

    >>> from regard.masks import causal, prefix
    >>> (causal() | prefix(2)).dense(3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    """

    _precedence: ClassVar[int] = 4  # operator precedence in the repr: | 1, & 2, ~ 3, a call 4
    evaluates: ClassVar[bool] = False  # whether its pattern may be evaluated once, where ranges do not do, to run compiled
    commutes: ClassVar[bool] = False  # whether the order of `operands` does not matter

    # What a subclass implements: `fill` is required, the others make it faster or check more. Rectangles are never empty.

    @abstractmethod
    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        """Rows r0 … r1 − 1 and columns c0 … c1 − 1 as a bool tensor that broadcasts to (B, h, rows, columns); True = visible.

        Called only where `covers` returns None.

        L, S: numbers of queries and keys.
        device: where the tensor is to be.
        """

    def covers(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int) -> Verdict:
        """Return "all" or "none" if every or no pair of rows r0 … r1 − 1 and columns c0 … c1 − 1 of the L × S pattern is visible.

        None if `fill` is needed to decide. A tile with "none" is skipped.
        """
        return None

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        """The visible keys of each row as ranges, int32 (B|1, h|1, L|1, R, 2), sorted, disjoint, [start, stop), unused slots [S, S) last.

        None when a row needs too many. Compiled kernels read masks in this form, on `device`.
        """
        return None

    def check_size(self, L: int, S: int) -> None:
        """Raise ValueError if the mask cannot be read as L × S."""
        return

    def part(self, rows: range, cols: range, L: int, S: int) -> Mask:
        """The rectangle rows × cols of the L × S pattern as a mask of its own, len(rows) × len(cols).

        >>> from regard.masks import causal
        >>> causal().part(range(4, 6), range(3, 6), 8, 8).dense(2, 3)[0, 0].int().tolist()
        [[1, 1, 0], [1, 1, 1]]
        """
        from regard.masks.part import Part

        return Part(self, rows, cols, L, S)

    def aligned(self, axes: tuple[int, ...]) -> Mask:
        """This mask for inputs with these axes in front of (positions, features); only explicit patterns read them differently.

        axes: (batch, heads), (batch,) for inputs without heads, or more in front. The mask returned is for (their product, heads).
        """
        return self

    def pattern(self, L: int) -> Tensor | None:
        """The whole pattern, bool (B|1, h|1, L, S), where a tensor already holds it (it is not copied); None for any other mask."""
        return None

    def contents(self) -> tuple[object, ...]:
        """Texts, numbers and tensors that identify this mask across processes. For masks without `operands`."""
        if type(self).__repr__ is not object.__repr__:
            return (repr(self),)
        return type(self).__qualname__, *(x for item in sorted(self.__getstate__().items()) for x in item)

    @property
    def operands(self) -> tuple[Mask, ...]:
        """The masks this one is made of."""
        return ()

    @property
    def lead(self) -> tuple[int, int]:
        """(B, h) the mask was made for; 1 where it is the same for all of them."""
        return 1, 1

    @property
    def device(self) -> torch.device | None:
        """The device of the mask's tensors; None when it holds none."""
        return None

    @property
    def size(self) -> Size:
        """(L, S) the mask was made for; None where it fits any number."""
        return None, None

    @property
    def _preview_keys(self) -> int:
        """How many keys to draw for the pattern to be recognisable, where `size` does not fix it."""
        return 12

    # What callers use: these validate, and cache

    def spans(self, L: int, S: int, *, device: Device = None) -> Tensor | None:
        """The visible keys of each row as ranges: int32 (B|1, h|1, L, R, 2), sorted, disjoint, half-open [start, stop).

        Unused slots of a row are [S, S) and come last; R ≥ 1. None when a row needs more than `MAX_SPANS` ranges (or an operand
        far more). The tensor is cached and may be an expanded view: do not write to it.

        device: where the tensor is to be.

        >>> from regard.masks import causal, window
        >>> (causal() & window(1, 0)).spans(3, 3).tolist()
        [[[[[0, 1]], [[0, 2]], [[1, 3]]]]]
        """
        target = self._target(device)

        def build() -> Tensor | None:
            key_ranges = self.key_ranges(L, S, target)
            if key_ranges is None or key_ranges.shape[-2] > MAX_SPANS:
                return None
            return key_ranges.expand(-1, -1, L, -1, -1)

        return self.remember(("spans", L, S, target), build)

    def tile(self, rows: range, cols: range, L: int, S: int, *, device: Device = None) -> Tile:
        """The rectangle rows × cols of the L × S pattern, without building the pattern.

        "all" or "none" when every or no pair in it is visible, else a bool tensor that broadcasts to (B, h, len(rows), len(cols)).
        A mask that cannot decide cheaply returns the tensor. Do not write to it: it may be shared.

        device: where the tensor is to be.

        >>> from regard.masks import causal
        >>> causal().tile(range(4, 8), range(0, 4), 8, 8)
        'all'
        >>> causal().tile(range(0, 2), range(0, 2), 8, 8).int().tolist()
        [[[[1, 0], [1, 1]]]]
        """
        verdict = self.verdict(rows, cols, L, S)
        if verdict is not None:
            return verdict
        filled = self.fill(rows.start, rows.stop, cols.start, cols.stop, L, S, self._target(device))
        if filled.dtype != torch.bool:
            raise TypeError(f"{type(self).__name__}.fill returned {filled.dtype}; expected torch.bool, True where a key is visible")
        return filled

    def verdict(self, rows: range, cols: range, L: int, S: int) -> Verdict:
        """`tile` without its tensor: "all", "none", or None when only the tensor can decide. The rectangle is never built.

        Arguments as in `tile`.

        >>> from regard.masks import causal
        >>> causal().verdict(range(100_000), range(100_000), 100_000, 100_000) is None
        True
        """
        r0, r1, c0, c1 = rows.start, rows.stop, cols.start, cols.stop
        if not (0 <= r0 <= r1 <= L and 0 <= c0 <= c1 <= S) or rows.step != 1 or cols.step != 1:
            raise ValueError(
                f"tile {rows} × {cols} does not lie inside {L} queries × {S} keys; pass increasing ranges of step 1 within them"
            )
        if r0 == r1 or c0 == c1:
            return "none"
        return self.covers(r0, r1, c0, c1, L, S)

    def dense(self, L: int, S: int, *, device: Device = None) -> Tensor:
        """The whole pattern, bool (B|1, h|1, L, S). It costs L × S: for the reference kernel, tests and small pictures.

        device: where the tensor is to be.

        >>> from regard.masks import window
        >>> window(0, 1).dense(2, 3)[0, 0].int().tolist()
        [[0, 1, 1], [0, 0, 1]]
        """
        target = self._target(device)
        self.check_size(L, S)
        tile = self.tile(range(L), range(S), L, S, device=target)
        if isinstance(tile, str):
            return torch.full((1, 1, 1, 1), tile == "all", device=target).expand(*self.lead, L, S)
        return tile.expand(*self.lead, L, S)

    def check(self, B: int, h: int, L: int, S: int) -> None:
        """Raise ValueError if this mask does not fit inputs of batch B, h heads, L queries and S keys."""
        b, heads = self.lead
        if b not in (1, B):
            raise ValueError(
                f"{self!r} was made for {b} sequences but the inputs have a batch of {B}; build it for {B}, or for 1 to share it"
            )
        if heads not in (1, h):
            raise ValueError(f"{self!r} was made for {heads} heads but the inputs have {h}; build it for {h}, or for 1 to share it")
        self.check_size(L, S)

    def draw(self, L: int, S: int, *, width: int = 64, batch: int = 0, head: int = 0, ascii: bool = False) -> str:
        """The pattern as text, queries down and keys across: █ visible, · hidden, ▒ partly visible where a cell stands for many pairs.

        L, S: numbers of queries and keys.
        width: the most cells of a side; larger patterns are drawn smaller.
        batch, head: which pattern, where they differ.
        ascii: use # and . instead of blocks.

        >>> from regard.masks import causal
        >>> print(causal().draw(3, 3))
        ██····
        ████··
        ██████
        """
        from regard.masks.drawing import as_text

        return as_text(self, L, S, width=width, batch=batch, head=head, ascii=ascii)

    def _repr_html_(self) -> str:
        from regard.masks.drawing import as_html

        return as_html(self)

    # The algebra

    def __and__(self, other: Mask) -> Mask:
        from regard.masks.algebra import And, combine

        return combine(And, self, other) if isinstance(other, Mask) else NotImplemented

    def __or__(self, other: Mask) -> Mask:
        from regard.masks.algebra import Or, combine

        return combine(Or, self, other) if isinstance(other, Mask) else NotImplemented

    def __invert__(self) -> Mask:
        from regard.masks.algebra import Not

        return self.mask if isinstance(self, Not) else Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a mask has no truth value; combine masks with & | ~ instead of and, or, not")

    def _target(self, device: Device) -> torch.device | None:
        """The device asked for, else the mask's own."""
        return self.device if device is None else torch.device(device)

    def remember(self, key: Hashable, build: Callable[[], _T]) -> _T:
        """The result of `build`, computed once for a key; the last eight are kept with the mask."""
        memo: dict[Hashable, Any] | None = getattr(self, "_memo", None)  # torch 2.11 cannot compile __dict__.setdefault
        if memo is None:
            object.__setattr__(self, "_memo", memo := {})
        if not torch.compiler.is_compiling() and torch._C._len_torch_dispatch_stack():
            return build()  # under a mode such as FakeTensorMode tensors are of its own kind
        if key in memo:
            return memo[key]  # type: ignore[no-any-return]
        if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
            with torch.inference_mode(False):  # an inference tensor kept here could not be used in training later
                result = build()
        else:
            result = build()
        if isinstance(result, Tensor) and not outlives_trace(result):
            return result
        if len(memo) >= 8:
            memo.pop(next(iter(memo)), None)
        memo[key] = result
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_memo"}
