"""The compiled kernels on tensors, and as torch operators that `torch.compile` and `torch.export` can see through.

Plain calls skip the operator (its dispatch costs more than a small attention); under tracing the operator is what is recorded.

Axes: B batch, h heads, k key heads, L queries, S keys, R ranges, d width, dv value width.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from .spec import Spec

try:
    _native: Any = importlib.import_module("regard._native")
except ImportError:  # built without a compiler: `streamed` and `fused` do the work
    _native = None

TYPES = {torch.float32: 0, torch.bfloat16: 1}


def view(x: Tensor) -> tuple[int, ...]:
    return (x.data_ptr(), *x.stride())


def address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def score_arguments(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_bias: Tensor | None,
    sinks: Tensor | None,
    spans: Tensor | None,
    scale: float,
    cap: float,
    beta: float,
    dropout: float = 0.0,
    seed: int = 0,
) -> tuple[Any, ...]:
    """The arguments every dot-product kernel starts with, and what must stay alive while it runs."""
    B, h, L, d = query.shape
    k, S = key.shape[1:3]
    if key_bias is not None:
        if k != h:
            key_bias = key_bias.repeat_interleave(h // k, 1)
        key_bias = key_bias.detach().float().unsqueeze(2)
    if sinks is not None:
        sinks = sinks.detach().float().contiguous()
    ranges = None
    if spans is not None:
        b, heads, rows, r, _ = spans.stride()
        ranges = (
            spans.data_ptr(),
            b if spans.shape[0] > 1 else 0,
            heads if spans.shape[1] > 1 else 0,
            rows if spans.shape[2] > 1 else 0,
            r,
            spans.shape[3],
        )
    return (
        (
            (
                B,
                h,
                k,
                L,
                S,
                d,
                value.shape[3],
                TYPES[query.dtype],
                torch.get_num_threads(),
                int(dropout * 2**32),
                (seed ^ (seed >> 32)) & 0xFFFFFFFF,
            ),
            (scale, cap, beta, 1.0 - dropout),
            view(query),
            view(key),
            view(value),
            None if key_bias is None else view(key_bias),
            ranges,
            address(sinks),
        ),
        (key_bias, sinks),
    )


def empty_output(query: Tensor, width: int) -> Tensor:
    """(B, h, L, dv) laid out as the query is: where heads lie inside positions, merging them afterwards copies nothing."""
    B, h, L, _ = query.shape
    if query.stride(1) < query.stride(2):
        return query.new_empty(B, L, h, width).transpose(1, 2)
    return query.new_empty(B, h, L, width)


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_bias: Tensor | None,
    sinks: Tensor | None,
    spans: Tensor | None,
    scale: float,
    cap: float,
    beta: float,
    dropout: float = 0.0,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """softmax(β·cap(scale·q·k + key_bias))·v over the spans' keys: output (B, h, L, dv) and lse (B, h, L)."""
    arguments, _alive = score_arguments(query, key, value, key_bias, sinks, spans, scale, cap, beta, dropout, seed)
    out = empty_output(query, value.shape[3])
    lse = query.new_empty(query.shape[:3], dtype=torch.float32)
    _native.dot_forward(*arguments, view(out), lse.data_ptr())
    return out, lse


def backward(
    grad_out: Tensor,
    grad_lse: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_bias: Tensor | None,
    sinks: Tensor | None,
    spans: Tensor | None,
    out: Tensor,
    lse: Tensor,
    scale: float,
    cap: float,
    beta: float,
    dropout: float = 0.0,
    seed: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, key_bias and sinks; the last two are empty where there is no such input."""
    arguments, alive = score_arguments(query, key, value, key_bias, sinks, spans, scale, cap, beta, dropout, seed)
    B, h = query.shape[:2]
    k, S = key.shape[1:3]
    grads = [torch.empty_like(x) for x in (query, key, value)]
    grad_key_bias = query.new_empty((B, h, S) if key_bias is not None else (0,), dtype=torch.float32)
    delta = torch.empty_like(lse)
    if grad_lse is not None:
        grad_lse = grad_lse.float().contiguous()
    grad_out = grad_out.to(query.dtype)
    _native.dot_backward(
        *arguments,
        view(out),
        lse.data_ptr(),
        view(grad_out),
        address(grad_lse),
        *map(view, grads),
        grad_key_bias.data_ptr() if key_bias is not None else 0,
        delta.data_ptr(),
    )
    if key_bias is not None:
        grad_key_bias = grad_key_bias.view(B, k, h // k, S).sum(2).to(key_bias.dtype)
    grad_sinks = query.new_empty(0)
    if sinks is not None:
        weight = (alive[1].view(1, -1, 1) - lse).exp()
        grad_sinks = -(weight * delta).sum((0, 2)).to(sinks.dtype)
    return grads[0], grads[1], grads[2], grad_key_bias, grad_sinks


def pick(spec: Spec, spans: Tensor | None) -> Tensor:
    """The first largest key of each row, or with `spec.uniform` the key it draws: (B, h, L) int64, −1 on an empty row."""
    arguments, _alive = score_arguments(
        spec.query, spec.key, spec.value, spec.key_bias, None, spans, spec.scale, spec.cap or 0.0, float(spec.beta)
    )
    shape, numbers, query, key, _, key_bias, ranges, _ = arguments
    index = torch.empty(spec.query.shape[:3], dtype=torch.int64)
    uniform = None if spec.uniform is None else spec.uniform.contiguous()
    _native.pick(shape, numbers, query, key, key_bias, ranges, address(uniform), index.data_ptr())
    return index


dot_attention = torch.library.custom_op("regard::dot_attention", forward, mutates_args=(), device_types="cpu")
dot_attention_backward = torch.library.custom_op("regard::dot_attention_backward", backward, mutates_args=(), device_types="cpu")


@dot_attention.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_bias: Tensor | None,
    sinks: Tensor | None,
    spans: Tensor | None,
    scale: float,
    cap: float,
    beta: float,
    dropout: float = 0.0,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    return empty_output(query, value.shape[3]), query.new_empty(query.shape[:3], dtype=torch.float32)


@dot_attention_backward.register_fake
def _(
    grad_out: Tensor,
    grad_lse: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_bias: Tensor | None,
    sinks: Tensor | None,
    spans: Tensor | None,
    out: Tensor,
    lse: Tensor,
    scale: float,
    cap: float,
    beta: float,
    dropout: float = 0.0,
    seed: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        torch.empty_like(query),
        torch.empty_like(key),
        torch.empty_like(value),
        query.new_empty(0, dtype=torch.float32) if key_bias is None else torch.empty_like(key_bias, memory_format=torch.contiguous_format),
        query.new_empty(0) if sinks is None else torch.empty_like(sinks, memory_format=torch.contiguous_format),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, _, _, _, _, _ = inputs
    ctx.numbers = inputs[-5:]
    ctx.save_for_backward(*tensors, *output)
    ctx.set_materialize_grads(False)


def _pull_back(ctx: Any, grad_out: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    query, key, value, key_bias, sinks, spans, out, lse = ctx.saved_tensors
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    grads: list[Tensor | None] = list(
        dot_attention_backward(grad_out, grad_lse, query, key, value, key_bias, sinks, spans, out, lse, *ctx.numbers)
    )
    if key_bias is None:
        grads[3] = None
    if sinks is None:
        grads[4] = None
    return (*grads, None, None, None, None, None, None)


dot_attention.register_autograd(_pull_back, setup_context=_save)

__all__ = ["address", "backward", "dot_attention", "dot_attention_backward", "empty_output", "forward", "pick", "score_arguments", "view"]
