"""Gradients to every tensor that may learn, against finite differences in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import regard

KERNELS = ["streamed", "reference"]


def tensors(h: int = 2, L: int = 3, S: int = 5, d: int = 3, dv: int = 2, k: int | None = None) -> list[Tensor]:
    g = torch.Generator().manual_seed(1)
    shapes = [(2, h, L, d), (2, k or h, S, d), (2, k or h, S, dv)]
    return [torch.randn(shape, generator=g, dtype=torch.float64).requires_grad_() for shape in shapes]


def pieces(seen: regard.Attended) -> tuple[Tensor, ...]:
    result = (seen.output, seen.lse, seen.log_prob)
    return tuple(x.masked_fill(x == -torch.inf, 0) for x in result if x is not None)


CHOICES = {
    "softmax": lambda: regard.Softmax(),
    "cool": lambda: regard.Softmax(temperature=0.5),
    "sparsemax": lambda: regard.Sparsemax(),
    "entmax": lambda: regard.Entmax15(temperature=0.7),
}
SCORES = {
    "scaled": lambda: regard.ScaledDot(),
    "capped": lambda: regard.ScaledDot(cap=2.0),
    "additive": lambda: regard.Additive(3, 3, hidden=4),
    "bilinear": lambda: regard.Bilinear(3, 3),
    "factored": lambda: regard.Bilinear(3, 3, rank=2),
    "gaussian": lambda: regard.Gaussian(0.7, learn=True),
    "gaussian each": lambda: regard.Gaussian(torch.tensor([0.5, 1.0, 2.0]), learn=True),
}
MASKS = {"all": None, "causal": regard.causal(align="start"), "padding": regard.padding([0, 3])}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("choice", CHOICES)
def test_choices(choice: str, mask: str, kernel: str) -> None:
    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        return pieces(regard.observe(*inputs, mask=MASKS[mask], choice=CHOICES[choice](), kernel=kernel))

    assert torch.autograd.gradcheck(run, tensors())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("score", SCORES)
def test_scores(score: str, kernel: str) -> None:
    torch.manual_seed(0)
    module = SCORES[score]().double()
    parameters = list(module.parameters())

    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        # gradcheck moves the parameters in place, and the module reads them.
        return pieces(regard.observe(*inputs[:3], score=module, mask=MASKS["causal"], kernel=kernel))

    assert torch.autograd.gradcheck(run, [*tensors(), *parameters])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("score", ["scaled", "additive", "capped"])
def test_bias_temperature_and_sinks(score: str, kernel: str) -> None:
    torch.manual_seed(0)
    module = SCORES[score]().double()
    g = torch.Generator().manual_seed(2)
    bias = torch.randn(1, 2, 3, 5, generator=g, dtype=torch.float64).requires_grad_()
    temperature = torch.tensor([0.8, 1.5], dtype=torch.float64, requires_grad=True)
    sinks = torch.randn(2, generator=g, dtype=torch.float64).requires_grad_()

    def run(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, temperature: Tensor, sinks: Tensor) -> tuple[Tensor, ...]:
        choice = regard.Softmax(temperature, sinks)
        return pieces(regard.observe(q, k, v, score=module, bias=bias, choice=choice, mask=regard.padding([2, 5]), kernel=kernel))

    assert torch.autograd.gradcheck(run, [*tensors(), bias, temperature, sinks])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(2, 1, 1, 5), (1, 1, 3, 1), (1, 1, 1, 1), (2, 2, 3, 5)])
def test_bias_of_every_broadcast_shape(shape: tuple[int, ...], kernel: str) -> None:
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *x: regard.attend(*x[:3], bias=x[3], kernel=kernel), [*tensors(), bias])


@pytest.mark.parametrize("kernel", KERNELS)
def test_relative_bias_learns(kernel: str) -> None:
    bias = regard.RelativeBias(2, buckets=4, max_distance=8).double()
    nn.init.normal_(bias.table)
    assert torch.autograd.gradcheck(lambda *x: regard.attend(*x[:3], bias=bias, kernel=kernel), [*tensors(), bias.table])


@pytest.mark.parametrize("kernel", KERNELS)
def test_grouped_heads_and_dropout(kernel: str) -> None:
    def run(*inputs: Tensor) -> Tensor:
        return regard.attend(*inputs, dropout=0.4, generator=torch.Generator().manual_seed(3), kernel=kernel)

    assert torch.autograd.gradcheck(run, tensors(h=4, k=2))


@pytest.mark.parametrize("kernel", KERNELS)
def test_log_prob_of_a_sample(kernel: str) -> None:
    def run(*inputs: Tensor) -> Tensor:
        seen = regard.observe(*inputs, choice=regard.Sample(), generator=torch.Generator().manual_seed(3), kernel=kernel)
        assert seen.log_prob is not None
        return seen.log_prob

    q, k, v = tensors()
    assert torch.autograd.gradcheck(lambda q, k: run(q, k, v.detach()), [q, k])


@pytest.mark.parametrize("kernel", KERNELS)
def test_straight_through_has_the_soft_gradient(kernel: str) -> None:
    grads = []
    for choice in (regard.Softmax(), regard.Sample(straight_through=True)):
        q, k, v = tensors()
        out = regard.attend(q, k, v, choice=choice, generator=torch.Generator().manual_seed(3), kernel=kernel)
        grads.append(torch.autograd.grad(out.sum() + out[..., 0].sum(), [q, k]))
    for soft, through in zip(*grads, strict=True):
        torch.testing.assert_close(through, soft)


@pytest.mark.parametrize("kernel", ["streamed", "native"])
def test_double_backward_of_each_kernel(kernel: str) -> None:
    dtype = torch.float64 if kernel == "streamed" else torch.float32
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in tensors())
    (first,) = torch.autograd.grad(regard.attend(q, k, v, kernel=kernel).square().sum(), q, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), k)
    q2, k2, v2 = (x.detach().double().requires_grad_() for x in (q, k, v))
    (first2,) = torch.autograd.grad(regard.attend(q2, k2, v2, kernel="reference").square().sum(), q2, create_graph=True)
    (want,) = torch.autograd.grad(first2.square().sum(), k2)
    torch.testing.assert_close(
        second.double(), want, rtol=1e-4 if dtype == torch.float32 else 1e-9, atol=1e-5 if dtype == torch.float32 else 1e-9
    )
