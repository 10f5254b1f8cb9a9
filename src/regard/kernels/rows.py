"""Attention in plain torch operations that read no numbers, a block of queries at a time.

For what must see every operation: torch.func transforms (vmap, grad, jacrev …), forward-mode differentiation, meta and fake tensors,
and graphs of torch.compile and torch.export that no other kernel can be part of.

Axes: B batch, h heads, L queries, S keys.
"""

from __future__ import annotations

import torch

from ..tracing import compiling, transform
from .kernel import Result
from .reference import Reference
from .request import Request
from .second_order import row_blocks
from .tiles import TILE

_REFERENCE = Reference()


class Rows:
    """The dense reference on one block of queries after another; every operation can be transformed or recorded."""

    name = "rows"

    def refuses(self, request: Request) -> str | None:
        return "readings are summed in place, which transforms and graphs cannot follow" if request.readings else None

    def bytes(self, request: Request) -> int:
        dense = _REFERENCE.bytes(request)
        if request.needs_grad or torch._C._are_functorch_transforms_active():
            return dense  # autograd keeps the weights of every block
        largest = max(map(len, _blocks(request)))
        return dense * largest // max(1, request.query.shape[2]) + request.query.numel() * request.query.element_size()

    def reason(self, request: Request) -> str:
        what = "a graph of torch.compile" if compiling() else transform(request.query)
        return "plain torch operations" if what is None else f"{what} needs plain torch operations"

    def run(self, request: Request) -> Result:
        blocks = [_REFERENCE.run(request, rows) for rows in _blocks(request)]
        if len(blocks) == 1:
            return blocks[0]
        output = torch.cat([block.output for block in blocks], 2)
        lse, index, log_prob = (
            torch.cat(parts, 2) if (parts := [part for block in blocks if (part := getattr(block, name)) is not None]) else None
            for name in ("lse", "index", "log_prob")
        )
        return Result(output, lse, index, log_prob)


def _blocks(request: Request) -> list[range]:
    """The blocks of queries: few in a graph, which records the operations of each."""
    return list(row_blocks(request, 16 * TILE if compiling() else TILE)) or [range(0)]


__all__ = ["Rows"]
