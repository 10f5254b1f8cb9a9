"""A mask from a rule: a function of query and key positions, evaluated on whole tiles.

B batch, h heads, L queries, S keys, R ranges.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from regard.masks import ranges
from regard.masks.mask import Mask

CHUNK = 1 << 20  # pairs evaluated at once


class Rule(Mask):
    """See `rule`."""

    evaluates = True

    def __init__(self, function: Callable[..., Tensor], batch: int, heads: int, align: str, by_head: bool) -> None:
        self.function, self._lead, self.align, self.by_head = function, (batch, heads), align, by_head

    @property
    def lead(self) -> tuple[int, int]:
        return self._lead

    def contents(self) -> tuple[object, ...]:
        code = getattr(self.function, "__code__", None)
        held = [repr(cell.cell_contents) for cell in getattr(self.function, "__closure__", None) or ()]
        return repr(self), repr(None if code is None else (code.co_code, code.co_consts, code.co_names)), *held, *self._lead, self.align

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        i = torch.arange(r0, r1, device=device).view(-1, 1) + (S - L if self.align == "end" else 0)
        j = torch.arange(c0, c1, device=device)
        places: tuple[Tensor, ...] = (i, j)
        if self.by_head:
            B, h = self._lead
            places = (torch.arange(B, device=device).view(-1, 1, 1, 1), torch.arange(h, device=device).view(-1, 1, 1), i, j)
        visible = self.function(*places)
        shape = (*self._lead, r1 - r0, c1 - c0) if self.by_head else (r1 - r0, c1 - c0)
        if not isinstance(visible, Tensor) or visible.dtype != torch.bool:
            kind = visible.dtype if isinstance(visible, Tensor) else type(visible).__name__
            raise TypeError(f"{self!r} returned {kind}; expected a bool tensor, True where a key is visible (use & | ~, not and, or, not)")
        if visible.dim() > len(shape) or any(n not in (1, m) for n, m in zip(visible.shape[::-1], shape[::-1], strict=False)):
            raise ValueError(f"{self!r} returned shape {tuple(visible.shape)} for positions {tuple(i.shape)} and {tuple(j.shape)}")
        visible = visible.expand(shape)
        return visible if self.by_head else visible[None, None]

    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        step = max(1, CHUNK // max(1, S * self._lead[0] * self._lead[1]))
        chunks: list[Tensor] = []
        for r in range(0, L, step) if S else ():
            runs = ranges.runs(self.fill(r, min(r + step, L), 0, S, L, S, device))
            if runs is None:
                return None
            chunks.append(runs)
        if not chunks:
            return None
        width = max(chunk.shape[-2] for chunk in chunks)
        return torch.cat([torch.nn.functional.pad(chunk, (0, 0, 0, width - chunk.shape[-2]), value=S) for chunk in chunks], 2)

    def __repr__(self) -> str:
        return f"rule({getattr(self.function, '__name__', type(self.function).__name__)})"


def rule(
    function: Callable[..., Tensor], *, batch: int | None = None, heads: int | None = None, align: Literal["start", "end"] = "end"
) -> Mask:
    """A mask from a function of positions: `function(i, j)` is True where query i sees key j.

    It is called with whole tiles, i (rows, 1) and j (columns,), and returns a bool tensor: write `(i >= j) & (j > 0)`, not `and`. With
    `batch` or `heads` it is called as `function(b, h, i, j)`, b (batch, 1, 1, 1) and h (heads, 1, 1). Positions count from the start;
    with align="end", as for `causal`, the last query is at the position of the last key.

    function: the rule; it must not depend on anything that changes between calls.
    batch, heads: how many patterns it has, where they differ.
    align: "end" or "start".

    The rule is evaluated once for a length, into key ranges where rows need few, and then runs compiled; it combines with & | ~.

    Returns the mask. Raises TypeError if it is not a function of the positions, ValueError for another `align`.

    >>> print(rule(lambda i, j: (i - j) % 3 == 0).draw(4, 4))
    ██····██
    ··██····
    ····██··
    ██····██
    >>> rule(lambda b, h, i, j: (i - j).abs() <= h, heads=2).dense(3, 3)[0, 1].int().tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """
    if not callable(function):
        raise TypeError(f"rule takes a function of positions, but got {type(function).__name__}; wrap a bool tensor in regard.dense")
    if align not in ("start", "end"):
        raise ValueError(f"align is {align!r}; pass 'end' (the last query at the last key) or 'start'")
    by_head = batch is not None or heads is not None
    wanted = 4 if by_head else 2
    try:
        inspect.signature(function).bind(*range(wanted))
    except TypeError:
        names = "(b, h, i, j), because batch or heads is given" if by_head else "(i, j); for one by batch or head pass batch= or heads="
        raise TypeError(f"the rule {function!r} must take {names}") from None
    except ValueError:  # a builtin without a signature
        pass
    return Rule(function, batch or 1, heads or 1, align, by_head)
