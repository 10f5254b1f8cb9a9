"""Compiled attention on the CPU: exact, linear in memory, forward and backward.

Axes: B batch, h heads, k key heads, L queries, S keys, d width, dv value width.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from ..choices import Argmax, Sample, Softmax
from . import native_masks, native_pairs, native_read
from . import native_ops as ops
from .reference import pick
from .spec import Result, Spec
from .streamed import Streamed, differentiate_twice

_STREAMED = Streamed()


def instruction_set() -> str | None:
    """The instruction set the compiled kernels run with; None if this installation has none.

    >>> instruction_set() in (None, "baseline", "avx2", "avx512", "avx512_bf16", "neon")
    True
    """
    return None if ops._native is None else str(ops._native.instruction_set())


class Native:
    name = "native"

    def refuses(self, spec: Spec) -> str | None:
        if ops._native is None:
            return "regard was installed without its compiled kernels; reinstall with a C++ compiler present"
        query = spec.query
        if query.device.type != "cpu":
            return f"compiled for the CPU, and the query is on {query.device.type}"
        if query.dtype not in ops.TYPES:
            return f"compiled for float32 and bfloat16, not {str(query.dtype).removeprefix('torch.')}"
        if type(spec.choice) not in (Softmax, Argmax, Sample):
            return f"{type(spec.choice).__name__} has no compiled kernel"
        if spec.choice.hard and (spec.score is not None or torch.compiler.is_compiling()):
            return "a hard choice is compiled for dot products outside graphs only"
        if spec.score is not None and (why := native_pairs.refuses(spec)) is not None:
            return why
        if spec.bias is not None:
            return "a bias per query and key has no compiled kernel"
        if isinstance(spec.beta, Tensor):
            return "a learned temperature has no compiled kernel"
        if spec.dropout and spec.score is not None:
            return "dropout is compiled for dot products only"
        if not (query.numel() and spec.key.numel() and spec.value.numel()):
            return "nothing to compute"
        return None if spec.mask is None else native_masks.refuses(spec.mask, query.shape[2], spec.key.shape[2], query.device)

    def bytes(self, spec: Spec) -> int:
        """Output and lse, K and V repacked, the pattern of a mask made of tensors.

        For a gradient also Q, dO and up to 16 shares of dQ, and the gradients.
        """
        B, h, L, S = spec.sizes
        pattern = native_masks.built(spec.mask, L, S) if spec.mask is not None and not self._ranges(spec) else 0
        if spec.score is not None:
            return native_pairs.bytes_of(spec) + pattern
        k, d, dv = spec.key.shape[1], spec.query.shape[3], spec.value.shape[3]
        element = spec.query.element_size()
        packed = 4 * B * k * S * (d + dv)
        total = B * h * L * (dv * element + 4) + packed + pattern
        if spec.needs_grad:
            shares = max(1, min(-(-16 // (B * k)), -(-S // 256)))
            total += 4 * (B * k * S * d + B * h * L * (d * (1 + shares) + dv)) + element * (spec.query.numel() + B * k * S * (d + dv))
        return total

    def reason(self, spec: Spec) -> str:
        seen = "no mask"
        if spec.mask is not None:
            seen = "spans mask" if self._ranges(spec) else "dense mask, tile by tile"
        name = "compiled" if torch.compiler.is_compiling() else instruction_set()  # a graph cannot call into the extension
        return f"{str(spec.query.dtype).removeprefix('torch.')} on CPU, {seen} ({name})"

    def run(self, spec: Spec) -> Result:
        seen = self._spans(spec)
        if spec.score is not None:
            output, lse = native_pairs.run(spec, seen)
            return Result(output, lse, readings=_STREAMED.read(spec, lse.detach()) if spec.readings else {})
        if type(spec.choice) is not Softmax:
            return self._hard(spec, seen)
        output, lse = self._soft(spec, seen)
        return Result(output, lse, readings=self._read(spec, lse.detach(), seen) if spec.readings else {})

    @staticmethod
    def _soft(spec: Spec, seen: Tensor | None) -> tuple[Tensor, Tensor]:
        """Output and lse of the softmax, differentiable if asked for."""
        inputs: tuple[Any, ...] = (spec.query, spec.key, spec.value, spec.key_bias, spec.sinks)
        numbers = (spec.scale, spec.cap or 0.0, float(spec.beta), spec.dropout, spec.seed)
        if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
            output, lse = ops.dot_attention(*inputs, seen, *numbers)
        elif spec.needs_grad:
            output, lse = _Autograd.apply(spec, seen, numbers, *inputs)  # type: ignore[no-untyped-call]
        else:
            arguments: tuple[Any, ...] = (*inputs, seen, *numbers)
            output, lse = ops.forward(*arguments)
        return output, lse

    def _hard(self, spec: Spec, seen: Tensor | None) -> Result:
        """One key a row; a sample's log-probability is its own score less the lse, and both carry gradients."""
        with torch.no_grad():
            index = ops.pick(spec, seen)
        output = pick(spec.value, index)
        if not isinstance(spec.choice, Sample):
            return Result(output, index=index, readings=_STREAMED.read(spec) if spec.readings else {})
        through = spec.choice.straight_through
        soft, lse = self._soft(spec if through else dataclasses.replace(spec, value=spec.value[..., :1].detach()), seen)
        if through:
            output = soft + (output - soft).detach()
        empty = index < 0
        log_prob = self._score_of(spec, index).masked_fill(empty, 0) - lse.masked_fill(empty, 0)
        return Result(output, lse, index, log_prob, self._read(spec, lse.detach(), seen) if spec.readings else {})

    @staticmethod
    def _score_of(spec: Spec, index: Tensor) -> Tensor:
        """z of each row's chosen key, (B, h, L)."""
        z = (spec.query.float() * pick(spec.key, index).float()).sum(-1) * spec.scale
        if spec.key_bias is not None:
            z = z + pick(spec.key_bias.unsqueeze(-1), index).squeeze(-1)
        if spec.cap is not None:
            z = spec.cap * torch.tanh(z / spec.cap)
        return z * spec.beta

    @staticmethod
    def _read(spec: Spec, lse: Tensor, seen: Tensor | None) -> dict[str, Any]:
        ours, rest = native_read.split(spec.readings)
        found = native_read.read(spec, ours, lse, seen) if ours else {}
        if rest:  # readings of the user's own, or a second of a kind
            found |= _STREAMED.read(dataclasses.replace(spec, readings=rest), lse)
        return found

    @staticmethod
    def _ranges(spec: Spec) -> bool:
        """Whether the mask is read as ranges; else as a pattern."""
        return spec.mask is not None and spec.mask.spans(spec.query.shape[2], spec.key.shape[2], device=spec.query.device) is not None

    @staticmethod
    def _spans(spec: Spec) -> Tensor | None:
        """What the kernel reads of the mask."""
        return None if spec.mask is None else native_masks.look(spec.mask, spec.query.shape[2], spec.key.shape[2], spec.query.device)


