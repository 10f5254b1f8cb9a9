"""Every kernel against the reference in float64, over random problems: the bound is error / Σp|v| ≤ 8·eps·(1 + max|s|)."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import regard
from cases import Case, make
from regard.kernels import KERNELS

CASES, CHUNK = 600, 50
SLOW = int(os.environ.get("REGARD_CASES", "20000"))
FAST = [name for name in KERNELS if name != "reference"]
BF16_EPS = 2.0**-8


def eps(dtype: torch.dtype) -> float:
    return BF16_EPS if dtype == torch.bfloat16 else torch.finfo(dtype).eps


def bounds(case: Case, truth: Case) -> tuple[Tensor, Tensor]:
    """The allowed error of each output number, and of each row's lse, in float64."""
    with torch.no_grad():
        magnitude = Case(truth.seed, truth.query, truth.key, truth.value.abs(), truth.options).run("reference").output
        scores = _largest_score(truth)
    unit = 8 * eps(case.query.dtype) * (1 + scores)
    # A weight below the smallest normal number may become zero.
    flushed = torch.finfo(case.query.dtype).tiny * (
        1 + case.key.shape[2] * (float(case.value.detach().abs().max()) if case.value.numel() else 0.0)
    )
    return unit * magnitude + flushed, unit


@torch.no_grad()
def _largest_score(case: Case) -> float:
    """max |s| over all pairs, masked ones too: the largest number whose rounding reaches a weight."""
    if not case.query.numel() or not case.key.numel():
        return 0.0
    h, L, S = case.query.shape[1], case.query.shape[2], case.key.shape[2]
    top = _largest_on_the_way(case.options["score"], case.query, case.key.repeat_interleave(h // case.key.shape[1], 1))
    bias = case.options.get("bias")
    if isinstance(bias, regard.Bias):
        bias = bias.tile(range(L), range(S), L, S)
    if bias is not None and bias.numel():
        top += float(bias.abs().max())
    temperature = case.options["choice"].temperature
    return top / float(temperature.min() if isinstance(temperature, Tensor) else temperature)


def _largest_on_the_way(score: regard.Score, query: Tensor, key: Tensor) -> float:
    """A score that computes something first rounds that: its projections, or what its cap then bends."""
    if isinstance(score, regard.Additive):
        q, k = score.prepare(query, key)
        return float((q.abs().max() + k.abs().max()) * score.v.abs().sum())
    if isinstance(score, regard.Bilinear):
        size = copy.deepcopy(score)
        for parameter in size.parameters():
            parameter.copy_(parameter.abs())
        return float(size(query.abs(), key.abs()).max())
    if isinstance(score, regard.ScaledDot):
        score = regard.ScaledDot(score.scale)
    return float(score(query, key).abs().max())


def problems(kernel: str, chunk: int, count: int) -> Iterator[Case]:
    """The chunk's problems that this kernel takes; seeds of different chunks never meet."""
    result = 0
    for seed in range(chunk * 100_000, chunk * 100_000 + 50 * count):
        case = make(seed, plain=kernel == "fused")
        try:
            regard.explain(case.query, case.key, case.value, kernel=kernel, **case.options)
        except ValueError as error:
            if "does not support this request" not in str(error):
                raise
            continue
        yield case
        result += 1
        if result == count:
            return
    raise AssertionError(f"{kernel} refused all but {result} of {50 * count} problems")


def check(case: Case, kernel: str) -> None:
    truth = case.double()
    want = truth.run("reference")
    got = case.run(kernel)
    allowed, unit = bounds(case, truth)
    assert got.output.shape == want.output.shape
    assert got.output.dtype == case.value.dtype
    error = (got.output.double() - want.output).detach().abs()
    sparse = not isinstance(case.options["choice"], regard.Softmax)
    factor = 4.0 if sparse else 1.0  # a sparse weight is a difference of scores: its error is theirs, not a share of itself
    slack = unit * float(case.value.detach().abs().max()) if sparse and case.value.numel() else 0.0
    worst = (error - factor * allowed - slack).max() if error.numel() else torch.tensor(-1.0)
    assert worst <= 0, f"{kernel} {case}: output off by {float(error.max()):.3g}, allowed {float(allowed.min()):.3g}"
    if want.lse is not None and kernel != "fused":
        assert got.lse is not None
        finite = want.lse.isfinite()
        assert torch.equal(finite, got.lse.isfinite()), f"{kernel} {case}: other rows are empty"
        assert float((got.lse.double() - want.lse).detach()[finite].abs().max() if finite.any() else 0.0) <= unit * 2, (
            f"{kernel} {case}: lse"
        )


def check_gradients(case: Case, kernel: str) -> None:
    truth = case.double()
    want = truth.run("reference")
    got = case.run(kernel)
    g = torch.Generator().manual_seed(case.seed + 1)
    direction = torch.randn(want.output.shape, generator=g, dtype=torch.float64)
    row = None if want.lse is None else torch.randn(want.lse.shape, generator=g, dtype=torch.float64)

    def grads(which: Case, result: regard.Attended) -> list[Tensor | None]:
        total = (result.output.double() * direction).sum()
        if row is not None and result.lse is not None and kernel != "fused":
            total = total + (result.lse.double() * row).masked_fill(result.lse == -torch.inf, 0).sum()
        if not total.requires_grad:
            return [None for _ in which.tensors()]
        return list(torch.autograd.grad(total, which.tensors(), allow_unused=True))

    scores = _largest_score(truth)
    # dS = P∘(dP − D) cancels, to nothing at times: its rounding is a share of the terms, not of the difference.
    natural = 0.1
    for x in (case.query, case.key, case.value):
        natural *= 1 + float(x.detach().abs().max()) if x.numel() else 1
    for mine, true in zip(grads(case, got), grads(truth, want), strict=True):
        true = torch.zeros_like(mine, dtype=torch.float64) if true is None and mine is not None else true
        mine = torch.zeros_like(true) if mine is None and true is not None else mine
        if mine is None or true is None or not true.numel():
            continue
        assert mine.isfinite().all(), f"{kernel} {case}: gradient is not finite"
        size = float(true.abs().max()) + natural
        unit = max(eps(case.query.dtype), eps(mine.dtype))
        limit = 64 * unit * (1 + scores) * size * (1 + case.key.shape[2] ** 0.5)
        off = float((mine.double() - true).abs().max())
        assert off <= limit, f"{kernel} {case}: gradient of shape {tuple(true.shape)}, largest {size:.3g}"


def differentiable(case: Case) -> bool:
    """Sparse choices have kinks, where a float32 gradient may honestly fall on the other side; gradcheck covers them."""
    return case.query.dtype not in (torch.bfloat16, torch.float16) and isinstance(case.options["choice"], regard.Softmax)


@pytest.mark.parametrize("chunk", range(CASES // CHUNK))
@pytest.mark.parametrize("kernel", FAST)
def test_output_agrees(kernel: str, chunk: int) -> None:
    with torch.no_grad():
        for case in problems(kernel, chunk, CHUNK):
            check(case, kernel)


@pytest.mark.parametrize("chunk", range(CASES // CHUNK))
@pytest.mark.parametrize("kernel", FAST)
def test_gradients_agree(kernel: str, chunk: int) -> None:
    for case in problems(kernel, chunk, CHUNK):
        if differentiable(case):
            check_gradients(case, kernel)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(100, 100 + SLOW // 1000))
@pytest.mark.parametrize("kernel", FAST)
def test_many_agree(kernel: str, chunk: int) -> None:
    for number, case in enumerate(problems(kernel, chunk, 1000)):
        check(case, kernel)
        if number % 5 == 0 and differentiable(case):
            check_gradients(case, kernel)
