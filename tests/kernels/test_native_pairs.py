"""The compiled additive and Gaussian kernels against the dense float64 reference, on every instruction set this machine runs."""

from __future__ import annotations

import copy
import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from compiled_kernels import EPS, SETS, assert_native_agrees, compiled, random_inputs
from regard import Additive, Gaussian, Softmax, attend, causal, dense, documents, explain, global_tokens, observe, padding, window
from regard.kernels.native.operators import OPERATORS
from regard.kernels.native.pairs import AdditiveArguments, GaussianArguments
from regard.masks import Mask
from regard.scores import Score


def pairwise(score: Gaussian) -> Gaussian:
    """The same score, never turned into a dot product: the difference is what the kernel takes."""
    score.lower = lambda query, key: None  # type: ignore[method-assign]
    return score


def score_of(kind: str, d: int) -> Score:
    """An additive score whose projections change nothing (the kernel's own arithmetic is what is tested), or a Gaussian."""
    if kind == "gaussian":
        return pairwise(Gaussian(torch.linspace(0.5, 1.0, d)))
    score = Additive(d, d, hidden=d)
    with torch.no_grad():
        score.U.copy_(torch.eye(d))
        score.W.copy_(torch.eye(d))
        score.v.copy_(torch.randn(d, generator=torch.Generator().manual_seed(d)) / math.sqrt(d))
    return score


