"""Masks that are no few ranges a row, read by the compiled kernels where their tensor lies, on every instruction set."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import compiled_kernels  # noqa: F401  (skips this file where there are none)
from regard import (
    Additive,
    Argmax,
    At,
    Distance,
    Entropy,
    Gaussian,
    MaxLogit,
    Received,
    Sample,
    TopK,
    attend,
    causal,
    dense,
    explain,
    observe,
    padding,
)
from regard.kernels.native.dot import DotArguments
from regard.kernels.native.masks import kernel_mask, pattern_bytes
from regard.kernels.native.operators import OPERATORS
from regard.masks import Mask

B, H, K, L, S = 2, 4, 2, 37, 500
CPU = torch.device("cpu")


def scattered(*shape: int, seed: int = 0) -> Tensor:
    """Half of the pairs, by chance; the first row sees nothing, some keys are seen by all, some by nobody."""
    result = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    result[..., 40:90], result[..., 130:170] = True, False
    result[..., 0, :] = False
    return result


PATTERNS: dict[str, Mask] = {
    "shared": dense(scattered(L, S)),
    "by head": dense(scattered(1, H, L, S)),
    "by sequence": dense(scattered(B, 1, L, S)),
    "transposed": dense(scattered(B, H, S, L).mT),
    "keys": padding(scattered(B, S)),
    "and": dense(scattered(L, S)) & causal(),
    "not": ~dense(scattered(L, S)),
}


def tensors(rows: int = L, d: int = 20, dv: int = 24, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    g = torch.Generator().manual_seed(1)
    return [torch.randn(B, h, n, w, generator=g).to(dtype) for h, n, w in ((H, rows, d), (K, S, d), (K, S, dv))]


def gradients(leaves: list[Tensor], mask: Mask, kernel: str, **given: object) -> list[Tensor]:
    """Output, lse where there is one, and the gradients of a fixed sum of both."""
    leaves = [x.detach().requires_grad_() for x in leaves]
    seen = observe(*leaves, mask=mask, kernel=kernel, **given)  # type: ignore[arg-type]
    assert seen.lse is not None
    weight = torch.randn(seen.output.shape, generator=torch.Generator().manual_seed(2)).to(seen.output.dtype)
    total = (seen.output * weight).sum() + seen.lse[seen.lse > -math.inf].sum()
    return [seen.output.detach(), seen.lse.detach().nan_to_num(neginf=-99), *torch.autograd.grad(total, leaves)]


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_read_in_place(isa: str, name: str) -> None:
    mask = PATTERNS[name]
    assert mask.spans(L, S) is None
    assert "dense mask" in explain(*tensors(), mask=mask, kernel="native").reason
    got = gradients(tensors(), mask, "native")
    want = gradients(tensors(dtype=torch.float64), mask, "reference")
    for a, b in zip(got, want, strict=True):
        assert (a - b).abs().max() <= 4e-6 * b.abs().max()
    assert (got[0][(want[1] == -99)] == 0).all()


def test_nothing_is_copied() -> None:
    visible = scattered(L, S)
    assert kernel_mask(dense(visible), L, S, CPU).data_ptr() == visible.data_ptr()
    keys = scattered(B, 1, S)[:, 0] | (torch.arange(S) % 2 == 0)
    assert kernel_mask(padding(keys), L, S, CPU).data_ptr() == keys.data_ptr()
    assert pattern_bytes(dense(visible), L, S) == 0
    assert pattern_bytes(dense(visible) & causal(), L, S) == L * S
    q, k, v = tensors()
    plain, joined = (explain(q, k, v, mask=mask, kernel="native").bytes for mask in (dense(visible), dense(visible) & causal()))
    assert joined - plain == L * S


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("keys", [False, True])
def test_few_queries(isa: str, rows: int, keys: bool) -> None:
    mask = padding(scattered(B, 2, S)[:, 1]) if keys else dense(scattered(B, H, rows + 1, S)[:, :, 1:])
    assert mask.spans(rows, S) is None
    got = observe(*tensors(rows, 32, 64), mask=mask, kernel="native")
    want = observe(*tensors(rows, 32, 64, torch.float64), mask=mask, kernel="reference")
    assert (got.output - want.output).abs().max() <= 4e-6 * want.output.abs().max()
    assert got.lse is not None
    assert want.lse is not None
    torch.testing.assert_close(got.lse, want.lse.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["by head", "transposed"])
def test_bfloat16(isa: str, name: str) -> None:
    got = gradients(tensors(dtype=torch.bfloat16), PATTERNS[name], "native")
    want = gradients([x.double() for x in tensors(dtype=torch.bfloat16)], PATTERNS[name], "reference")
    for a, b in zip(got, want, strict=True):
        assert (a.double() - b).abs().max() <= 2**-6 * b.abs().max()


@pytest.mark.parametrize("rows", [2, L])
@pytest.mark.parametrize("kind", ["additive", "gaussian"])
def test_scores_made_pair_by_pair(isa: str, kind: str, rows: int) -> None:
    mask = dense(scattered(B, H, rows, S))
    torch.manual_seed(0)
    score: Additive | Gaussian = Additive(20, 20, hidden=20) if kind == "additive" else Gaussian(0.7)
    if kind == "gaussian":
        score.lower = lambda query, key: None  # type: ignore[method-assign]
    got = gradients(tensors(rows), mask, "native", score=score)
    want = gradients(tensors(rows, dtype=torch.float64), mask, "reference", score=score.double())
    for a, b in zip(got, want, strict=True):
        assert (a - b).abs().max() <= 2e-5 * b.abs().max()


def test_readings(isa: str) -> None:
    readings = [Entropy(), Received(), TopK(3), MaxLogit(), Distance(), At(torch.arange(L).expand(B, H, L))]
    mask = PATTERNS["by head"]
    got = observe(*tensors(), mask=mask, readings=readings, kernel="native").readings
    want = observe(*tensors(dtype=torch.float64), mask=mask, readings=readings, kernel="reference").readings
    for name, expected in want.items():
        pairs = zip(got[name], expected, strict=True) if isinstance(expected, tuple) else [(got[name], expected)]
        for a, b in pairs:
            if isinstance(b, Tensor):
                torch.testing.assert_close(a.to(b.dtype), b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("choice", [Argmax(), Sample()])
def test_hard_choices(isa: str, choice: Argmax | Sample) -> None:
    results = []
    for kernel, dtype in (("native", torch.float32), ("reference", torch.float64)):
        g = torch.Generator().manual_seed(3)
        seen = observe(*tensors(dtype=dtype), mask=PATTERNS["by head"], choice=choice, generator=g, kernel=kernel)
        assert seen.index is not None
        results.append(seen.index)
    assert torch.equal(*results)
    assert (results[0][:, :, 0] == -1).all()


def test_hidden_poison_does_not_leak(isa: str) -> None:
    """Keys 130 to 169 are hidden from every row, key 200 from the odd ones: nothing there may reach those."""
    pattern = scattered(L, S)
    pattern[1::2, 200] = False
    q, k, v = tensors()
    want = gradients([q, k, v], dense(pattern), "native")
    k[..., 130:170, :], v[..., 130:170, :] = math.nan, math.inf
    for a, b in zip(gradients([q, k, v], dense(pattern), "native"), want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    v[..., 200, :] = math.nan
    assert torch.equal(attend(q, k, v, mask=dense(pattern), kernel="native")[:, :, 1::2], want[0][:, :, 1::2])


def test_a_mask_computed_in_python_runs_streamed() -> None:
    class Coprime(Mask):
        """Row i sees key j if they share no divisor."""

        def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
            return torch.gcd(torch.arange(r0, r1, device=device)[:, None], torch.arange(c0, c1, device=device))[None, None] == 1

    q, k, v = tensors()
    plan = explain(q, k, v, mask=Coprime())
    assert plan.kernel == "streamed"
    assert "must be computed in Python" in plan.rejected["native"]
    torch.testing.assert_close(attend(q, k, v, mask=Coprime()), attend(q, k, v, mask=Coprime(), kernel="reference"), rtol=1e-4, atol=1e-5)


def test_operators_and_graphs() -> None:
    q, k, v = (x.requires_grad_() for x in tensors())
    torch.library.opcheck(OPERATORS[DotArguments].forward, (q, k, v, None, None, None, None, scattered(1, 1, L, S), 0.25, 0.0, 1.0))
    mask = PATTERNS["shared"]
    compiled = torch.compile(lambda q, k, v: attend(q, k, v, mask=mask, kernel="native").sin(), backend="aot_eager", fullgraph=True)
    got = torch.autograd.grad(compiled(q, k, v).sum(), (q, k, v))
    want = torch.autograd.grad(attend(q, k, v, mask=mask, kernel="native").sin().sum(), (q, k, v))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
