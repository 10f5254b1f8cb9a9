"""Gradients of Entropy, Received and MaxLogit: against the dense reference, by gradcheck, and in every kernel."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard import (
    Alibi,
    Entmax15,
    Entropy,
    Gaussian,
    MaxLogit,
    Received,
    RelativeBias,
    ScaledDot,
    Softmax,
    Sparsemax,
    causal,
    observe,
    padding,
)

READINGS = {"entropy": Entropy, "received": Received, "max_logit": MaxLogit}


def options_of(name: str) -> dict[str, Any]:
    torch.manual_seed(7)
    relative = RelativeBias(4, buckets=8, max_distance=20)
    nn.init.normal_(relative.table)
    results: dict[str, dict[str, Any]] = {
        "plain": {},
        "causal": {"mask": causal(), "score": ScaledDot(cap=2.0)},
        "padding": {"mask": padding(torch.tensor([9, 0]))},
        "alibi": {"bias": Alibi(4)},
        "relative": {"bias": relative, "choice": Softmax(nn.Parameter(torch.tensor([0.5, 1.0, 2.0, 0.8])))},
        "sinks": {"choice": Softmax(sinks=nn.Parameter(torch.tensor([0.0, 1.0, -1.0, 3.0])))},
        "dropout": {"dropout": 0.3},
        "gaussian": {"score": Gaussian(0.3, learn=True)},
        "additive": {"score": regard.Additive(6, 6, hidden=5)},
        "sparsemax": {"choice": Sparsemax(), "mask": causal()},
        "entmax": {"choice": Entmax15(nn.Parameter(torch.tensor(0.7)))},
    }
    return results[name]


def gradients(kernel: str, dtype: torch.dtype, name: str, readings: list[str]) -> list[Tensor | None]:
    g = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, h, n, 6, generator=g).to(dtype).requires_grad_() for h, n in ((4, 11), (2, 13), (2, 13)))
    options = {key: copy.deepcopy(part).to(dtype) if isinstance(part, nn.Module) else part for key, part in options_of(name).items()}
    leaves = [q, k] + [p for part in options.values() if isinstance(part, nn.Module) for p in part.parameters()]
    choice = options.get("choice")
    seen = observe(q, k, v, kernel=kernel, readings=[READINGS[r](grad=True) for r in readings], **options)
    assert seen.plan is not None
    assert seen.plan.kernel == kernel
    del choice
    total = torch.zeros((), dtype=dtype)
    for reading in readings:
        result = seen.readings[reading]
        weight = torch.randn(result.shape, generator=g).to(dtype)
        total = total + (result.masked_fill(result == -torch.inf, 0) * weight).sum()
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


@pytest.mark.parametrize("kernel", ["native", "streamed"])
@pytest.mark.parametrize(
    "name", ["plain", "causal", "padding", "alibi", "relative", "sinks", "dropout", "gaussian", "additive", "sparsemax", "entmax"]
)
def test_against_the_dense_reference(kernel: str, name: str) -> None:
    if kernel == "native" and regard.kernels.native.missing_reason():
        pytest.skip(f"no compiled kernels: {regard.kernels.native.missing_reason()}")
    dtype = torch.float32 if kernel == "native" else torch.float64
    for readings in (["entropy"], ["received"], ["max_logit"], ["entropy", "received", "max_logit"]):
        got, want = gradients(kernel, dtype, name, readings), gradients("reference", torch.float64, name, readings)
        for a, b in zip(got, want, strict=True):
            a = torch.zeros_like(b) if a is None and b is not None else a
            b = torch.zeros_like(a) if b is None and a is not None else b
            if a is not None and b is not None:
                assert (a - b).abs().max() <= 1e-4 * max(1.0, float(b.abs().max())), readings


@pytest.mark.parametrize("reading", READINGS)
def test_gradcheck(reading: str) -> None:
    g = torch.Generator().manual_seed(1)
    q, k = (torch.randn(1, 2, 4, 3, generator=g, dtype=torch.float64).requires_grad_() for _ in range(2))

    def read(q: Tensor, k: Tensor) -> Tensor:
        seen = observe(q, k, k.detach(), mask=causal(), kernel="streamed", readings=[READINGS[reading](grad=True)])
        result: Tensor = seen.readings[reading]
        return result

    assert torch.autograd.gradcheck(read, (q, k))


def test_without_grad_nothing_is_attached() -> None:
    q = torch.randn(1, 1, 5, 8, requires_grad=True)
    assert not observe(q, q, q, readings=[Entropy()]).readings["entropy"].requires_grad
    with torch.no_grad():
        assert not observe(q, q, q, readings=[Entropy(grad=True)]).readings["entropy"].requires_grad


def test_memory_stays_linear() -> None:
    """A long sequence whose dense weights would not fit the limit."""
    q = torch.randn(1, 1, 3000, 8, requires_grad=True)
    seen = observe(q, q, q, mask=causal(), limit_bytes=20_000_000, readings=[Entropy(grad=True), Received(grad=True)])
    (seen.readings["entropy"].sum() + seen.readings["received"].square().sum()).backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()
