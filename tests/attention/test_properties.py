"""Properties of attention for any numbers: equivariant, causal, shift-invariant, an average."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard

sizes = st.integers(1, 24)
seeds = st.integers(0, 10**6)
kernels = st.sampled_from(["auto", "streamed", "reference"])
few = settings(max_examples=40, deadline=None, derandomize=True)


def three(seed: int, L: int, S: int, d: int = 8, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 2, n, d, generator=g, dtype=torch.float64).to(dtype) for n in (L, S, S)]


@few
@given(seeds, sizes, sizes, kernels)
def test_order_of_keys_does_not_matter(seed: int, L: int, S: int, kernel: str) -> None:
    q, k, v = three(seed, L, S)
    order = torch.randperm(S, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(regard.attend(q, k[:, :, order], v[:, :, order], kernel=kernel), regard.attend(q, k, v, kernel=kernel))


@few
@given(seeds, sizes, sizes, kernels)
def test_queries_are_answered_each_on_its_own(seed: int, L: int, S: int, kernel: str) -> None:
    q, k, v = three(seed, L, S)
    order = torch.randperm(L, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(regard.attend(q[:, :, order], k, v, kernel=kernel), regard.attend(q, k, v, kernel=kernel)[:, :, order])


@few
@given(seeds, sizes, kernels, st.sampled_from([torch.float64, torch.float32, torch.bfloat16]))
def test_the_future_cannot_be_seen(seed: int, L: int, kernel: str, dtype: torch.dtype) -> None:
    q, k, v = three(seed, L, L, dtype=dtype)
    cut = 1 + seed % L
    out = regard.attend(q, k, v, mask=regard.causal(), kernel=kernel)
    k2, v2 = k.clone(), v.clone()
    k2[:, :, cut:], v2[:, :, cut:] = 99, -99
    changed = regard.attend(q, k2, v2, mask=regard.causal(), kernel=kernel)
    torch.testing.assert_close(changed[:, :, :cut], out[:, :, :cut], rtol=0, atol=1e-6 if dtype != torch.bfloat16 else 1e-2)


@few
@given(seeds, sizes, sizes, st.floats(-50, 50), kernels)
def test_a_shift_of_all_scores_moves_only_the_lse(seed: int, L: int, S: int, shift: float, kernel: str) -> None:
    q, k, v = three(seed, L, S)
    plain = regard.observe(q, k, v, kernel=kernel)
    moved = regard.observe(q, k, v, bias=torch.full((1, 1, 1, 1), shift, dtype=q.dtype), kernel=kernel)
    torch.testing.assert_close(moved.output, plain.output)
    torch.testing.assert_close(moved.lse, plain.lse + shift)


@few
@given(seeds, sizes, sizes, kernels)
def test_the_output_is_an_average_of_the_values(seed: int, L: int, S: int, kernel: str) -> None:
    q, k, v = three(seed, L, S)
    out = regard.attend(q, k, v, kernel=kernel)
    low, high = v.amin(-2, keepdim=True), v.amax(-2, keepdim=True)
    assert ((out >= low - 1e-9) & (out <= high + 1e-9)).all()
    ones = regard.attend(q, k, torch.ones_like(v), kernel=kernel)
    torch.testing.assert_close(ones, torch.ones_like(ones))


@few
@given(seeds, sizes, st.integers(2, 24), st.data())
def test_blocks_merge_by_their_lse(seed: int, L: int, S: int, data: st.DataObject) -> None:
    """Attention over two parts of the keys, joined by their lse, is attention over all: what the ring is built on."""
    cut = data.draw(st.integers(1, S - 1))
    q, k, v = three(seed, L, S)
    whole = regard.observe(q, k, v)
    parts = [regard.observe(q, k[:, :, part], v[:, :, part]) for part in (slice(0, cut), slice(cut, S))]
    lse = torch.logaddexp(parts[0].lse, parts[1].lse)
    merged = sum(part.output * (part.lse - lse).exp().unsqueeze(-1) for part in parts)
    torch.testing.assert_close(merged, whole.output)
    torch.testing.assert_close(lse, whole.lse)


@few
@given(seeds, sizes)
def test_one_scale_lowers_to_another(seed: int, N: int) -> None:
    """A score and its lowered form are the same number."""
    q, k, v = three(seed, N, N)
    torch.manual_seed(seed)
    for score in (regard.Bilinear(8, 8), regard.Bilinear(8, 8, rank=3), regard.Gaussian(0.5), regard.Dot(), regard.ScaledDot(0.2)):
        score = score.double()
        low = score.lower(q, k)
        assert low is not None
        s = low.query @ low.key.mT * low.scale
        s = s + (0 if low.key_bias is None else low.key_bias.unsqueeze(-2)) + (0 if low.row_shift is None else low.row_shift.unsqueeze(-1))
        torch.testing.assert_close(s, score(q, k))
        seen = regard.observe(q, k, v, score=score, readings=[regard.MaxLogit()])
        torch.testing.assert_close(seen.lse, torch.logsumexp(score(q, k), -1))
        torch.testing.assert_close(seen.readings["max_logit"], score(q, k).amax(-1))


def test_gaussian_lowers_only_where_rounding_allows() -> None:
    near = torch.rand(1, 1, 50, 1)
    far = near * 1000
    assert regard.Gaussian(1.0).lower(near, near) is not None
    assert regard.Gaussian(1.0).lower(far, far) is None
    truth = regard.attend(far.double(), far.double(), far.double(), score=regard.Gaussian(1.0), kernel="reference")
    for kernel in ("streamed", "auto"):
        got = regard.attend(far, far, far, score=regard.Gaussian(1.0), kernel=kernel)
        assert float((got - truth).abs().max()) < 1e-4 * float(far.max())
    centred = regard.attend(near + 1e3, near + 1e3, near, score=regard.Gaussian(2.0))
    torch.testing.assert_close(centred, regard.attend(near, near, near, score=regard.Gaussian(2.0)), rtol=1e-3, atol=1e-3)


def test_soft_cap_bounds_the_scores() -> None:
    q = torch.randn(1, 1, 9, 8) * 100
    seen = regard.observe(q, q, q, score=regard.ScaledDot(cap=3.0), readings=[regard.MaxLogit()])
    assert seen.readings["max_logit"].max() <= 3.0
    assert seen.lse.max() <= 3.0 + math.log(9)
