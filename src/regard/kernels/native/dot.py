"""The compiled kernels of dot-product scores, forward and backward, and the picks of a hard choice.

Axes: B batch, h heads, k key heads, L queries, S keys, d width, dv value width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...biases import Bias
from ...choices import Choice, Entmax15, Sparsemax
from ...scores import Additive, Gaussian
from ..request import Input, Request
from .arguments import ScoreRecord, address, broadcast_view, diagonal_view, empty_output, score_record, view
from .extension import compiled

SPARSE_CHOICES: dict[type[Choice], int] = {Sparsemax: 1, Entmax15: 2}  # compiled.Choice
SCORE_KINDS = {Additive: "additive", Gaussian: "gaussian"}  # by exact type; everything else was lowered to a dot product


@dataclass(eq=False, slots=True)
class DotArguments:
    """softmax(β · (cap(scale · q·k + key_bias) + bias)) · v over the visible keys, or a sparse choice. cap 0 means none."""

    differentiable: ClassVar[tuple[str, ...]] = ("query", "key", "value", "key_bias", "sinks", "bias", "betas")

    query: Tensor  # (B, h, L, d)
    key: Tensor  # (B, k, S, d)
    value: Tensor  # (B, k, S, dv)
    key_bias: Tensor | None  # (B, k, S)
    sinks: Tensor | None  # (h,)
    bias: Tensor | None  # (B|1, h|1, L|1, S|1), or `Bias.diagonals`, (h|1, L + S − 1)
    betas: Tensor | None  # () or (h,), in place of beta
    mask: Tensor | None  # key ranges, int32 (B|1, h|1, L, R, 2); or a pattern, bool (B|1, h|1, L, S), read in place
    scale: float
    cap: float
    beta: float
    dropout: float = 0.0
    seed: int = 0
    learns_bias: int = 0  # 1: its gradient is wanted, which takes as much memory as the bias
    learns_betas: int = 0
    sparse: int = 0  # 1: sparsemax in place of the softmax, 2: 1.5-entmax

    @classmethod
    def of(cls, request: Request, mask: Tensor | None) -> DotArguments:
        bias = None if request.bias is None else kernel_bias(request)
        betas = request.beta if isinstance(request.beta, Tensor) else None
        return cls(
            request.query,
            request.key,
            request.value,
            request.key_bias,
            request.sinks,
            bias,
            betas,
            mask,
            request.scale,
            request.cap or 0.0,
            1.0 if isinstance(request.beta, Tensor) else request.beta,
            request.dropout,
            request.seed,
            int(bias is not None and bias.requires_grad),
            int(betas is not None and betas.requires_grad),
            SPARSE_CHOICES.get(type(request.choice), 0),
        )

    @staticmethod
    def input_indices(request: Request) -> tuple[int, ...]:
        """The index of each differentiable tensor in `Request.inputs`."""
        return Input.QUERY, Input.KEY, Input.VALUE, Input.KEY_BIAS, Input.SINKS, Input.BIAS, Input.BETA

    def wanted(self) -> tuple[bool, ...]:
        """Which of the differentiable tensors `backward` returns a gradient of."""
        present = self.key_bias is not None, self.sinks is not None
        return True, True, True, *present, bool(self.learns_bias), bool(self.learns_betas)

    def record(self) -> ScoreRecord:
        """The arguments as C++ reads them."""
        return score_record(
            self.query,
            self.key,
            self.value,
            key_bias=self.key_bias,
            bias=self.bias,
            sinks=self.sinks,
            betas=self.betas,
            mask=self.mask,
            scale=self.scale,
            cap=self.cap,
            beta=self.beta,
            dropout=self.dropout,
            seed=self.seed,
        )

    def forward(self) -> tuple[Tensor, Tensor]:
        """Output (B, h, L, dv), and lse (B, h, L) or a sparse choice's thresholds."""
        record, threads = self.record(), torch.get_num_threads()
        output, lse = empty_results(self.query, self.value)
        if self.sparse:
            compiled.sparse_forward(record.scores, compiled.Choice(self.sparse), view(output), lse.data_ptr(), threads)
        else:
            compiled.dot_forward(record.scores, view(output), lse.data_ptr(), threads)
        return output, lse

    def backward(
        self, output: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor | None, grad_entropy: Tensor | None = None
    ) -> tuple[Tensor | None, ...]:
        """Gradients of the differentiable tensors; None for those that are not `wanted`.

        grad_entropy (B, h, L) float32: of each row's −Σ p·ln p. For a softmax, grad_lse must hold the part of its gradient that is the
        same along a row.
        """
        record, threads = self.record(), torch.get_num_threads()
        backward = BackwardPass(self.query, self.key, self.value, output, lse, grad_out, grad_lse)
        (B, h, L), (k, S) = self.query.shape[:3], self.key.shape[1:3]
        shares = self._shares()
        grad_bias = BiasGradient(self.bias, B, h, L, S, shares) if self.bias is not None and self.learns_bias else None
        # Without anything else in the scores, z = β · scale · q·k, and Σ dz·z is Σ q·dq: no sum of its own in the kernel.
        plain = not self.cap and self.bias is None and self.key_bias is None and self.query.dtype == torch.float32
        grad_betas = torch.zeros(shares, B, h, dtype=torch.float64) if self.learns_betas and not plain else None
        grad_key_bias = None if self.key_bias is None else torch.zeros(shares if self.sparse else 1, B, h, S)
        more = (
            address(grad_key_bias),
            None if grad_bias is None else grad_bias.view,
            0 if grad_bias is None else grad_bias.share,
            address(grad_betas),
            address(grad_entropy),
            threads,
        )
        if self.sparse:
            compiled.sparse_backward(record.scores, compiled.Choice(self.sparse), shares, backward.record, *more)
        else:
            compiled.dot_backward(record.scores, backward.record, *more)
        if grad_key_bias is not None and self.key_bias is not None:
            grad_key_bias = grad_key_bias.sum(0).view(B, k, h // k, S).sum(2).to(self.key_bias.dtype)
        if self.learns_betas and plain:
            grad_betas = (self.query.detach() * backward.grads[0]).sum((0, 2, 3), dtype=torch.float64) * self._betas() / math.log(2)
            grad_betas = grad_betas.view(1, 1, h)
        grad_sinks = backward.grad_sinks(self.sinks, record.sinks)
        return (*backward.grads, grad_key_bias, grad_sinks, None if grad_bias is None else grad_bias.result(), self._grad_betas(grad_betas))

    def _shares(self) -> int:
        """In how many parts sums over keys, or over a sparse choice's rows, are kept; by shape alone, and as C++ counts them."""
        (B, _, L), (k, S) = self.query.shape[:3], self.key.shape[1:3]
        if not self.sparse:
            return max(1, min(-(-16 // (B * k)), -(-S // 256)))  # key_shares in native/scores.h
        whole = self.bias is not None and self.learns_bias and BiasGradient.is_whole(self.bias, L, S)
        owners = (1 if whole and self.bias.shape[0] == 1 else B) * (1 if whole and self.bias.shape[1] == 1 else k)  # type: ignore[union-attr]
        return max(1, min(-(-16 // owners), -(-L // 64)))

    def _betas(self) -> Tensor:
        assert self.betas is not None
        return self.betas.detach().double()

    def _grad_betas(self, sums: Tensor | None) -> Tensor | None:
        """The gradient of the inverse temperatures from β · log2(e) · Σ dz·z, (shares, B, h)."""
        if sums is None or self.betas is None:
            return None
        betas = self._betas()
        grad = sums.sum((0, 1)) * math.log(2) / betas.square()
        return (grad if betas.numel() > 1 else grad.sum()).reshape(betas.shape).to(self.betas.dtype)


def kernel_bias(request: Request) -> Tensor | None:
    """The bias as the compiled kernels read it: the tensor itself, or `Bias.diagonals`, differentiable."""
    if isinstance(request.bias, Bias):
        L, S = request.query.shape[2], request.key.shape[2]
        return request.bias.diagonals(L, S, device=request.query.device, dtype=torch.float32)
    return request.bias


class BiasGradient:
    """Where C++ adds the gradient of a bias: full tensors once, in place; sums along diagonals or rows in one copy per key share."""

    def __init__(self, bias: Tensor, B: int, h: int, L: int, S: int, shares: int) -> None:
        self.bias, self.share = bias, 0
        if bias.dim() == 2:
            self.sums = torch.zeros(shares, B, h, L + S - 1)
            self.share = self.sums.stride(0)
            self.view = diagonal_view(self.sums, self.sums.stride(2), L, self.sums.stride(1))
        elif self.is_whole(bias, L, S):
            self.sums = torch.zeros(bias.shape)
            self.view = broadcast_view(self.sums)
        else:
            self.sums = torch.zeros(shares, B, h, *bias.shape[2:])
            self.share = self.sums.stride(0)
            row, column = (stride if size > 1 else 0 for stride, size in zip(self.sums.stride()[3:], bias.shape[2:], strict=True))
            self.view = compiled.View(self.sums.data_ptr(), self.sums.stride(1), self.sums.stride(2), row, column)

    @staticmethod
    def is_whole(bias: Tensor, L: int, S: int) -> bool:
        """Whether every query and key have a number of their own."""
        return bias.dim() == 4 and bias.shape[2] == L and bias.shape[3] == S and L > 1 and S > 1

    def result(self) -> Tensor:
        """The gradient, shaped as the bias."""
        if self.bias.dim() == 2:
            self.sums = self.sums.sum((0, 1))
        elif self.share:
            self.sums = self.sums.sum(0)
        return self.sums.sum_to_size(self.bias.shape).to(self.bias.dtype)


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
    """The scores of a request, of any kind the compiled kernels know, without sinks and dropout."""
    return score_record(
        request.query,
        request.key,
        request.value,
        key_bias=request.key_bias,
        bias=kernel_bias(request),
        mask=mask,
        scale=request.scale,
        cap=request.cap or 0.0,
        betas=request.beta if isinstance(request.beta, Tensor) else None,
        beta=1.0 if isinstance(request.beta, Tensor) else request.beta,
        kind=SCORE_KINDS.get(type(request.score), "dot"),
        vector=request.score.v if isinstance(request.score, Additive) else None,
    )


def pick_keys(request: Request, mask: Tensor | None) -> Tensor:
    """The first largest key of each row, or with `request.uniform` the sampled key: (B, h, L) int64, −1 on an empty row."""
    record = score_part(request, mask)
    index = torch.empty(request.query.shape[:3], dtype=torch.int64)
    uniform = None if request.uniform is None else request.uniform.contiguous()
    compiled.pick(record.scores, address(uniform), index.data_ptr(), torch.get_num_threads())
    return index


__all__ = ["SCORE_KINDS", "SPARSE_CHOICES", "BackwardPass", "DotArguments", "empty_results", "kernel_bias", "pick_keys", "score_part"]
