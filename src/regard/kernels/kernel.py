"""The interface of a kernel, and its result.

Axes: B batch, h heads, L queries, dv value width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from ..tracing import transform
from .request import Request


class Selection(NamedTuple):
    """The kernel that runs a request, and why faster ones were rejected.

    kernel: the one that runs it.
    rejected: name → why not.

    >>> from regard.kernels import KERNELS
    >>> Selection(KERNELS["reference"], {}).kernel.name
    'reference'
    """

    kernel: Kernel
    rejected: dict[str, str]


@dataclass(eq=False, slots=True)
class Result:
    """The result of a kernel. lse is that of z, without the request's row_shift.

    >>> import torch
    >>> Result(torch.zeros(1, 1, 2, 4)).lse is None
    True
    """

    output: Tensor  # (B, h, L, dv)
    lse: Tensor | None = None  # (B, h, L), float32 or float64
    index: Tensor | None = None  # (B, h, L) int64, −1 on an empty row
    log_prob: Tensor | None = None  # (B, h, L)
    readings: dict[str, Any] = field(default_factory=dict)  # by name
    selection: Selection | None = None  # set by `select.execute`


def refuses_transforms(request: Request) -> str | None:
    """Why a kernel that reads numbers or calls C++ cannot run the request: a transform must see every operation."""
    why = transform(request.query)
    return None if why is None else f"{why} needs plain torch operations"


class Kernel(Protocol):
    """The interface of one implementation of attention.

    >>> from regard.kernels import KERNELS
    >>> sorted(KERNELS)
    ['fused', 'native', 'reference', 'rows', 'streamed']
    """

    name: str

    def refuses(self, request: Request) -> str | None:
        """Why this kernel does not support the request; None if it does."""

    def bytes(self, request: Request) -> int:
        """Estimated peak memory beside the inputs, output included; with the backward pass if a gradient is needed."""

    def reason(self, request: Request) -> str:
        """Why it was selected, in a few words."""

    def run(self, request: Request) -> Result:
        """Compute everything the request asks for (mask, dropout, sinks, readings …), with the lse where there is one."""


__all__ = ["Kernel", "Result", "Selection", "refuses_transforms"]
