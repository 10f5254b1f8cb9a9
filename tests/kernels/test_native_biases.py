"""Biases and learned temperatures in the compiled kernels, against the dense float64 reference: output, lse and every gradient."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from compiled_kernels import random_inputs
from regard import Alibi, Argmax, RelativeBias, Sample, ScaledDot, Softmax, causal, observe, padding
from regard.biases import Diagonals

SHAPES = {"square": (2, 4, 2, 77, 77), "wide": (1, 2, 2, 40, 530), "few queries": (2, 4, 2, 3, 300), "short": (9, 4, 4, 13, 21)}


def relative(heads: int) -> RelativeBias:
    bias = RelativeBias(heads, buckets=16, max_distance=40)
    with torch.no_grad():
        bias.table.copy_(torch.randn(bias.table.shape, generator=torch.Generator().manual_seed(3)))
    return bias


def make_bias(kind: str, B: int, h: int, L: int, S: int) -> Any:
    g = torch.Generator().manual_seed(5)
    if kind == "alibi":
        return Alibi(h)
    if kind == "relative":
        return relative(h)
    if kind == "part":
        return relative(h).part(range(5, 5 + L), range(2, 2 + S), L + 9, S + 4)
    shape = {"full": (B, h, L, S), "heads": (1, h, L, S), "one": (L, S), "keys": (B, 1, 1, S), "rows": (1, h, L, 1), "across": (B, h, S, L)}
    bias = torch.randn(shape[kind], generator=g)
    if kind == "across":
        bias = bias.mT
    if kind == "full":
        bias[..., 2, :] = -math.inf  # a row that a bias hides
        bias[..., S // 2] = -math.inf
    return bias.requires_grad_()


def run(kernel: str, dtype: torch.dtype, shape: str, bias: Any, **options: Any) -> tuple[regard.Attended, list[Tensor]]:
    """The result, and the gradients of query, key, value, the bias (or its table) and a learned temperature."""
    q, k, v = (x.to(dtype).requires_grad_() for x in random_inputs(*SHAPES[shape], 24, 16))
    if isinstance(bias, nn.Module):
        bias = copy.deepcopy(bias).to(dtype)
        leaves = list(bias.parameters())
    else:
        bias = bias.detach().to(dtype).requires_grad_()
        leaves = [bias]
    choice = options.pop("choice", Softmax())
    if isinstance(choice.temperature, Tensor):
        choice = type(choice)(temperature=nn.Parameter(choice.temperature.detach().to(dtype)))
        leaves.append(choice.temperature)
    seen = observe(q, k, v, bias=bias, choice=choice, kernel=kernel, **options)
    g = torch.Generator().manual_seed(9)
    total = (seen.output * torch.randn(seen.output.shape, generator=g).to(dtype)).sum()
    if seen.lse is not None:
        total = total + (seen.lse.masked_fill(seen.lse == -math.inf, 0) * torch.randn(seen.lse.shape, generator=g).to(dtype)).sum()
    return seen, list(torch.autograd.grad(total, [q, k, v, *leaves]))


def compare(shape: str, bias: Any, **options: Any) -> None:
    got, got_grads = run("native", torch.float32, shape, bias, **options)
    want, want_grads = run("reference", torch.float64, shape, bias, **options)
    torch.testing.assert_close(got.output.double(), want.output, rtol=1e-5, atol=1e-5)
    if want.lse is not None:
        torch.testing.assert_close(got.lse.double(), want.lse, rtol=1e-5, atol=1e-5)  # type: ignore[union-attr]
    for a, b in zip(got_grads, want_grads, strict=True):
        assert a.shape == b.shape
        assert (a - b).abs().max() <= 2e-5 * max(1.0, float(b.abs().max()))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["alibi", "relative", "part", "full", "heads", "one", "keys", "rows", "across"])
def test_biases(isa: str, kind: str, shape: str) -> None:
    B, h, _, L, S = SHAPES[shape]
    compare(shape, make_bias(kind, B, h, L, S), mask=causal() if kind in ("alibi", "heads", "one") else None)


@pytest.mark.parametrize("kind", ["relative", "heads", "keys"])
@pytest.mark.parametrize("temperature", [torch.tensor(1.7), torch.tensor([0.5, 1.0, 2.0, 0.8])])
def test_biases_with_cap_temperature_mask_and_dropout(isa: str, kind: str, temperature: Tensor) -> None:
    options: dict[str, Any] = {"mask": causal() & padding(torch.tensor([70, 31])), "score": ScaledDot(cap=3.0)}
    bias = make_bias(kind, 2, 4, 77, 77)
    compare("square", bias, choice=Softmax(temperature), **options)
    for kernel, dtype in (("native", torch.float32), ("reference", torch.float64)):
        options[kernel], _ = run(kernel, dtype, "square", bias, dropout=0.3, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(options["native"].output.double(), options["reference"].output, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("per_head", [False, True])
def test_learned_temperature(isa: str, shape: str, per_head: bool) -> None:
    heads = SHAPES[shape][1]
    temperature = torch.linspace(0.5, 2.0, heads) if per_head else torch.tensor(1.7)
    compare(shape, Alibi(heads), choice=Softmax(temperature))


def test_results_do_not_depend_on_threads(isa: str) -> None:
    bias = make_bias("one", 1, 2, 40, 530)
    threads, results = torch.get_num_threads(), []
    try:
        for n in (1, 3):
            torch.set_num_threads(n)
            for other in (bias, relative(2)):
                results.append(run("native", torch.float32, "wide", other, choice=Softmax(torch.tensor(1.3)))[1])
    finally:
        torch.set_num_threads(threads)
    for a, b in ((results[0], results[2]), (results[1], results[3])):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_biases_are_read_in_place(isa: str, dtype: torch.dtype) -> None:
    q, k, v = random_inputs(1, 2, 2, 33, 70, 16, 16)
    bias = torch.randn(1, 2, 33, 70, generator=torch.Generator().manual_seed(1)).to(dtype)
    got = observe(q, k, v, bias=bias, kernel="native").output
    torch.testing.assert_close(got, observe(q, k, v, bias=bias.float(), kernel="reference").output, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("choice", [Argmax(), Sample()])
@pytest.mark.parametrize("kind", ["alibi", "one"])
def test_picks_under_a_bias(isa: str, choice: Any, kind: str) -> None:
    bias = make_bias(kind, 2, 4, 77, 77)
    results = []
    for kernel, dtype in (("native", torch.float32), ("reference", torch.float64)):
        q, k, v = (x.to(dtype) for x in random_inputs(2, 4, 2, 77, 77, 24, 16))
        converted = copy.deepcopy(bias).to(dtype) if isinstance(bias, nn.Module) else bias.to(dtype)
        results.append(observe(q, k, v, bias=converted, choice=choice, kernel=kernel, generator=torch.Generator().manual_seed(3)))
    assert torch.equal(results[0].index, results[1].index)
    if results[1].log_prob is not None:
        torch.testing.assert_close(results[0].log_prob.double(), results[1].log_prob, rtol=1e-5, atol=1e-5)


def test_a_bias_without_diagonals_is_computed_in_python() -> None:
    class Checkers(regard.Bias):
        def tile(self, rows: range, cols: range, L: int, S: int, *, device: Any = None, dtype: Any = None) -> Tensor:
            return (torch.tensor(list(rows)).unsqueeze(-1) + torch.tensor(list(cols))) % 2.0

    class Shifted(Alibi):
        def tile(self, *args: Any, **options: Any) -> Tensor:
            return super().tile(*args, **options) + 1

    q, k, v = random_inputs(1, 2, 2, 9, 9, 8, 8)
    for bias in (Checkers(), Shifted(2)):
        assert "has no diagonals" in regard.explain(q, k, v, bias=bias).rejected["native"]
        assert bias.diagonals(3, 3) is None


def test_diagonals_are_the_dense_bias() -> None:
    for bias in (Alibi(3), relative(3)):
        for L, S in ((4, 7), (7, 4), (1, 5), (5, 1)):
            values = bias.diagonals(L, S)
            assert values is not None
            torch.testing.assert_close(Diagonals(values).tile(range(L), range(S), L, S), bias.tile(range(L), range(S), L, S))


def test_double_backward_through_diagonals() -> None:
    results = []
    for kernel, dtype in (("native", torch.float32), ("reference", torch.float64)):
        q, k, v = (x.to(dtype).requires_grad_() for x in random_inputs(1, 2, 2, 6, 6, 4, 4))
        bias = relative(2).to(dtype)
        out = observe(q, k, v, bias=bias, kernel=kernel).output
        first = torch.autograd.grad(out.square().sum(), [q, bias.table], create_graph=True)
        results.append([*first, *torch.autograd.grad(sum(x.square().sum() for x in first), [k, bias.table])])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("per_head", [False, True])
def test_learned_temperature_of_plain_scores(isa: str, per_head: bool) -> None:
    """Without a bias its gradient comes from the queries'."""
    results = []
    for kernel, dtype in (("native", torch.float32), ("reference", torch.float64)):
        q, k, v = (x.to(dtype).requires_grad_() for x in random_inputs(2, 4, 2, 40, 60, 24, 16))
        temperature = nn.Parameter((torch.linspace(0.5, 2.0, 4) if per_head else torch.tensor(1.7)).to(dtype))
        out = observe(q, k, v, choice=Softmax(temperature), mask=causal(), kernel=kernel).output
        results.append(torch.autograd.grad(out.square().sum(), [temperature, q]))
    for a, b in zip(*results, strict=True):
        assert (a - b).abs().max() <= 2e-5 * max(1.0, float(b.abs().max()))


def test_hidden_keys_do_not_reach_a_learned_temperature(isa: str) -> None:
    results = []
    for hidden in (0.0, math.nan):
        q, k, v = random_inputs(2, 4, 2, 40, 65, 24, 16)
        k[:, :, -3:] = hidden
        temperature = nn.Parameter(torch.linspace(0.5, 2.0, 4))
        options: dict[str, Any] = {"bias": make_bias("heads", 2, 4, 40, 65), "mask": padding(torch.tensor([62, 62]))}
        out = observe(q, k, v, choice=Softmax(temperature), kernel="native", **options).output
        results.append(torch.autograd.grad(out.square().sum(), temperature)[0])
    assert torch.equal(*results)
