"""The compiled kernels of scores that are not dot products: additive and Gaussian.

Axes: B batch, h heads, k key heads, L queries, S keys, d width (an additive score's hidden width), dv value width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...scores import Additive
from ..request import Input, Request
from .arguments import ScoreRecord, score_record, view
from .dot import BackwardPass, empty_results
from .extension import compiled


@dataclass(eq=False, slots=True)
class AdditiveArguments:
    """softmax(β · vector·tanh(q + k)) · v over the visible keys."""

    differentiable: ClassVar[tuple[str, ...]] = ("query", "key", "value", "vector", "sinks")

    query: Tensor  # (B, h, L, d)
    key: Tensor  # (B, k, S, d)
    value: Tensor  # (B, k, S, dv)
    vector: Tensor  # (d,)
    sinks: Tensor | None  # (h,)
    mask: Tensor | None  # as `DotArguments.mask`
    beta: float

    @classmethod
    def of(cls, request: Request, mask: Tensor | None) -> AdditiveArguments:
        assert isinstance(request.score, Additive)
        return cls(request.query, request.key, request.value, request.score.v, request.sinks, mask, float(request.beta))

    @staticmethod
    def input_indices(request: Request) -> tuple[int, ...]:
        """The index of each differentiable tensor in `Request.inputs`."""
        assert isinstance(request.score, Additive)
        vector = next(i for i, parameter in enumerate(request.parameters()) if parameter is request.score.v)
        return Input.QUERY, Input.KEY, Input.VALUE, Input.PARAMETERS + vector, Input.SINKS

    def record(self) -> ScoreRecord:
        """The arguments as C++ reads them."""
        return score_record(self.query, self.key, self.value, sinks=self.sinks, vector=self.vector, mask=self.mask, beta=self.beta)

    def forward(self) -> tuple[Tensor, Tensor]:
        """Output (B, h, L, dv) and lse (B, h, L)."""
        record = self.record()
        output, lse = empty_results(self.query, self.value)
        compiled.additive_forward(record.scores, view(output), lse.data_ptr(), torch.get_num_threads())
        return output, lse

    def backward(self, output: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of the differentiable tensors; None for those that are None."""
        record = self.record()
        backward = BackwardPass(self.query, self.key, self.value, output, lse, grad_out, grad_lse)
        grad = torch.empty(self.vector.shape, dtype=torch.float32)
        compiled.additive_backward(record.scores, backward.record, grad.data_ptr(), torch.get_num_threads())
        return (*backward.grads, grad.to(self.vector.dtype), backward.grad_sinks(self.sinks, record.sinks))

    def wanted(self) -> tuple[bool, ...]:
        """Which of the differentiable tensors `backward` returns a gradient of."""
        return True, True, True, True, self.sinks is not None


@dataclass(eq=False, slots=True)
class GaussianArguments:
    """softmax(−½ β ‖q − k‖²) · v over the visible keys."""

    differentiable: ClassVar[tuple[str, ...]] = ("query", "key", "value", "sinks")

    query: Tensor  # (B, h, L, d), already times the width
    key: Tensor  # (B, k, S, d)
    value: Tensor  # (B, k, S, dv)
    sinks: Tensor | None  # (h,)
    mask: Tensor | None  # as `DotArguments.mask`
    beta: float

    @classmethod
    def of(cls, request: Request, mask: Tensor | None) -> GaussianArguments:
        return cls(request.query, request.key, request.value, request.sinks, mask, float(request.beta))

    @staticmethod
    def input_indices(request: Request) -> tuple[int, ...]:
        """The index of each differentiable tensor in `Request.inputs`."""
        return Input.QUERY, Input.KEY, Input.VALUE, Input.SINKS

    def record(self) -> ScoreRecord:
        """The arguments as C++ reads them."""
        return score_record(self.query, self.key, self.value, sinks=self.sinks, mask=self.mask, beta=self.beta)

    def forward(self) -> tuple[Tensor, Tensor]:
        """Output (B, h, L, dv) and lse (B, h, L)."""
        record = self.record()
        output, lse = empty_results(self.query, self.value)
        compiled.gaussian_forward(record.scores, view(output), lse.data_ptr(), torch.get_num_threads())
        return output, lse

    def backward(self, output: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of the differentiable tensors; None for those that are None."""
        record = self.record()
        backward = BackwardPass(self.query, self.key, self.value, output, lse, grad_out, grad_lse)
        compiled.gaussian_backward(record.scores, backward.record, torch.get_num_threads())
        return (*backward.grads, backward.grad_sinks(self.sinks, record.sinks))

    def wanted(self) -> tuple[bool, ...]:
        """Which of the differentiable tensors `backward` returns a gradient of."""
        return True, True, True, self.sinks is not None


__all__ = ["AdditiveArguments", "GaussianArguments"]
