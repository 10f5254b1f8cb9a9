"""What every kernel offers, and what it answers.

Axes: B batch, h heads, L queries, dv value width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from .request import Request


class Selection(NamedTuple):
    """The kernel that runs a request, and why not the faster ones."""

    kernel: Kernel
    rejected: dict[str, str]


@dataclass(eq=False, slots=True)
class Result:
    """What a kernel answers. lse is that of z (no row_shift)."""

    output: Tensor  # (B, h, L, dv)
    lse: Tensor | None = None  # (B, h, L), float32 or float64
    index: Tensor | None = None  # (B, h, L) int64, −1 on an empty row
    log_prob: Tensor | None = None  # (B, h, L)
    readings: dict[str, Any] = field(default_factory=dict)
    selection: Selection | None = None  # set by `select.execute`


class Kernel(Protocol):
    """One way to compute a request."""

    name: str

    def refuses(self, request: Request) -> str | None:
        """Why this kernel cannot (or must not) run the request; None if it can."""

    def bytes(self, request: Request) -> int:
        """Extra memory at the peak, forward and (if a gradient is needed) backward, the output included."""

    def reason(self, request: Request) -> str:
        """Why it was picked, in a few words."""

    def run(self, request: Request) -> Result:
        """All that the request asks for (mask, dropout, sinks, readings …) and `refuses` did not decline; the lse where there is one."""


__all__ = ["Kernel", "Result", "Selection"]
