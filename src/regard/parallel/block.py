"""Attention of one block of queries to one block of keys by the library's kernels: partial output and lse, and gradients.

Axes: B batch, h heads, l queries and s keys of the block, dv value width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..kernels.native import Native
from ..kernels.request import Input, Request
from ..kernels.streamed import Streamed
from ..kernels.streamed_backward import Backward

_NATIVE, _STREAMED = Native(), Streamed()


@torch.no_grad()
def forward(request: Request) -> tuple[Tensor, Tensor]:
    """Softmax over this block's keys alone: output (B, h, l, dv) and lse (B, h, l)."""
    result = _NATIVE.run(request) if _NATIVE.refuses(request) is None else _STREAMED.run(request)
    assert result.lse is not None
    return result.output, result.lse


@torch.no_grad()
def backward(
    request: Request, needs: Sequence[bool], output: Tensor, lse: Tensor, d_out: Tensor | None, d_lse: Tensor | None
) -> dict[int, Tensor]:
    """Gradients of this block's inputs, by index in `Request.inputs`.

    output and lse are those of the whole row: a weight is exp(z − lse) whichever block its key is in.
    """
    needed = {index for index, need in enumerate(needs) if need and index != Input.SINKS}
    if _NATIVE.refuses(request) is None and not needed & {Input.BIAS, Input.BETA}:
        grads = _NATIVE.backward(request, output, lse, d_out, d_lse)
    else:
        inputs = request.inputs()
        streamed = Backward(request, inputs, tuple(index in needed for index in range(len(inputs))))
        results = streamed.run(output, lse, lse.new_empty(0), d_out, d_lse, None)
        grads = {index: grad for index, grad in enumerate(results) if grad is not None}
    return {index: grad for index, grad in grads.items() if index in needed}


__all__ = ["backward", "forward"]
