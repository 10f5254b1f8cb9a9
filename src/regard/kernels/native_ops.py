"""The compiled kernels on tensors, and as torch operators that `torch.compile` and `torch.export` can see through.

Plain calls skip the operator (its dispatch costs more than a small attention); under tracing the operator is what is recorded.

Axes: B batch, h heads, k key heads, L queries, S keys, R ranges, d width, dv value width.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

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


class Scores(NamedTuple):
    """What the dot-product kernels are given, in order: softmax(β·cap(scale·q·k + key_bias))·v over the keys seen."""

    query: Tensor  # (B, h, L, d)
    key: Tensor  # (B, k, S, d)
    value: Tensor  # (B, k, S, dv)
    key_bias: Tensor | None  # (B, k, S)
    sinks: Tensor | None  # (h,)
    seen: Tensor | None  # a mask's key ranges, int32 (B|1, h|1, L, R, 2); or its pattern, bool (B|1, h|1, L, S), read in place
    scale: float
    cap: float
    beta: float
    dropout: float = 0.0
    seed: int = 0

    @classmethod
    def of(cls, spec: Spec, seen: Tensor | None) -> Scores:
        """Those of a spec, without what acts on the weights (sinks and dropout)."""
        return cls(spec.query, spec.key, spec.value, spec.key_bias, None, seen, spec.scale, spec.cap or 0.0, float(spec.beta))


_TENSORS = "Tensor query, Tensor key, Tensor value, Tensor? key_bias, Tensor? sinks, Tensor? seen"
_GRADIENTS = "(Tensor, Tensor, Tensor, Tensor, Tensor)"
_NUMBERS = "float scale, float cap, float beta, float dropout=0.0, int seed=0"


def sight(seen: Tensor) -> tuple[int, ...]:
    """Ranges as (address, strides of batch, head, row and range, ranges); a pattern as (address, strides of batch, head, row and key)."""
    strides = tuple(stride if size > 1 else 0 for stride, size in zip(seen.stride()[:3], seen.shape[:3], strict=True))
    if seen.dtype == torch.bool:
        return (seen.data_ptr(), *strides, seen.stride(3))
    return (seen.data_ptr(), *strides, seen.stride(3), seen.shape[3])


def score_arguments(given: Scores) -> tuple[Any, ...]:
    """The arguments every kernel starts with, and what must stay alive while it runs."""
    B, h, L, d = given.query.shape
    k, S = given.key.shape[1:3]
    key_bias, sinks, dropout, seed = given.key_bias, given.sinks, given.dropout, given.seed
    if key_bias is not None:
        if k != h:
            key_bias = key_bias.repeat_interleave(h // k, 1)
        key_bias = key_bias.detach().float().unsqueeze(2)
    if sinks is not None:
        sinks = sinks.detach().float().contiguous()
    type_, threads = TYPES[given.query.dtype], torch.get_num_threads()
    shape = (B, h, k, L, S, d, given.value.shape[3], type_, threads, int(dropout * 2**32), (seed ^ (seed >> 32)) & 0xFFFFFFFF)
    return (
        (
            shape,
            (given.scale, given.cap, given.beta, 1.0 - dropout),
            view(given.query),
            view(given.key),
            view(given.value),
            None if key_bias is None else view(key_bias),
            None if given.seen is None else sight(given.seen),
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


def forward(*given: Any) -> tuple[Tensor, Tensor]:
    """Attention of `Scores(*given)`: output (B, h, L, dv) and lse (B, h, L)."""
    scores = Scores(*given)
    arguments, _alive = score_arguments(scores)
    out = empty_output(scores.query, scores.value.shape[3])
    lse = scores.query.new_empty(scores.query.shape[:3], dtype=torch.float32)
    _native.dot_forward(*arguments, view(out), lse.data_ptr())
    return out, lse


def _taken_apart(given: tuple[Any, ...]) -> tuple[Scores, Tensor, Tensor]:
    """A backward's arguments: the forward's, with its two results between the tensors and the numbers."""
    return Scores(*given[:6], *given[8:]), given[6], given[7]


def backward(grad_out: Tensor, grad_lse: Tensor | None, *given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value, key_bias and sinks; the last two are empty where there is no such input.

    given: the tensors of `Scores`, the forward's output and lse, the numbers of `Scores`.
    """
    scores, out, lse = _taken_apart(given)
    query, key, value, key_bias, sinks = scores[:5]
    arguments, alive = score_arguments(scores)
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


def pick(spec: Spec, seen: Tensor | None) -> Tensor:
    """The first largest key of each row, or with `spec.uniform` the key it draws: (B, h, L) int64, −1 on an empty row."""
    (shape, numbers, query, key, _, key_bias, sees, _), _alive = score_arguments(Scores.of(spec, seen))
    index = torch.empty(spec.query.shape[:3], dtype=torch.int64)
    uniform = None if spec.uniform is None else spec.uniform.contiguous()
    _native.pick(shape, numbers, query, key, key_bias, sees, address(uniform), index.data_ptr())
    return index


dot_attention = torch.library.custom_op(
    "regard::dot_attention", forward, mutates_args=(), device_types="cpu", schema=f"({_TENSORS}, {_NUMBERS}) -> (Tensor, Tensor)"
)
dot_attention_backward = torch.library.custom_op(
    "regard::dot_attention_backward",
    backward,
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor grad_out, Tensor? grad_lse, {_TENSORS}, Tensor out, Tensor lse, {_NUMBERS}) -> {_GRADIENTS}",
)


@dot_attention.register_fake
def _(*given: Any) -> tuple[Tensor, Tensor]:
    scores = Scores(*given)
    return empty_output(scores.query, scores.value.shape[3]), scores.query.new_empty(scores.query.shape[:3], dtype=torch.float32)


@dot_attention_backward.register_fake
def _(grad_out: Tensor, grad_lse: Tensor | None, *given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    query, key, value, key_bias, sinks = _taken_apart(given)[0][:5]
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
    *inputs, _seen, out, _lse = ctx.saved_tensors
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    found = dot_attention_backward(grad_out, grad_lse, *ctx.saved_tensors, *ctx.numbers)
    grads = [None if x is None else grad for grad, x in zip(found, inputs, strict=True)]
    return (*grads, None, None, None, None, None, None)


dot_attention.register_autograd(_pull_back, setup_context=_save)

__all__ = ["Scores", "backward", "dot_attention", "dot_attention_backward", "forward", "pick", "score_arguments"]
