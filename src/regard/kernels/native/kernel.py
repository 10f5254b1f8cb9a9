"""Compiled attention on the CPU: exact, linear in memory, forward and backward.

Axes: B batch, h heads, k key heads, L queries, S keys, d width, dv value width.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...biases import Bias
from ...choices import Argmax, Sample, Softmax
from ...readings import MaxLogit
from ...scores import Additive, Gaussian, Score
from ...tracing import batched_gradient
from ..kernel import Result, refuses_transforms
from ..reading_gradients import attach_gradients
from ..reference import gather_picked
from ..request import Input, Request
from ..second_order import differentiable_gradients, one_by_one
from ..streamed import Streamed
from .arguments import DTYPES
from .dot import SPARSE_CHOICES, DotArguments, kernel_bias, pick_keys
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
CHOICES = {Softmax, Argmax, Sample, *SPARSE_CHOICES}  # by exact type
_STREAMED = Streamed()


class Native:
    """Compiled tiles on the CPU, for float32, bfloat16 and float16."""

    name = "native"

    def refuses(self, request: Request) -> str | None:
        if compiled is None:
            return "regard was installed without its compiled kernels; reinstall with a C++ compiler present"
        query = request.query
        if (why := refuses_transforms(request)) is not None:
            return why
        if not query.is_cpu:
            return f"compiled for the CPU, and the query is on {query.device.type}"
        if query.dtype not in DTYPES:
            return f"compiled for float32, bfloat16 and float16, not {_name(query.dtype)}"
        if type(request.choice) not in CHOICES:
            return f"{type(request.choice).__name__} has no compiled kernel"
        if request.score is not None and (why := _refuses_score(request)) is not None:
            return why
        if request.choice.hard and torch.compiler.is_compiling():
            return "a hard choice has no compiled kernel inside torch.compile"
        if isinstance(request.bias, Bias) and request.bias.diagonals(1, 1) is None:
            return f"{type(request.bias).__name__} has no diagonals: its tiles must be computed in Python"
        if request.dropout == 1:
            return "a dropout of 1 has no compiled kernel"
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
            if type(request.choice) in SPARSE_CHOICES:
                total += 4 * B * k * S * (d + dv) * max(1, min(-(-16 // (B * k)), -(-L // 64)))
            total += _bias_gradient_bytes(request, shares)
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
        readings = _read(request, lse.detach(), mask) if request.readings else {}
        return Result(output, None if type(request.choice) in SPARSE_CHOICES else lse, readings=readings)

    def backward(
        self, request: Request, output: Tensor, lse: Tensor, grad_out: Tensor | None, grad_lse: Tensor | None
    ) -> dict[int, Tensor]:
        """Gradients by index in `Request.inputs`. output and lse may be those of rows that also have keys outside this request."""
        with torch.enable_grad():
            arguments = arguments_of(request, _kernel_mask(request))
        return _by_input(request, arguments, _gradients(arguments, output, lse, grad_out, grad_lse))


def _by_input(request: Request, arguments: Arguments, grads: tuple[Tensor | None, ...]) -> dict[int, Tensor]:
    """Gradients of `arguments.differentiable` by index in `Request.inputs`; those of a bias's diagonals become its parameters'."""
    gradients = {index: grad for index, grad in zip(arguments.input_indices(request), grads, strict=True) if grad is not None}
    if isinstance(request.bias, Bias) and isinstance(arguments, DotArguments) and Input.BIAS in gradients:
        learned = {i: x for i, x in enumerate(request.parameters(), Input.PARAMETERS) if x.requires_grad}
        assert arguments.bias is not None
        gradients |= zip(learned, torch.autograd.grad(arguments.bias, list(learned.values()), gradients.pop(Input.BIAS)), strict=True)
    return gradients


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
    if request.bias is not None or isinstance(request.beta, Tensor) or type(request.choice) in SPARSE_CHOICES:
        return "biases, learned temperatures and sparse choices are compiled for dot products only"
    return "dropout is compiled for dot products only" if request.dropout else None


def _soft(request: Request, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Output, and lse or a sparse choice's thresholds; differentiable if a gradient is needed."""
    arguments = arguments_of(request, mask)
    if torch.compiler.is_compiling() or not request.needs_grad:
        return _forward(arguments)
    tensors = (getattr(arguments, name) for name in arguments.differentiable)
    return _Autograd.apply(request, arguments, *tensors)  # type: ignore[no-any-return, no-untyped-call]


def _forward(arguments: Arguments) -> tuple[Tensor, Tensor]:
    """Output and lse; as a torch operator where torch records what runs."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        output, lse = OPERATORS[type(arguments)].forward(*_fields(arguments))
        return output, lse
    return arguments.forward()


def _fields(arguments: Arguments) -> Iterator[Any]:
    return (getattr(arguments, field.name) for field in dataclasses.fields(arguments))


def _hard(request: Request, mask: Tensor | None) -> Result:
    """Pick one key per row. A sample's log-probability is its score minus the lse; both are differentiable."""
    index = pick_keys(request, mask)
    output = gather_picked(request.value, index)
    if not isinstance(request.choice, Sample):
        return Result(output, None, index, readings=_read(request, None, mask, index))
    through = request.choice.straight_through
    soft, lse = _soft(request if through else dataclasses.replace(request, value=request.value[..., :1].detach()), mask)
    if through:
        output = soft + (output - soft).detach()
    empty = index < 0
    log_prob = _picked_scores(request, index).masked_fill(empty, 0) - lse.masked_fill(empty, 0)
    return Result(output, lse, index, log_prob, _read(request, lse.detach(), mask))


