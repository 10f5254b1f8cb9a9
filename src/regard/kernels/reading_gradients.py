"""Gradients of readings made with ``grad=True``, in linear memory.

The weights are not stored, so the gradient of a reading is that of an attention whose values are the reading's own gradient: with
R_j = Σ_i p_ij and g_j its gradient, Σ_j g_j R_j = Σ_i (Σ_j p_ij g_j), one attention with g as values. The entropy's dP = −g (ln p + 1)
is added inside the kernels, and the largest score's gradient goes to one key per row.

Axes: B batch, h heads, k key heads, L queries, S keys.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import torch
from torch import Tensor

from ..choices import Argmax, Softmax
from ..readings import Differentiable, Entropy, MaxLogit, Received
from .request import Input, Request, accumulator
from .streamed_backward import Backward
from .streamed_forward import Forward
from .tiles import Tiles, repeat_heads


class WeightBackward(Protocol):
    """The backward pass of a kernel, for a request whose values are a gradient; None if the kernel does not support it."""

    def __call__(self, request: Request, lse: Tensor | None, d_out: Tensor, d_lse: Tensor | None, d_entropy: Tensor | None) -> Any: ...


def attach_gradients(
    request: Request, results: dict[str, Any], lse: Tensor | None, backward: WeightBackward | None = None
) -> dict[str, Any]:
    """The results, those with ``grad=True`` differentiable. lse (B, h, L): of a softmax, else None.

    backward: computes what the streamed kernel would compute, faster; see `WeightBackward`.
    """
    wanted = tuple(reading for reading in request.readings if isinstance(reading, Differentiable) and reading.grad)
    if isinstance(request.choice, Argmax):  # its weights are constant almost everywhere
        wanted = tuple(reading for reading in wanted if isinstance(reading, MaxLogit))
    if not wanted or not request.needs_grad:
        return results
    values = [results[reading.name].detach() for reading in wanted]
    shifts = request.row_shift
    attached = _Attach.apply(request, wanted, values, lse, backward, *request.inputs())  # type: ignore[no-untyped-call]
    for reading, value in zip(wanted, attached, strict=True):
        shifted = isinstance(reading, MaxLogit) and shifts is not None
        results[reading.name] = value + (shifts - shifts.detach()).to(value.dtype) if shifted and shifts is not None else value
    return results


class _Attach(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        request: Request,
        readings: tuple[Differentiable, ...],
        values: list[Tensor],
        lse: Tensor | None,
        backward: WeightBackward | None,
        *inputs: Tensor | None,
    ) -> tuple[Tensor, ...]:
        ctx.request, ctx.readings, ctx.backward, ctx.lse = request, readings, backward, None if lse is None else lse.detach()
        ctx.save_for_backward(*values, *inputs)
        ctx.set_materialize_grads(False)
        return tuple(value.clone() for value in values)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        count = len(ctx.readings)
        values, inputs = ctx.saved_tensors[:count], list(ctx.saved_tensors[count:])
        pass_ = _ReadingPass(ctx.request, inputs, ctx.lse, ctx.needs_input_grad[5:])
        for reading, value, grad in zip(ctx.readings, values, grads, strict=True):
            if grad is not None:
                pass_.add(reading, value, grad)
        return (None, None, None, None, None, *pass_.run(ctx.backward))


class _ReadingPass:
    """One backward pass for the gradients of several readings."""

    def __init__(self, request: Request, inputs: list[Tensor | None], lse: Tensor | None, needs: tuple[bool, ...]) -> None:
        self.inputs, self.lse, self.needs, self.group = inputs, lse, needs, request.group
        self.dtype = accumulator(request.query.dtype)
        B, h, _, S = request.sizes
        # Values of one column per query head, so key heads that are shared are repeated.
        key_bias = request.key_bias
        self.request = dataclasses.replace(
            request,
            key=repeat_heads(request.key, self.group),
            key_bias=None if key_bias is None else repeat_heads(key_bias, self.group),
            value=torch.zeros(B, h, S, 1, dtype=request.value.dtype, device=request.value.device),
            dropout=0.0,
            readings=(),
        )
        self.d_lse: Tensor | None = None
        self.d_entropy: Tensor | None = None
        self.d_picked: Tensor | None = None
        self.received = False

    def add(self, reading: Differentiable, value: Tensor, grad: Tensor) -> None:
        """Prepare for the gradient of one reading's result."""
        grad = grad.to(self.dtype)
        if isinstance(reading, Received):
            self.request.value = grad.unsqueeze(-1)
            self.received = True
        elif isinstance(reading, Entropy):
            self.d_entropy = grad.contiguous()
            if self.lse is not None:  # Σ p·dP of a row, with dP = −g (ln p + 1)
                self.d_lse = -grad * (value.to(self.dtype) - self._mass())
        else:
            self.d_picked = grad

    def _mass(self) -> Tensor:
        """The total weight of each row of a softmax."""
        assert self.lse is not None
        if self.request.sinks is None:
            return (self.lse > -torch.inf).to(self.dtype)
        return 1 - (self.request.sinks.to(self.dtype).view(-1, 1) - self.lse).exp()

    def run(self, backward: WeightBackward | None) -> list[Tensor | None]:
        """The gradients of all inputs."""
        request = self.request
        B, h, L, _ = request.sizes
        d_out = torch.full((B, h, L, 1), float(self.received), dtype=self.dtype, device=request.query.device)
        grads: dict[int, Tensor] | None = None
        if backward is not None and self.d_picked is None:
            grads = backward(request, self.lse, d_out, self.d_lse, self.d_entropy)
        if grads is None:
            grads = self._streamed(d_out)
        results: list[Tensor | None] = []
        for index, (x, need) in enumerate(zip(self.inputs, self.needs, strict=True)):
            grad = grads.get(index) if need and index != Input.VALUE else None
            if grad is not None and x is not None and self.group > 1 and index in (Input.KEY, Input.KEY_BIAS):
                grad = grad.unflatten(1, (-1, self.group)).sum(2)
            results.append(None if grad is None or x is None else grad.to(x.dtype))
        return results

    def _streamed(self, d_out: Tensor) -> dict[int, Tensor]:
        request = self.request
        if request.choice.hard:  # the distribution of a sample; the largest score does not ask for more
            request = dataclasses.replace(request, choice=Softmax(), uniform=None)
        output, lse, _, index = Forward(request).run()
        lse = lse if self.lse is None else self.lse
        if self.d_picked is not None:
            index = torch.cat([Forward(request).pick_largest(rows)[0] for rows in Tiles(request).row_blocks()], -1)
            self.d_picked = self.d_picked.masked_fill(index < 0, 0)
        inputs = request.inputs()
        backward = Backward(request, inputs, tuple(x is not None for x in inputs), self.d_entropy)
        results = backward.run(output, lse, index, d_out, self.d_lse, self.d_picked)
        return {i: grad for i, grad in enumerate(results) if grad is not None}


__all__ = ["attach_gradients"]
