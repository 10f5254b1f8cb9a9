"""The compiled kernels of dot-product scores, forward and backward, and the picks of a hard choice.

Axes: B batch, h heads, k key heads, L queries, S keys, d width, dv value width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..request import Input, Request
from .arguments import ScoreRecord, address, empty_output, score_record, view
from .extension import compiled


@dataclass(eq=False, slots=True)
class DotArguments:
    """softmax(β · cap(scale · q·k + key_bias)) · v over the visible keys. cap 0 means none."""

    differentiable: ClassVar[tuple[str, ...]] = ("query", "key", "value", "key_bias", "sinks")

    query: Tensor  # (B, h, L, d)
    key: Tensor  # (B, k, S, d)
    value: Tensor  # (B, k, S, dv)
    key_bias: Tensor | None  # (B, k, S)
    sinks: Tensor | None  # (h,)
    mask: Tensor | None  # key ranges, int32 (B|1, h|1, L, R, 2); or a pattern, bool (B|1, h|1, L, S), read in place
    scale: float
    cap: float
    beta: float
    dropout: float = 0.0
    seed: int = 0

    @classmethod
    def of(cls, request: Request, mask: Tensor | None) -> DotArguments:
        beta, cap = float(request.beta), request.cap or 0.0
        return cls(
            request.query,
            request.key,
            request.value,
            request.key_bias,
            request.sinks,
            mask,
            request.scale,
            cap,
            beta,
            request.dropout,
            request.seed,
        )

    @staticmethod
    def input_indices(request: Request) -> tuple[int, ...]:
        """The index of each differentiable tensor in `Request.inputs`."""
        return Input.QUERY, Input.KEY, Input.VALUE, Input.KEY_BIAS, Input.SINKS

    def record(self) -> ScoreRecord:
        """The arguments as C++ reads them."""
        return score_record(
            self.query,
            self.key,
            self.value,
            key_bias=self.key_bias,
            sinks=self.sinks,
            mask=self.mask,
            scale=self.scale,
            cap=self.cap,
            beta=self.beta,
            dropout=self.dropout,
            seed=self.seed,
        )

    def forward(self) -> tuple[Tensor, Tensor]:
        """Output (B, h, L, dv) and lse (B, h, L)."""
        record = self.record()
        output, lse = empty_results(self.query, self.value)
        compiled.dot_forward(record.scores, view(output), lse.data_ptr(), torch.get_num_threads())
        return output, lse

    def backward(self, output: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of the differentiable tensors; None for those that are None."""
        record = self.record()
        backward = BackwardPass(self.query, self.key, self.value, output, lse, grad_out, grad_lse)
        B, h = self.query.shape[:2]
        k, S = self.key.shape[1:3]
        grad_key_bias = None if self.key_bias is None else self.query.new_empty(B, h, S, dtype=torch.float32)
        compiled.dot_backward(record.scores, backward.record, address(grad_key_bias), torch.get_num_threads())
        if grad_key_bias is not None and self.key_bias is not None:
            grad_key_bias = grad_key_bias.view(B, k, h // k, S).sum(2).to(self.key_bias.dtype)
        return (*backward.grads, grad_key_bias, backward.grad_sinks(self.sinks, record.sinks))


class BackwardPass:
    """The outputs of every backward kernel: the gradients of query, key and value, and delta (B, h, L), Σ dO∘O − dlse."""

    def __init__(
        self, query: Tensor, key: Tensor, value: Tensor, output: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor | None
    ) -> None:
        self.grads = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
        self.lse, self.delta = lse, torch.empty_like(lse)
        self.inputs = output, grad_out.to(query.dtype), None if grad_lse is None else grad_lse.float().contiguous()  # kept alive
        output, grad_out, grad_lse = self.inputs
        grad_query, grad_key, grad_value = map(view, self.grads)
        self.record = compiled.Backward(
            view(output), lse.data_ptr(), view(grad_out), address(grad_lse), grad_query, grad_key, grad_value, self.delta.data_ptr()
        )

    def grad_sinks(self, sinks: Tensor | None, wide: Tensor | None) -> Tensor | None:
        """The gradient of the sinks, which have a weight and no value. wide: the sinks in float32."""
        if sinks is None or wide is None:
            return None
        weight = (wide.view(1, -1, 1) - self.lse).exp()
        return -(weight * self.delta).sum((0, 2)).to(sinks.dtype)


def empty_results(query: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Uninitialised output (B, h, L, dv) and lse (B, h, L)."""
    return empty_output(query, value.shape[3]), query.new_empty(query.shape[:3], dtype=torch.float32)


def score_part(request: Request, mask: Tensor | None) -> ScoreRecord:
    """The scores of a dot-product request, without sinks and dropout."""
    query, key, value = request.query, request.key, request.value
    scale, cap, beta = request.scale, request.cap or 0.0, float(request.beta)
    return score_record(query, key, value, key_bias=request.key_bias, mask=mask, scale=scale, cap=cap, beta=beta)


def pick_keys(request: Request, mask: Tensor | None) -> Tensor:
    """The first largest key of each row, or with `request.uniform` the sampled key: (B, h, L) int64, −1 on an empty row."""
    record = score_part(request, mask)
    index = torch.empty(request.query.shape[:3], dtype=torch.int64)
    uniform = None if request.uniform is None else request.uniform.contiguous()
    compiled.pick(record.scores, address(uniform), index.data_ptr(), torch.get_num_threads())
    return index


__all__ = ["BackwardPass", "DotArguments", "empty_results", "pick_keys", "score_part"]