def _picked_scores(request: Request, index: Tensor) -> Tensor:
    """z of each row's picked key, (B, h, L)."""
    key = gather_picked(request.key, index)  # (B, h, L, d)
    if request.score is not None:
        z = request.score.tile(request.query.unsqueeze(-2), key.unsqueeze(-2)).squeeze(-1).squeeze(-1)
        return z * request.beta
    z = (request.query.float() * key.float()).sum(-1) * request.scale
    if request.key_bias is not None:
        z = z + gather_picked(request.key_bias.unsqueeze(-1), index).squeeze(-1)
    if request.cap is not None:
        z = request.cap * torch.tanh(z / request.cap)
    if request.bias is not None:
        z = z + _picked_bias(request, index.clamp(min=0))
    return z * (request.beta.float().view(-1, 1) if isinstance(request.beta, Tensor) else request.beta)


def _picked_bias(request: Request, index: Tensor) -> Tensor:
    """The bias of each row's picked key, broadcastable to (B, h, L)."""
    (B, h, L, S), bias = request.sizes, kernel_bias(request)
    assert bias is not None
    if bias.dim() == 2:
        diagonal = index - torch.arange(L, device=index.device) + (L - 1)
        return bias.expand(h, -1).unsqueeze(0).expand(B, -1, -1).gather(-1, diagonal)
    return bias.float().expand(B, h, L, S).gather(-1, index.unsqueeze(-1)).squeeze(-1)


def _read(request: Request, lse: Tensor | None, mask: Tensor | None, index: Tensor | None = None) -> dict[str, Any]:
    """The readings, given the lse, the thresholds of a sparse choice, or the keys that a hard one picked."""
    if not request.readings:
        return {}
    results, unsupported = read(request, lse, mask, index)
    if unsupported:
        softmax = lse if type(request.choice) not in SPARSE_CHOICES else None
        results |= _STREAMED.read(dataclasses.replace(request, readings=unsupported), softmax)
    if not request.needs_grad:
        return results
    others = []
    for reading in request.readings:
        if isinstance(reading, MaxLogit) and reading.grad:
            results[reading.name] = _largest_scores(request, mask)
        else:
            others.append(reading)
    softmax = lse if type(request.choice) not in SPARSE_CHOICES else None
    return attach_gradients(dataclasses.replace(request, readings=tuple(others)), results, softmax, _weight_backward)


def _largest_scores(request: Request, mask: Tensor | None) -> Tensor:
    """The largest score of each row (B, h, L), differentiable; −∞ on an empty row."""
    index = pick_keys(dataclasses.replace(request, uniform=None), mask)
    z = _picked_scores(request, index)
    z = z if request.row_shift is None else z + request.row_shift.to(z.dtype)
    return z.masked_fill(index < 0, -math.inf)


def _weight_backward(
    request: Request, lse: Tensor | None, d_out: Tensor, d_lse: Tensor | None, d_entropy: Tensor | None
) -> dict[int, Tensor] | None:
    """The compiled backward pass of `reading_gradients`; None where there is none: entropies of scores that are no dot product."""
    if request.score is not None and d_entropy is not None:
        return None
    wide = {name: getattr(request, name).detach().float() for name in ("query", "key", "value")}
    request = dataclasses.replace(request, choice=request.choice.distribution(), uniform=None, **wide)
    with torch.enable_grad():
        arguments = arguments_of(request, _kernel_mask(request))
    output, found_lse = arguments.forward()
    lse = found_lse if lse is None else lse
    if isinstance(arguments, DotArguments):
        grads = arguments.backward(output, lse, d_out, d_lse, d_entropy)
    else:
        grads = arguments.backward(output, lse, d_out, d_lse)
    return _by_input(request, arguments, grads)


def _bias_gradient_bytes(request: Request, shares: int) -> int:
    """Bytes of the gradient of a bias: as large as the bias, or one vector per head and share along its diagonals."""
    B, h, L, S = request.sizes
    if isinstance(request.bias, Tensor):
        return 4 * request.bias.numel() if request.bias.requires_grad else 0
    return 4 * shares * B * h * (L + S) if request.bias is not None and any(p.requires_grad for p in request.bias.parameters()) else 0


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
    if torch._C._len_torch_dispatch_stack():
        grads = OPERATORS[type(arguments)].backward(grad_out, grad_lse, output, lse, *_fields(arguments))
        return tuple(grad if want else None for grad, want in zip(grads, arguments.wanted(), strict=True))
    return arguments.backward(output, lse, grad_out, grad_lse)


class _Autograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, request: Request, arguments: Arguments, *tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        output, lse = _forward(arguments)
        ctx.save_for_backward(*tensors, output, lse)
        if getattr(arguments, "sparse", 0):
            ctx.mark_non_differentiable(lse)
        ctx.request, ctx.arguments = request, arguments
        ctx.set_materialize_grads(False)
        return output, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        *tensors, output, lse = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: the gradient will be differentiated again
            gradients = partial(_differentiable, ctx, tensors)
        else:
            gradients = partial(_gradients, ctx.arguments, output, lse)
        if batched_gradient(grad_out) or batched_gradient(grad_lse):
            return (None, None, *one_by_one(gradients, (grad_out, grad_lse)))
        return (None, None, *gradients(grad_out, grad_lse))


def _differentiable(ctx: Any, tensors: list[Tensor | None], grad_out: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    """As `_gradients`, and differentiable."""
    indices = ctx.arguments.input_indices(ctx.request)
    inputs: list[Tensor | None] = [None] * len(ctx.request.inputs())
    for index, tensor in zip(indices, tensors, strict=True):
        inputs[index] = tensor
    grads = differentiable_gradients(ctx.request, inputs, grad_out, grad_lse)
    return tuple(grads[index] for index in indices)


__all__ = ["PAIR_SCORES", "Native", "arguments_of"]
