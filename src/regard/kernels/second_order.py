"""Gradients that can be differentiated again, a block of rows at a time: double backward without an L×S tensor.

The dense reference computes one block of queries; autograd differentiates that block, once for the gradient and twice for the gradient of
the gradient, and the blocks are summed. Also gradients of many output gradients at once (`is_grads_batched`), one after the other.

Axes: B batch, h heads, L queries, S keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..biases import Diagonals
from ..choices import Sample
from ..tracing import batched_gradient
from .reference import Reference
from .request import Input, Request

BLOCK = 1 << 18  # entries of a block over all batches and heads; a gradient of a gradient holds some thirty such tensors


def row_blocks(request: Request, entries: int) -> Iterator[range]:
    """All queries, in blocks of about this many scores."""
    B, h, L, S = request.sizes
    width = 1 if request.score is None else request.score.width(request.query)
    step = max(1, entries // max(1, B * h * S * width))
    return (range(i, min(i + step, L)) for i in range(0, L, step))


def differentiable_gradients(
    request: Request, inputs: Sequence[Tensor | None], d_out: Tensor | None, d_lse: Tensor | None
) -> list[Tensor | None]:
    """The gradients of `Request.inputs`, differentiable with respect to them, to d_out and to d_lse. inputs replace the request's own."""
    if isinstance(request.choice, Sample):
        raise NotImplementedError("double backward through a Sample is not defined; use Softmax where create_graph=True is needed")
    wanted = [i for i, x in enumerate(inputs) if x is not None and x.requires_grad]
    results = _Gradients.apply(request, wanted, d_out, d_lse, *inputs)  # type: ignore[no-untyped-call]
    grads: list[Tensor | None] = [None] * len(inputs)
    for i, grad in zip(wanted, results, strict=True):
        grads[i] = grad
    return grads


class _Gradients(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, request: Request, wanted: list[int], d_out: Tensor | None, d_lse: Tensor | None, *inputs: Tensor | None
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(d_out, d_lse, *inputs)
        ctx.request, ctx.wanted = request, wanted
        ctx.set_materialize_grads(False)
        totals = [torch.zeros_like(_present(inputs[i])) for i in wanted]
        for rows in row_blocks(request, BLOCK):
            block = _Block(request, rows, inputs, d_out, d_lse, wanted)
            _add(totals, block.first(create_graph=False))
        return tuple(totals)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        d_out, d_lse, *inputs = ctx.saved_tensors
        tensors = [d_out, d_lse, *inputs]
        needs = [i for i, need in enumerate(ctx.needs_input_grad[2:]) if need]
        totals = [torch.zeros_like(_present(tensors[i])) for i in needs]
        for rows in row_blocks(ctx.request, BLOCK):
            block = _Block(ctx.request, rows, inputs, d_out, d_lse, ctx.wanted)
            _add(totals, block.second(cotangents, needs))
        grads: list[Tensor | None] = [None] * len(tensors)
        for i, total in zip(needs, totals, strict=True):
            grads[i] = total
        return (None, None, *grads)


class _Block:
    """Some queries of a request, with leaves in place of its inputs."""

    def __init__(
        self, request: Request, rows: range, inputs: Sequence[Tensor | None], d_out: Tensor | None, d_lse: Tensor | None, wanted: list[int]
    ) -> None:
        # Parameters are leaves already, and their modules hold them.
        self.leaves = [x if i >= Input.PARAMETERS or x is None else _leaf(x) for i, x in enumerate(inputs)]
        self.d_out, self.d_lse = (None if x is None else _leaf(x) for x in (d_out, d_lse))
        self.wanted = wanted
        block = slice(rows.start, rows.stop)
        query, key, value, key_bias, bias, beta, sinks, learned = self.leaves[: Input.PARAMETERS]
        assert query is not None and key is not None and value is not None
        with torch.enable_grad():
            result = Reference().run(
                dataclasses.replace(
                    request,
                    query=query,
                    key=key,
                    value=value,
                    key_bias=key_bias,
                    bias=request.bias if bias is None else Diagonals(bias) if bias.dim() == 2 else bias,
                    beta=request.beta if beta is None else beta,
                    sinks=sinks,
                    choice=request.choice if learned is None else request.choice.with_learned(learned),
                    readings=(),
                ),
                rows,
            )
            pairs = ((result.output, self.d_out), (result.lse, self.d_lse))
            self.outputs = [(y, d[:, :, block].to(y.dtype)) for y, d in pairs if y is not None and d is not None and y.requires_grad]

    def first(self, *, create_graph: bool) -> list[Tensor | None]:
        """The gradients of the wanted inputs."""
        leaves = [_present(self.leaves[i]) for i in self.wanted]
        if not self.outputs or not leaves:
            return [None] * len(leaves)
        outputs, grads = zip(*self.outputs, strict=True)
        with torch.enable_grad():
            return list(torch.autograd.grad(outputs, leaves, grads, create_graph=create_graph, allow_unused=True))

    def second(self, cotangents: Sequence[Tensor | None], needs: list[int]) -> list[Tensor | None]:
        """The gradients, with respect to d_out, d_lse and the inputs, of Σ cotangent · first."""
        firsts_and_cotangents = zip(self.first(create_graph=True), cotangents, strict=True)
        pairs = [(y, c) for y, c in firsts_and_cotangents if y is not None and c is not None and y.requires_grad]
        if not pairs or not needs:
            return [None] * len(needs)
        tensors = [self.d_out, self.d_lse, *self.leaves]
        firsts, grads = zip(*pairs, strict=True)
        return list(torch.autograd.grad(firsts, [_present(tensors[i]) for i in needs], grads, allow_unused=True))


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


def _present(x: Tensor | None) -> Tensor:
    assert x is not None
    return x


def _add(totals: list[Tensor], parts: Sequence[Tensor | None]) -> None:
    for total, part in zip(totals, parts, strict=True):
        if part is not None:
            total += part


def one_by_one(backward: Callable[..., Sequence[Tensor | None]], grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Call a backward for each of many gradients that came as one batched tensor, and return its results batched the same way."""
    level = torch._C._vmapmode_increment_nesting() - 1  # of the vmap that batched them
    torch._C._vmapmode_decrement_nesting()
    batches = [torch._remove_batch_dim(g, level, 1, 0) if g is not None and batched_gradient(g) else None for g in grads]
    count = next(len(batch) for batch in batches if batch is not None)
    columns = [[g if batch is None else batch[i] for g, batch in zip(grads, batches, strict=True)] for i in range(count)]
    results = zip(*(backward(*column) for column in columns), strict=True)
    return tuple(None if each[0] is None else torch._add_batch_dim(torch.stack(each), 0, level) for each in results)


__all__ = ["differentiable_gradients", "one_by_one", "row_blocks"]