class _Autograd(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, spec: Spec, seen: Tensor | None, numbers: tuple[float, float, float, float, int], *inputs: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        arguments: tuple[Any, ...] = (*inputs, seen, *numbers)
        output, lse = ops.forward(*arguments)
        ctx.save_for_backward(*inputs, output, lse)
        ctx.spec, ctx.seen, ctx.numbers = spec, seen, numbers
        ctx.set_materialize_grads(False)
        return output, lse

    @staticmethod
    def backward(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, output, lse = ctx.saved_tensors
        if torch.is_grad_enabled():
            query, key, value, key_bias, sinks = inputs
            everything = [query, key, value, key_bias, None, None, sinks]
            twice = differentiate_twice(ctx.spec, everything, output.new_empty(0), d_out, d_lse, None)
            return (None, None, None, *twice[:4], twice[6])
        if d_out is None:
            d_out = torch.zeros((), dtype=output.dtype, device=output.device).expand_as(output)
        arguments: tuple[Any, ...] = (d_out, d_lse, *inputs, ctx.seen, output, lse, *ctx.numbers)
        grads: list[Tensor | None] = list(ops.backward(*arguments))
        return (None, None, None, *(grad if x is not None else None for grad, x in zip(grads, inputs, strict=True)))


__all__ = ["Native", "instruction_set"]
