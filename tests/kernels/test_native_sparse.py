"""Sparsemax and 1.5-entmax in the compiled kernels, against the dense float64 reference."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compiled_kernels import random_inputs
from regard import Alibi, Entmax15, ScaledDot, Sparsemax, attend, causal, observe, padding, window

CHOICES = {"sparsemax": Sparsemax, "entmax": Entmax15}
MASKS = {"none": None, "causal": causal(), "padding": padding(torch.tensor([61, 0])), "window": causal() & window(20, 0)}


def run(kernel: str, dtype: torch.dtype, choice: Any, sizes: tuple[int, ...], scale: float = 1.0, **options: Any) -> list[Tensor]:
    leaves = [x.to(dtype).requires_grad_() for x in random_inputs(*sizes)]
    learned = []
    if isinstance(options.get("bias"), Tensor):
        options["bias"] = options["bias"].detach().to(dtype).requires_grad_()
        learned.append(options["bias"])
    if isinstance(choice.temperature, Tensor):
        choice = type(choice)(nn.Parameter(choice.temperature.detach().to(dtype)))
        learned.append(choice.temperature)
    q, k, v = leaves
    out = attend(q * scale, k, v, choice=choice, kernel=kernel, **options)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    return [out, *torch.autograd.grad((out * direction).sum(), [*leaves, *learned])]


def compare(choice: Any, sizes: tuple[int, ...], scale: float = 1.0, **options: Any) -> None:
    got, want = (
        run(kernel, dtype, choice, sizes, scale, **options) for kernel, dtype in (("native", torch.float32), ("reference", torch.float64))
    )
    for a, b in zip(got, want, strict=True):
        assert (a - b).detach().abs().max() <= 2e-4 * max(1.0, float(b.detach().abs().max()))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("choice", CHOICES)
def test_output_and_gradients(isa: str, choice: str, mask: str) -> None:
    compare(CHOICES[choice](), (2, 4, 2, 77, 77, 20, 37), mask=MASKS[mask])


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_all_keys_or_hardly_any(isa: str, choice: str, scale: float) -> None:
    """A flat row keeps every key, a steep one a single key; over more than one block of keys."""
    compare(CHOICES[choice](), (1, 2, 1, 20, 1100, 16, 8), scale)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("bias", [(1, 4, 40, 50), (40, 50), (2, 1, 1, 50)])
def test_bias_temperature_cap(isa: str, choice: str, bias: tuple[int, ...]) -> None:
    values = torch.randn(bias, generator=torch.Generator().manual_seed(4))
    temperature = torch.tensor([0.5, 1.0, 2.0, 0.8])
    compare(CHOICES[choice](temperature), (2, 4, 2, 40, 50, 16, 8), score=ScaledDot(cap=2.0), bias=values, mask=causal())
    compare(CHOICES[choice](torch.tensor(0.7)), (2, 4, 2, 40, 50, 16, 8), bias=values)


def test_alibi_and_dropout(isa: str) -> None:
    results = []
    for kernel, dtype in (("native", torch.float32), ("reference", torch.float64)):
        results.append(
            run(kernel, dtype, Entmax15(), (2, 4, 2, 40, 50, 16, 8), dropout=0.4, bias=Alibi(4), generator=torch.Generator().manual_seed(2))
        )
    for a, b in zip(*results, strict=True):
        assert (a - b).detach().abs().max() <= 1e-4 * max(1.0, float(b.detach().abs().max()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(isa: str, dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in random_inputs(2, 4, 2, 40, 50, 16, 8))
    got = attend(q, k, v, choice=Sparsemax(), kernel="native")
    want = attend(q.double(), k.double(), v.double(), choice=Sparsemax(), kernel="reference")
    assert got.dtype == dtype
    assert (got.double() - want).abs().max() <= 2**-7


@pytest.mark.parametrize("choice", CHOICES)
def test_threads_change_nothing(isa: str, choice: str) -> None:
    bias = torch.randn(300, 400, generator=torch.Generator().manual_seed(4))
    threads, results = torch.get_num_threads(), []
    try:
        for n in (1, 3):
            torch.set_num_threads(n)
            results.append(run("native", torch.float32, CHOICES[choice](), (1, 2, 1, 300, 400, 16, 8), bias=bias))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("choice", CHOICES)
def test_hidden_nan_does_not_leak_and_visible_nan_does(isa: str, choice: str) -> None:
    q, k, v = random_inputs(1, 1, 1, 40, 40, 32, 48)
    bad_k, bad_v = k.clone(), v.clone()
    bad_k[..., 25, 3], bad_v[..., 30, 1] = math.nan, math.inf
    clean, dirty = (attend(q, *x, mask=causal(), choice=CHOICES[choice](), kernel="native") for x in ((k, v), (bad_k, bad_v)))
    assert torch.equal(clean[:, :, :25], dirty[:, :, :25])
    assert dirty[:, :, 25:].isnan().any(-1).all()


def test_empty_rows(isa: str) -> None:
    q, k, v = (x.requires_grad_() for x in random_inputs(1, 2, 2, 5, 9, 8, 8))
    seen = observe(q, k, v, mask=padding(torch.tensor([0])), choice=Sparsemax(), kernel="native")
    assert seen.plan is not None
    assert seen.plan.kernel == "native"
    assert (seen.output == 0).all()
    assert all((grad == 0).all() for grad in torch.autograd.grad(seen.output.sum(), (q, k, v)))