def close(score: Score, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None, choice: Softmax | None = None) -> None:
    """`assert_native_agrees` for a score that is not a dot product."""
    score64 = copy.deepcopy(score).double()
    with torch.no_grad():
        visible = torch.ones(1, dtype=torch.bool) if mask is None else mask.dense(q.shape[2], k.shape[2])
        scores = score64(q.double(), k.double().repeat_interleave(q.shape[1] // k.shape[1], 1))
        largest = float(scores.masked_fill(~visible, 0).abs().nan_to_num(0, 0).max())
    choice = Softmax() if choice is None else choice
    assert_native_agrees(q, k, v, largest, {"score": score64}, score=score, mask=mask, choice=choice)


MASKS = {
    "none": None,
    "causal": causal(),
    "window": causal() & window(9, 0),
    "longformer": causal() & window(5, 0) | global_tokens([0, 17]),
    "documents": documents(torch.tensor([[0] * 30 + [1] * 41 + [2] * 6])),
    "padding": padding(torch.tensor([77, 0])),
}
KINDS = ("additive", "gaussian")


def test_one_query_by_hand(isa: str) -> None:
    """tanh(±½ ln 2) = ±⅓, times 3·½ln 3: scores ±½ ln 3, weights ¼ and ¾."""
    score = Additive(1, 1, hidden=1)
    with torch.no_grad():
        for parameter, value in ((score.U, 1.0), (score.W, 1.0), (score.v, 1.5 * math.log(3))):
            parameter.fill_(value)
    k = torch.tensor([[-0.5 * math.log(2)], [0.5 * math.log(2)]])
    v = torch.tensor([[0.0, 4.0], [8.0, 0.0]])
    for q in (torch.zeros(1, 1), torch.zeros(9, 1)):  # one alone, and a tile
        torch.testing.assert_close(attend(q, k, v, score=score, kernel="native"), torch.tensor([[6.0, 1.0]]).expand(len(q), 2))


def test_a_gaussian_by_hand(isa: str) -> None:
    """At distance √(2 ln 3) the weight is a third of that at distance 0."""
    k = torch.tensor([[0.0], [math.sqrt(2 * math.log(3))], [1e4]])
    got = attend(torch.zeros(1, 1), k, torch.tensor([[8.0], [0.0], [5.0]]), score=Gaussian(), kernel="native")
    torch.testing.assert_close(got, torch.tensor([[6.0]]))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("heads", "keys", "d", "dv"), [(2, 2, 64, 32), (6, 2, 20, 37), (2, 1, 5, 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_forward(isa: str, kind: str, mask: str, heads: int, keys: int, d: int, dv: int) -> None:
    close(score_of(kind, d), *random_inputs(2, heads, keys, 77, 77, d, dv), mask=MASKS[mask])


@pytest.mark.parametrize("L", [1, 2, 4])
@pytest.mark.parametrize("mask", [None, padding(torch.tensor([900, 0, 20])), window(40, 600), ~window(100, 500)])
@pytest.mark.parametrize("kind", KINDS)
def test_few_queries(isa: str, kind: str, mask: Mask | None, L: int) -> None:
    close(score_of(kind, 24), *random_inputs(3, 2, 1, L, 1300, 24, 10), mask=mask)


@pytest.mark.parametrize("kind", KINDS)
def test_over_several_blocks(isa: str, kind: str) -> None:
    close(score_of(kind, 16), *random_inputs(1, 2, 1, 130, 1300, 16, 8), mask=causal())


@pytest.mark.parametrize("kind", KINDS)
def test_queries_without_keys(isa: str, kind: str) -> None:
    """Aligned at the end, the first 40 of 60 queries see none of 20 keys."""
    close(score_of(kind, 8), *random_inputs(1, 2, 2, 60, 20, 8, 8), mask=causal())


@pytest.mark.parametrize("L", [3, 40])
def test_numbers_too_large_for_their_exponentials(isa: str, L: int) -> None:
    """±60 and ∓60 meet: each exponential overflows alone, the sum is small."""
    q, k, v = random_inputs(1, 1, 1, L, 70, 24, 8)
    q[..., ::3] += 60.0
    k[..., ::3] -= 60.0
    q[..., 1], k[..., 5, 2] = 1e30, -1e30
    close(score_of("additive", 24), q, k, v)


def test_tanh_is_right_to_2e_7(isa: str) -> None:
    """One hidden unit of weight 1 and one key: the lse is tanh(q + k) and the logarithm of one weight, along both paths."""
    score = score_of("additive", 1)
    with torch.no_grad():
        score.v.fill_(1.0)
    x = torch.linspace(-12, 12, 40_001)
    for shift in (0.0, 9.0, -17.0):
        for q in (x.view(1, 1, -1, 1), x.view(-1, 1, 1, 1)):
            k = torch.full((len(q), 1, 1, 1), shift)
            lse = observe(q - shift, k, k, score=score, kernel="native").lse
            zero = observe(k * 0, k * 0, k, score=score, kernel="native").lse
            assert lse is not None
            assert zero is not None
            result = lse.flatten().double() - zero.flatten()[0]
            assert (result - ((x - shift).double() + shift).tanh()).abs().max() <= 2e-7


@pytest.mark.parametrize("kind", KINDS)
def test_strides(isa: str, kind: str) -> None:
    q, k, v = random_inputs(2, 4, 4, 50, 50, 32, 32)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    close(score_of(kind, 32), strided[0], strided[1], strided[2], mask=causal())
    q, k, v = (x.mT.contiguous().mT for x in (q, k, v))
    assert torch.equal(
        GaussianArguments(q, k, v, None, None, 1.0).forward()[0],
        GaussianArguments(q.contiguous(), k.contiguous(), v.contiguous(), None, None, 1.0).forward()[0],
    )


@pytest.mark.parametrize("L", [2, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_sinks_and_temperature(isa: str, kind: str, L: int) -> None:
    q, k, v = random_inputs(2, 3, 3, L, 50, 16, 16)
    close(score_of(kind, 16), q, k, v, mask=causal(), choice=Softmax(temperature=0.6, sinks=torch.tensor([0.3, -1.0, 5.0])))


def test_uniform_rows_keep_their_digits(isa: str) -> None:
    """A long row of equal weights and positive values: a running sum in float32 would drift."""
    v = torch.rand(1, 1, 40_000, 3, generator=torch.Generator().manual_seed(0))
    for score in (score_of("additive", 4), score_of("gaussian", 4)):
        for L in (1, 9):
            out = attend(
                torch.zeros(1, 1, L, 4),
                torch.zeros(1, 1, 40_000, 4),
                v,
                score=score,
                kernel="native" if score.__class__ is Additive else "auto",
            )
            assert (out - v.double().mean(2, keepdim=True)).abs().max() <= 4 * EPS


def test_a_gaussian_far_from_the_origin_keeps_its_digits(isa: str) -> None:
    """At w·range 1,000 the expanded square would be off by 4e-3."""
    g = torch.Generator().manual_seed(0)
    k = torch.rand(2_000, 2, generator=g) * 1_000
    q = k[:50] + 0.3
    got = attend(q, k, k.sin(), score=Gaussian(), kernel="native")
    want = attend(q.double(), k.double(), k.sin().double(), score=Gaussian().double(), kernel="reference")
    assert (got - want).abs().max() <= 2e-5  # the inputs' own rounding, 1000·eps, times the distances


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2)),
    st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from(SETS),
    st.sampled_from(KINDS),
    st.integers(0, 2**20),
)
def test_any_shape_and_any_ranges(heads: tuple[int, int, int], sizes: tuple[int, int, int, int], isa: str, kind: str, seed: int) -> None:
    (B, k, group), (L, S, d, dv) = heads, sizes
    g = torch.Generator().manual_seed(seed)
    allowed = torch.rand(L, S, generator=g) < torch.rand((), generator=g)
    compiled.force_instruction_set(isa)
    try:
        q, key, v = random_inputs(B, k * group, k, L, S, d, dv, seed)
        close(score_of(kind, d), q, key, v, mask=dense(allowed))
    finally:
        compiled.force_instruction_set(None)


def gradients(
    score: Score, q: Tensor, k: Tensor, v: Tensor, kernel: str, dtype: torch.dtype, mask: Mask | None, sinks: Tensor | None = None
) -> list[Tensor]:
    score = copy.deepcopy(score).to(dtype)
    leaves = [x.detach().to(dtype).requires_grad_() for x in (q, k, v, *([] if sinks is None else [sinks]))]
    choice = Softmax() if sinks is None else Softmax(sinks=leaves[3])
    seen = observe(*leaves[:3], score=score, choice=choice, mask=mask, kernel=kernel)
    g = torch.Generator().manual_seed(9)
    d_out, d_lse = torch.randn(seen.output.shape, generator=g).to(dtype), torch.randn(q.shape[:3], generator=g).to(dtype)
    assert seen.lse is not None
    finite = seen.lse > -math.inf
    leaves += list(score.parameters())
    return list(torch.autograd.grad((seen.output * d_out).sum() + (seen.lse[finite] * d_lse[finite]).sum(), leaves))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(isa: str, kind: str, mask: str, sinks: bool) -> None:
    q, k, v = random_inputs(2, 6, 2, 77, 77, 20, 37)
    score = Additive(20, 20, hidden=24) if kind == "additive" else pairwise(Gaussian(torch.linspace(0.5, 1.0, 20), learn=True))
    sink = torch.tensor([0.3, -1.0, 2.0, 0.0, 1.0, -9.0]) if sinks else None
    got = gradients(score, q, k, v, "native", torch.float32, MASKS[mask], sink)
    want = gradients(score, q, k, v, "reference", torch.float64, MASKS[mask], sink)
    for a, b in zip(got, want, strict=True):
        assert (a - b).abs().max() <= 3e-5 * b.abs().max()


@pytest.mark.parametrize("L", [1, 3, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_over_several_blocks_and_threads(isa: str, kind: str, L: int) -> None:
    q, k, v = random_inputs(1, 2, 1, L, 700, 16, 24)
    score = score_of(kind, 16)
    want = gradients(score, q, k, v, "reference", torch.float64, causal())
    threads = torch.get_num_threads()
    results = []
    try:
        for n in (1, 3):
            torch.set_num_threads(n)
            results.append(gradients(score, q, k, v, "native", torch.float32, causal()))
    finally:
        torch.set_num_threads(threads)
    for a, b, c in zip(*results, want, strict=True):
        assert torch.equal(a, b)
        assert (a - c).abs().max() <= 3e-5 * c.abs().max()


@pytest.mark.parametrize("rows", [1, 4, 40])
@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dv", [3, 48])
def test_hidden_poison_does_not_leak(isa: str, kind: str, poison: float, rows: int, dv: int) -> None:
    """Rows before 25 do not see keys from 25 on: nothing there may reach their output or anybody's gradient."""
    q, k, v = random_inputs(1, 1, 1, rows, 40, 32, dv)
    bad_k, bad_v, bad_q = k.clone(), v.clone(), q.clone()
    bad_k[..., 25, 3], bad_v[..., 30, 1] = poison, poison
    hidden = torch.arange(40) < torch.arange(1, rows + 1).unsqueeze(1)
    if rows > 33:
        bad_q[..., 33, 0] = math.nan
        hidden[25:] = False
    score = score_of(kind, 32)
    clean, dirty = (attend(*x, score=score, mask=dense(hidden), kernel="native") for x in ((q, k, v), (bad_q, bad_k, bad_v)))
    torch.testing.assert_close(dirty, clean, rtol=1e-5, atol=1e-6)  # poisoned panels take another path, not other numbers
    got = gradients(score, bad_q, bad_k, bad_v, "native", torch.float32, dense(hidden))
    want = gradients(score, q, k, v, "native", torch.float32, dense(hidden))
    for a, b in zip(got[:3] + got[5:], want[:3] + want[5:], strict=True):  # W's own gradient is a plain product with the poisoned keys
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_visible_nan_is_not_hidden(isa: str) -> None:
    for kind in KINDS:
        for L in (1, 12):
            q, k, v = random_inputs(1, 1, 1, L, 40, 8, 8)
            k[..., 7, 2] = math.nan
            assert attend(q, k, v, score=score_of(kind, 8), kernel="native").isnan().all()


def test_second_derivatives_agree_without_a_warning() -> None:
    score = Additive(4, 4, hidden=6)
    q, k, v = (x.requires_grad_() for x in random_inputs(1, 1, 1, 5, 5, 4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (grad,) = torch.autograd.grad(attend(q, k, v, score=score, kernel="native").square().sum(), q, create_graph=True)
        second = torch.autograd.grad(grad.square().sum(), (k, score.v))
    twin = copy.deepcopy(score).double()
    q2, k2, v2 = (x.detach().double().requires_grad_() for x in (q, k, v))
    (grad2,) = torch.autograd.grad(attend(q2, k2, v2, score=twin, kernel="reference").square().sum(), q2, create_graph=True)
    for a, b in zip(second, torch.autograd.grad(grad2.square().sum(), (k2, twin.v)), strict=True):
        torch.testing.assert_close(a, b.float(), rtol=1e-4, atol=1e-5)


def test_auto_picks_them() -> None:
    q, k, v = random_inputs(1, 1, 1, 30, 30, 8, 8)
    assert explain(q, k, v, score=Additive(8, 8, hidden=16), mask=causal()).kernel == "native"
    assert explain(q * 100, k, v, score=Gaussian()).kernel == "native"


def test_operators() -> None:
    q, k, v = (x.requires_grad_() for x in random_inputs(1, 2, 2, 20, 20, 16, 8))
    vector, sinks = torch.randn(16, requires_grad=True), torch.randn(2, requires_grad=True)
    spans = causal().spans(20, 20)
    torch.library.opcheck(OPERATORS[AdditiveArguments].forward, (q, k, v, vector, sinks, spans, 1.2))
    torch.library.opcheck(OPERATORS[GaussianArguments].forward, (q, k, v, None, None, 1.0))


def test_compile() -> None:
    score: nn.Module = Additive(16, 16, hidden=8)
    q, k, v = (x.requires_grad_() for x in random_inputs(1, 2, 2, 20, 20, 16, 16))
    inputs = (q, k, v, *score.parameters())

    def work(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, score=score, kernel="native").sin()  # type: ignore[arg-type]

    compiled = torch.compile(work, backend="aot_eager", fullgraph=True)
    got = torch.autograd.grad(compiled(q, k, v).sum(), inputs)
    for a, b in zip(got, torch.autograd.grad(work(q, k, v).sum(), inputs), strict=True):
        torch.testing.assert_close(a, b)
