"""The compiled kernels of scores made pair by pair, Additive and Gaussian: on tensors, and as torch operators.

Axes: B batch, h heads, k key heads, L queries, S keys, R ranges, d width (an additive score's hidden width), dv value width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..scores import Additive, Gaussian
from . import native_ops as ops
from .native_ops import _GRADIENTS, Scores, address, empty_output, score_arguments, view
from .spec import Spec
from .streamed import differentiate_twice


def refuses(spec: Spec) -> str | None:
    """Why the spec's score has no compiled kernel; None if it has one."""
    if type(spec.score) not in (Additive, Gaussian):
        return f"{type(spec.score).__name__} has no compiled kernel"
    if spec.query.dtype != torch.float32:
        return f"{type(spec.score).__name__} is compiled for float32, not {str(spec.query.dtype).removeprefix('torch.')}"
    if not isinstance(spec.beta, Tensor) and not spec.beta > 0:
        return f"an inverse temperature of {spec.beta} has no compiled kernel"
    return None


def bytes_of(spec: Spec) -> int:
    """Output and lse, K and V repacked, an additive score's exponentials; for a gradient also dO, the gradients and the shares of dQ."""
    B, h, L, S = spec.sizes
    k, d, dv = spec.key.shape[1], spec.query.shape[3], spec.value.shape[3]
    packed = 4 * B * k * S * (d * (2 if type(spec.score) is Additive else 1) + dv)
    total = 4 * B * h * L * (dv + 1) + packed
    if spec.needs_grad:
        shares = max(1, min(-(-16 // (B * k)), -(-S // 256)))
        total += 4 * (B * h * L * (d * (1 + shares) + dv + 1) + B * k * S * (d + dv))
    return total


class Pairs(NamedTuple):
    """What these kernels are given, in order: softmax(β·s)·v over the keys seen."""

    query: Tensor  # (B, h, L, d)
    key: Tensor  # (B, k, S, d)
    value: Tensor  # (B, k, S, dv)
    vector: Tensor | None  # (d,): s = vector·tanh(q + k); None: s = −½‖q − k‖²
    sinks: Tensor | None  # (h,)
    seen: Tensor | None  # as `native_ops.Scores`
    beta: float


_TENSORS = "Tensor query, Tensor key, Tensor value, Tensor? vector, Tensor? sinks, Tensor? seen"


def run(spec: Spec, seen: Tensor | None) -> tuple[Tensor, Tensor]:
    """Output (B, h, L, dv) and lse (B, h, L)."""
    vector = spec.score.v if isinstance(spec.score, Additive) else None
    beta = float(spec.beta)
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        wide = None if vector is None else vector.to(spec.query.dtype)
        found: tuple[Tensor, Tensor] = pair_attention(spec.query, spec.key, spec.value, wide, spec.sinks, seen, beta)
        return found
    if spec.needs_grad:
        found = _Autograd.apply(spec, seen, beta, spec.query, spec.key, spec.value, vector, spec.sinks)  # type: ignore[no-untyped-call]
        return found
    return forward(spec.query, spec.key, spec.value, vector, spec.sinks, seen, beta)


def _arguments(given: Pairs) -> tuple[tuple[Any, ...], tuple[Tensor | None, Tensor | None]]:
    scores = Scores(given.query, given.key, given.value, None, given.sinks, given.seen, 1.0, 0.0, given.beta)
    (shape, numbers, q, k, v, _, sees, sink), (_, sinks) = score_arguments(scores)
    vector = None if given.vector is None else given.vector.detach().float().contiguous()
    return (shape, numbers, q, k, v, sees, sink, address(vector)), (vector, sinks)


def forward(*given: Any) -> tuple[Tensor, Tensor]:
    """Attention of `Pairs(*given)`: output (B, h, L, dv) and lse (B, h, L)."""
    pairs = Pairs(*given)
    arguments, _alive = _arguments(pairs)
    out = empty_output(pairs.query, pairs.value.shape[3])
    lse = pairs.query.new_empty(pairs.query.shape[:3])
    ops._native.pair_forward(*arguments, view(out), lse.data_ptr())
    return out, lse


def backward(grad_out: Tensor, grad_lse: Tensor | None, *given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, vector and sinks; the last two are empty where there is no such input.

    given: the tensors of `Pairs`, the forward's output and lse, beta.
    """
    pairs, out, lse = Pairs(*given[:6], *given[8:]), given[6], given[7]
    query, key, value, vector, sinks = pairs[:5]
    arguments, (_, wide_sinks) = _arguments(pairs)
    grads = [torch.empty_like(x) for x in (query, key, value)]
    grad_vector = query.new_empty(0 if vector is None else vector.shape[0])
    delta = torch.empty_like(lse)
    if grad_lse is not None:
        grad_lse = grad_lse.float().contiguous()
    ops._native.pair_backward(
        *arguments,
        view(out),
        lse.data_ptr(),
        view(grad_out),
        address(grad_lse),
        *map(view, grads),
        grad_vector.data_ptr(),
        delta.data_ptr(),
    )
    grad_sinks = query.new_empty(0)
    if sinks is not None:
        assert wide_sinks is not None
        grad_sinks = -((wide_sinks.view(1, -1, 1) - lse).exp() * delta).sum((0, 2)).to(sinks.dtype)
    return grads[0], grads[1], grads[2], grad_vector if vector is None else grad_vector.to(vector.dtype), grad_sinks


class _Autograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spec: Spec, seen: Tensor | None, beta: float, *inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        output, lse = forward(*inputs, seen, beta)
        ctx.save_for_backward(*inputs, output, lse)
        ctx.spec, ctx.seen, ctx.beta = spec, seen, beta
        ctx.set_materialize_grads(False)
        return output, lse

    @staticmethod
    def backward(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, vector, sinks, output, lse = ctx.saved_tensors
        if torch.is_grad_enabled():
            everything = [query, key, value, None, None, None, sinks, vector]
            twice = differentiate_twice(ctx.spec, everything, output.new_empty(0), d_out, d_lse, None)
            return (None, None, None, *twice[:3], twice[7], twice[6])
        if d_out is None:
            d_out = torch.zeros((), dtype=output.dtype, device=output.device).expand_as(output)
        grads = backward(d_out, d_lse, query, key, value, vector, sinks, ctx.seen, output, lse, ctx.beta)
        return (None, None, None, *grads[:3], None if vector is None else grads[3], None if sinks is None else grads[4])


pair_attention = torch.library.custom_op(
    "regard::pair_attention", forward, mutates_args=(), device_types="cpu", schema=f"({_TENSORS}, float beta) -> (Tensor, Tensor)"
)
pair_attention_backward = torch.library.custom_op(
    "regard::pair_attention_backward",
    backward,
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor grad_out, Tensor? grad_lse, {_TENSORS}, Tensor out, Tensor lse, float beta) -> {_GRADIENTS}",
)


@pair_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return empty_output(query, value.shape[3]), query.new_empty(query.shape[:3])


@pair_attention_backward.register_fake
def _(grad_out: Tensor, grad_lse: Tensor | None, *given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    query, key, value, vector, sinks = given[:5]
    return (
        torch.empty_like(query),
        torch.empty_like(key),
        torch.empty_like(value),
        query.new_empty(0) if vector is None else torch.empty_like(vector, memory_format=torch.contiguous_format),
        query.new_empty(0) if sinks is None else torch.empty_like(sinks, memory_format=torch.contiguous_format),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.beta = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.set_materialize_grads(False)


def _pull_back(ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    *inputs, _seen, out, _lse = ctx.saved_tensors
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    found = pair_attention_backward(grad_out, grad_lse, *ctx.saved_tensors, ctx.beta)
    return (*(None if x is None else grad for grad, x in zip(found, inputs, strict=True)), None, None)


pair_attention.register_autograd(_pull_back, setup_context=_save)

__all__ = ["Pairs", "backward", "bytes_of", "forward", "pair_attention", "pair_attention_backward", "refuses", "run"]
