"""Compiled attention on the CPU: exact, linear in memory, forward and backward.

Axes: B batch, h heads, k key heads, L queries, S keys, d width, dv value width.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from ...choices import Argmax, Sample, Softmax
from ...scores import Additive, Gaussian, Score
from ..kernel import Result
from ..reference import gather_picked
from ..request import Request
from ..streamed import Streamed, differentiate_twice
from .arguments import DTYPES
from .dot import DotArguments, pick_keys
from .extension import compiled, instruction_set
from .masks import kernel_mask, pattern_bytes, refuses
from .operators import OPERATORS, Arguments
from .pairs import AdditiveArguments, GaussianArguments
from .readings import read

# Scores that are not dot products but have a compiled kernel, by exact type.
PAIR_SCORES: dict[type[Score], type[AdditiveArguments | GaussianArguments]] = {
    Additive: AdditiveArguments,
    Gaussian: GaussianArguments,
}
_STREAMED = Streamed()


class Native:
    """Compiled tiles on the CPU, for float32 and bfloat16."""

    name = "native"

    def refuses(self, request: Request) -> str | None:
        if compiled is None:
            return "regard was installed without its compiled kernels; reinstall with a C++ compiler present"
        query = request.query
        if query.device.type != "cpu":
            return f"compiled for the CPU, and the query is on {query.device.type}"
        if query.dtype not in DTYPES:
            return f"compiled for float32 and bfloat16, not {_name(query.dtype)}"
        if type(request.choice) not in (Softmax, Argmax, Sample):
            return f"{type(request.choice).__name__} has no compiled kernel"
        if request.score is not None and (why := _refuses_score(request)) is not None:
            return why
        if request.choice.hard and torch.compiler.is_compiling():
            return "a hard choice has no compiled kernel inside torch.compile"
        if request.bias is not None:
            return "a bias per query and key has no compiled kernel"
        if isinstance(request.beta, Tensor):
            return "a learned temperature has no compiled kernel"
        if not (query.numel() and request.key.numel() and request.value.numel()):
            return "an input is empty"
        return None if request.mask is None else refuses(request.mask, query.shape[2], request.key.shape[2], query.device)

    def bytes(self, request: Request) -> int:
        """Output and lse, K and V repacked (an additive score's keys twice), the pattern of a mask made of tensors.

        For a gradient also the repacked inputs, dO, up to 16 shares of dQ, and the gradients.
        """
        B, h, L, S = request.sizes
        k, d, dv = request.key.shape[1], request.query.shape[3], request.value.shape[3]
        element = request.query.element_size()
        packed = 4 * B * k * S * (d * (2 if isinstance(request.score, Additive) else 1) + dv)
        total = B * h * L * (dv * element + 4) + packed
        if request.mask is not None and not _has_ranges(request):
            total += pattern_bytes(request.mask, L, S)
        if request.needs_grad:
            shares = max(1, min(-(-16 // (B * k)), -(-S // 256)))
            total += 4 * B * h * L * (d * (1 + shares) + dv)
            if request.score is None:
                total += 4 * B * k * S * d + element * (request.query.numel() + B * k * S * (d + dv))
            else:
                total += 4 * (B * h * L + B * k * S * (d + dv))
        return total

    def reason(self, request: Request) -> str:
        mask = "no mask"
        if request.mask is not None:
            mask = "spans mask" if _has_ranges(request) else "dense mask, tile by tile"
        name = "compiled" if torch.compiler.is_compiling() else instruction_set()  # a graph of torch.compile cannot call into the extension
        return f"{_name(request.query.dtype)} on CPU, {mask} ({name})"

    def run(self, request: Request) -> Result:
        mask = _kernel_mask(request)
        if request.choice.hard:
            return _hard(request, mask)
        output, lse = _soft(request, mask)
        return Result(output, lse, readings=_read(request, lse.detach(), mask))

    def backward(
        self, request: Request, output: Tensor, lse: Tensor, grad_out: Tensor | None, grad_lse: Tensor | None
    ) -> dict[int, Tensor]:
        """Gradients by index in `Request.inputs`. output and lse may be those of rows that also have keys outside this request."""
        arguments = arguments_of(request, _kernel_mask(request))
        grads = _gradients(arguments, output, lse, grad_out, grad_lse)
        return {index: grad for index, grad in zip(arguments.input_indices(request), grads, strict=True) if grad is not None}


def arguments_of(request: Request, mask: Tensor | None) -> Arguments:
    """The arguments of the kernel that runs the request's score."""
    if request.score is None:
        return DotArguments.of(request, mask)
    return PAIR_SCORES[type(request.score)].of(request, mask)


def _refuses_score(request: Request) -> str | None:
    """Why a score that is no dot product has no compiled kernel; None if it has one."""
    name = type(request.score).__name__
    if type(request.score) not in PAIR_SCORES:
        return f"{name} has no compiled kernel"
    if request.query.dtype != torch.float32:
        return f"{name} is compiled for float32, not {_name(request.query.dtype)}"
    if not isinstance(request.beta, Tensor) and not request.beta > 0:
        return f"an inverse temperature of {request.beta} has no compiled kernel"
    if request.choice.hard:
        return "a hard choice is compiled for dot products only"
    return "dropout is compiled for dot products only" if request.dropout else None


def _soft(request: Request, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Output and lse of the softmax; differentiable if a gradient is needed."""
    arguments = arguments_of(request, mask)
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        fields = (getattr(arguments, field.name) for field in dataclasses.fields(arguments))
        output, lse = OPERATORS[type(arguments)](*fields)
    elif request.needs_grad:
        tensors = (getattr(arguments, name) for name in arguments.differentiable)
        output, lse = _Autograd.apply(request, arguments, *tensors)  # type: ignore[no-untyped-call]
    else:
        output, lse = arguments.forward()
    return output, lse


def _hard(request: Request, mask: Tensor | None) -> Result:
    """Pick one key per row. A sample's log-probability is its score minus the lse; both are differentiable."""
    index = pick_keys(request, mask)
    output = gather_picked(request.value, index)
    if not isinstance(request.choice, Sample):
        return Result(output, None, index, readings=_STREAMED.read(request) if request.readings else {})
    through = request.choice.straight_through
    soft, lse = _soft(request if through else dataclasses.replace(request, value=request.value[..., :1].detach()), mask)
    if through:
        output = soft + (output - soft).detach()
    empty = index < 0
    log_prob = _picked_scores(request, index).masked_fill(empty, 0) - lse.masked_fill(empty, 0)
    return Result(output, lse, index, log_prob, _read(request, lse.detach(), mask))


def _picked_scores(request: Request, index: Tensor) -> Tensor:
    """z of each row's picked key, (B, h, L)."""
    z = (request.query.float() * gather_picked(request.key, index).float()).sum(-1) * request.scale
    if request.key_bias is not None:
        z = z + gather_picked(request.key_bias.unsqueeze(-1), index).squeeze(-1)
    if request.cap is not None:
        z = request.cap * torch.tanh(z / request.cap)
    return z * request.beta


def _read(request: Request, lse: Tensor, mask: Tensor | None) -> dict[str, Any]:
    if not request.readings:
        return {}
    if request.score is not None:
        return _STREAMED.read(request, lse)
    results, unsupported = read(request, lse, mask)
    if unsupported:
        results |= _STREAMED.read(dataclasses.replace(request, readings=unsupported), lse)
    return results


def _has_ranges(request: Request) -> bool:
    """Whether the mask is read as ranges; else as a pattern."""
    L, S = request.query.shape[2], request.key.shape[2]
    return request.mask is not None and request.mask.spans(L, S, device=request.query.device) is not None


def _kernel_mask(request: Request) -> Tensor | None:
    if request.mask is None:
        return None
    return kernel_mask(request.mask, request.query.shape[2], request.key.shape[2], request.query.device)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _gradients(
    arguments: Arguments, output: Tensor, lse: Tensor, grad_out: Tensor | None, grad_lse: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Gradients of `arguments.differentiable`, in their order."""
    if grad_out is None:
        grad_out = torch.zeros((), dtype=output.dtype, device=output.device).expand_as(output)
    return arguments.backward(output, lse, grad_out, grad_lse)


class _Autograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, request: Request, arguments: Arguments, *tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        output, lse = arguments.forward()
        ctx.save_for_backward(*tensors, output, lse)
        ctx.request, ctx.arguments = request, arguments
        ctx.set_materialize_grads(False)
        return output, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        *tensors, output, lse = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return (None, None, *_gradients(ctx.arguments, output, lse, grad_out, grad_lse))
        indices = ctx.arguments.input_indices(ctx.request)
        inputs: list[Tensor | None] = [None] * len(ctx.request.inputs())
        for index, tensor in zip(indices, tensors, strict=True):
            inputs[index] = tensor
        grads = differentiate_twice(ctx.request, inputs, output.new_empty(0), grad_out, grad_lse, None)
        return (None, None, *(grads[index] for index in indices))


__all__ = ["PAIR_SCORES", "Native", "arguments_of"]
