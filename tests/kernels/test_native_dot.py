"""The compiled kernels against the dense float64 reference, on every instruction set this machine runs."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from compiled_kernels import SETS, assert_native_agrees, compiled, random_inputs
from regard import Argmax, Sample, Softmax, attend, causal, documents, global_tokens, observe, padding, window
from regard.kernels.native import instruction_set
from regard.kernels.native.dot import DotArguments
from regard.kernels.native.operators import OPERATORS
from regard.masks import Mask


def close(q: Tensor, k: Tensor, v: Tensor, choice: Softmax | None = None, largest: float | None = None, **options: Any) -> None:
    """`assert_native_agrees` for a dot product; largest: the largest score, computed from q and k if it is left out."""
    if largest is None:
        largest = float((q.double() @ k.double().repeat_interleave(q.shape[1] // k.shape[1], 1).mT).abs().max()) / math.sqrt(q.shape[-1])
    assert_native_agrees(q, k, v, largest, choice=Softmax() if choice is None else choice, **options)


MASKS = {
    "none": None,
    "causal": causal(),
    "window": causal() & window(9, 0),
    "longformer": causal() & window(5, 0) | global_tokens([0, 17]),
    "documents": documents(torch.tensor([[0] * 30 + [1] * 41 + [2] * 6])),
    "padding": padding(torch.tensor([77, 0])),
}


def test_the_widest_set_is_the_default() -> None:
    assert instruction_set() == SETS[-1]
    with pytest.raises(ValueError, match="instruction_sets"):
        compiled.force_instruction_set("mmx")


def test_one_query_by_hand(isa: str) -> None:
    """Scores ln 1 and ln 3: weights ¼ and ¾."""
    q = torch.ones(1, 1, 1, 1)
    k = torch.tensor([[[[0.0], [math.log(3)]]]])
    v = torch.tensor([[[[0.0, 4.0], [8.0, 0.0]]]])
    seen = observe(q, k, v, kernel="native")
    torch.testing.assert_close(seen.output, torch.tensor([[[[6.0, 1.0]]]]))
    assert seen.lse is not None
    torch.testing.assert_close(seen.lse, torch.tensor([[[math.log(4)]]]))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("heads", "keys", "d", "dv"), [(4, 4, 64, 64), (6, 2, 20, 37)])
def test_forward(isa: str, mask: str, heads: int, keys: int, d: int, dv: int) -> None:
    close(*random_inputs(2, heads, keys, 77, 77, d, dv), mask=MASKS[mask])


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_forward_over_several_blocks(isa: str, mask: str) -> None:
    close(*random_inputs(1, 2, 1, 130, 1300, 16, 8), mask=MASKS[mask])


@pytest.mark.parametrize("moves", ["early", "late", "rising", "falling", "now and then"])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_a_maximum_that_moves(isa: str, moves: str, mask: str) -> None:
    """The running maximum may be off by a little between blocks of keys, and must follow when it is off by much."""
    S = 2600
    q, k, v = random_inputs(1, 2, 1, 44, S, 8, 8, seed=5)
    far = torch.zeros(S)
    far[{"early": 3, "late": S - 3}.get(moves, 0)] = 90 if moves in ("early", "late") else 0
    if moves in ("rising", "falling"):
        far = torch.linspace(-60, 60, S) * (1 if moves == "rising" else -1)
    if moves == "now and then":
        far[700::900] = torch.tensor([4.0, 30.0, 45.0])
    q[..., 0] = math.sqrt(8)  # the first column of a key is then what it adds to every score
    k[..., 0] = far
    close(q, k, v, mask=MASKS[mask])


@pytest.mark.parametrize("mask", [None, causal(), padding(torch.tensor([1700, 3])), causal() & window(700, 0) | global_tokens([3])])
def test_a_few_queries_against_many_keys(isa: str, mask: Mask | None) -> None:
    close(*random_inputs(2, 6, 2, 3, 2000, 16, 40), mask=mask)


def test_queries_without_keys(isa: str) -> None:
    """Aligned at the end, the first 40 of 60 queries see none of 20 keys."""
    close(*random_inputs(1, 2, 2, 60, 20, 8, 8), mask=causal())


def test_large_scores(isa: str) -> None:
    q, k, v = random_inputs(1, 2, 2, 33, 90, 64, 64)
    close(100 * q, k, v, mask=None)


def test_uniform_rows_keep_their_digits(isa: str) -> None:
    """A long row of equal weights and positive values: a running sum in float32 would drift."""
    _, k, v = random_inputs(1, 1, 1, 1, 40_000, 4, 16)
    close(torch.zeros(1, 1, 3, 4), k, v.abs(), largest=0.0)


def test_strides(isa: str) -> None:
    """One fused projection, cut into heads by views; and a transposed, non-unit last stride."""
    x = torch.randn(2, 50, 3, 4, 32, generator=torch.Generator().manual_seed(1)).permute(2, 0, 3, 1, 4)
    q, k, v = x
    close(q, k, v, mask=causal())
    assert attend(q, k, v, kernel="native").transpose(1, 2).is_contiguous()
    close(*(y.mT.contiguous().mT for y in (q, k, v)), mask=causal())  # type: ignore[arg-type]


def test_sinks_temperature_and_cap(isa: str) -> None:
    q, k, v = random_inputs(2, 3, 3, 40, 50, 16, 16)
    choice = Softmax(temperature=0.6, sinks=torch.tensor([0.3, -1.0, 5.0]))
    close(q, k, v, choice=choice, mask=causal(), largest=20.0)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2)),
    st.tuples(st.integers(1, 70), st.integers(1, 70), st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from(SETS),
    st.integers(0, 2**20),
)
def test_any_shape_and_any_ranges(heads: tuple[int, int, int], sizes: tuple[int, int, int, int], isa: str, seed: int) -> None:
    (B, k, group), (L, S, d, dv) = heads, sizes
    g = torch.Generator().manual_seed(seed)
    q, key, v = random_inputs(B, k * group, k, L, S, d, dv, seed)
    allowed = torch.rand(L, S, generator=g) < torch.rand((), generator=g)
    compiled.force_instruction_set(isa)
    try:
        from regard import dense

        close(q, key, v, mask=dense(allowed))
    finally:
        compiled.force_instruction_set(None)


def gradients(q: Tensor, k: Tensor, v: Tensor, kernel: str, dtype: torch.dtype, mask: Mask | None, sinks: Tensor | None) -> list[Tensor]:
    leaves = [x.detach().to(dtype).requires_grad_() for x in (q, k, v, *([] if sinks is None else [sinks]))]
    choice = Softmax() if sinks is None else Softmax(sinks=leaves[3])
    seen = observe(*leaves[:3], choice=choice, mask=mask, kernel=kernel)
    g = torch.Generator().manual_seed(9)
    d_out, d_lse = torch.randn(seen.output.shape, generator=g).to(dtype), torch.randn(q.shape[:3], generator=g).to(dtype)
    assert seen.lse is not None
    finite = seen.lse > -math.inf
    return list(torch.autograd.grad((seen.output * d_out).sum() + (seen.lse[finite] * d_lse[finite]).sum(), leaves))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("sinks", [False, True])
def test_gradients(isa: str, mask: str, sinks: bool) -> None:
    q, k, v = random_inputs(2, 6, 2, 77, 77, 20, 37)
    sink = torch.tensor([0.3, -1.0, 5.0, 0.0, 1.0, -9.0]) if sinks else None
    got = gradients(q, k, v, "native", torch.float32, MASKS[mask], sink)
    want = gradients(q, k, v, "reference", torch.float64, MASKS[mask], sink)
    for a, b in zip(got, want, strict=True):
        assert (a - b).abs().max() <= 4e-6 * b.abs().max()


def test_gradients_over_several_blocks_and_threads(isa: str) -> None:
    q, k, v = random_inputs(1, 2, 1, 300, 700, 16, 24)
    want = gradients(q, k, v, "reference", torch.float64, causal(), None)
    threads = torch.get_num_threads()
    results = []
    try:
        for n in (1, 3):
            torch.set_num_threads(n)
            results.append(gradients(q, k, v, "native", torch.float32, causal(), None))
    finally:
        torch.set_num_threads(threads)
    for a, b, c in zip(*results, want, strict=True):
        assert torch.equal(a, b)
        assert (a - c).abs().max() <= 4e-6 * c.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("masked", ["padding", "causal"])
def test_many_short_sequences(isa: str, dtype: torch.dtype, masked: str) -> None:
    """Heads inside positions, as a layer has them; one thread packs each head where it is read, many threads all of them before."""
    g = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(9, n, h, 24, generator=g).to(dtype).transpose(1, 2) for n, h in ((13, 4), (21, 2), (21, 2)))
    mask = causal() if masked == "causal" else padding(torch.tensor([21, 1, 0, 16, 17, 5, 21, 8, 12]))
    k[3, :, 20:], v[3, :, 20:] = (math.nan, math.inf) if masked == "padding" else (1.0, 1.0)
    clean = [x.double().nan_to_num(0, 0, 0) for x in (q, k, v)]
    want = [attend(*clean, mask=mask, kernel="reference"), *gradients(*clean, "reference", torch.float64, mask, None)]
    threads = torch.get_num_threads()
    results = []
    try:
        for n in (1, 5):
            torch.set_num_threads(n)
            results.append([attend(q, k, v, mask=mask, kernel="native"), *gradients(q, k, v, "native", dtype, mask, None)])
    finally:
        torch.set_num_threads(threads)
    for a, b, c in zip(*results, want, strict=True):
        assert torch.equal(a, b)
        assert (a.double() - c).abs().max() <= (4e-6 if dtype == torch.float32 else 2**-6) * c.abs().max()


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_hidden_poison_does_not_leak(isa: str, poison: float) -> None:
    """Rows before 25 do not see keys from 25 on: nothing there may reach their output or anybody's gradient."""
    q, k, v = random_inputs(1, 1, 1, 40, 40, 32, 48)
    bad_k, bad_v, bad_q = k.clone(), v.clone(), q.clone()
    bad_k[..., 25, 3], bad_v[..., 30, 1], bad_q[..., 33, 0] = poison, poison, poison
    clean, dirty = (attend(*x, mask=causal(), kernel="native")[:, :, :25] for x in ((q, k, v), (bad_q, bad_k, bad_v)))
    assert torch.equal(clean, dirty)
    assert attend(bad_q, bad_k, bad_v, mask=causal(), kernel="native")[:, :, 33].isnan().all()
    rows = [[0, i + 1] if i < 25 else [0, 0] for i in range(40)]
    from regard import dense

    hidden = dense(torch.tensor([[a <= j < b for j in range(40)] for a, b in rows]))
    got = gradients(bad_q, bad_k, bad_v, "native", torch.float32, hidden, None)
    want = gradients(q, k, v, "native", torch.float32, hidden, None)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("heads", "keys", "d", "dv"), [(4, 4, 64, 64), (6, 2, 21, 37)])
def test_half_precision(isa: str, dtype: torch.dtype, mask: str, heads: int, keys: int, d: int, dv: int) -> None:
    """Exact inputs, float32 sums; the weights may be rounded to bfloat16 (2^-9 each) and the output is (2^-9 again)."""
    q, k, v = (x.to(dtype) for x in random_inputs(2, heads, keys, 77, 77, d, dv))
    got = observe(q, k, v, mask=MASKS[mask], kernel="native")
    want = observe(q.double(), k.double(), v.double(), mask=MASKS[mask], kernel="reference")
    weight = attend(q.double(), k.double(), v.double().abs(), mask=MASKS[mask], kernel="reference")
    assert got.output.dtype == dtype
    assert ((got.output.double() - want.output).abs() <= 2**-7 * weight).all()
    assert got.lse is not None
    assert want.lse is not None
    seen = want.lse > -math.inf
    assert ((got.lse - want.lse)[seen].abs() <= 1e-5).all()
    assert (got.output[~seen] == 0).all()


def test_every_float16_is_converted_exactly(isa: str) -> None:
    """All 65,536 of them, subnormal and infinite ones too, through a value that one key of weight 1 passes on."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.float16).view(1, 1, 1, -1)
    one = torch.ones(1, 1, 1, 8, dtype=torch.float16)
    got = attend(one, one, bits, kernel="native")
    assert torch.equal(got.isnan(), bits.isnan())
    assert torch.equal(got[~got.isnan()], bits[~bits.isnan()])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gradients_and_hidden_poison(isa: str, dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in random_inputs(1, 4, 2, 90, 90, 16, 16))
    got = gradients(q, k, v, "native", dtype, causal(), None)
    want = gradients(q, k, v, "reference", torch.float64, causal(), None)
    for a, b in zip(got, want, strict=True):
        assert (a.double() - b).abs().max() <= 2**-6 * b.abs().max()
    bad = v.clone()
    bad[..., 51:, :] = math.nan
    assert torch.equal(
        attend(q, k, bad, mask=causal(), kernel="native")[:, :, :51], attend(q, k, v, mask=causal(), kernel="native")[:, :, :51]
    )


@pytest.mark.parametrize(("L", "S", "mask"), [(40, 90, None), (70, 70, causal()), (3, 600, causal())])
def test_dropout_is_the_shared_hash(isa: str, L: int, S: int, mask: Mask | None) -> None:
    """The same seed drops the same weights as the dense reference does, forward and backward."""
    results = []
    for kernel, dtype in (("native", torch.float32), ("reference", torch.float64)):
        leaves = [x.to(dtype).requires_grad_() for x in random_inputs(2, 4, 2, L, S, 24, 16)]
        out = attend(*leaves, mask=mask, dropout=0.3, generator=torch.Generator().manual_seed(3), kernel=kernel)
        grads = torch.autograd.grad((out * torch.randn(out.shape, generator=torch.Generator().manual_seed(4)).to(dtype)).sum(), leaves)
        results.append([out, *grads])
    for a, b in zip(*results, strict=True):
        assert (a - b).abs().max() <= 4e-6 * b.abs().max()


@pytest.mark.parametrize("choice", [Argmax(), Sample(), Sample(straight_through=True)])
@pytest.mark.parametrize("mask", ["none", "causal", "longformer", "padding"])
def test_hard_choices(isa: str, choice: Argmax | Sample, mask: str) -> None:
    """The same picks as the dense float64 reference (no ties in random scores), and for a sample its log-probability and gradients."""
    results = []
    for kernel, dtype in (("native", torch.float32), ("reference", torch.float64)):
        leaves = [x.to(dtype).requires_grad_() for x in random_inputs(2, 4, 2, 77, 77, 24, 16)]
        seen = observe(*leaves, mask=MASKS[mask], choice=choice, generator=torch.Generator().manual_seed(3), kernel=kernel)
        total = seen.output.sum() + (0 if seen.log_prob is None else (seen.log_prob * torch.arange(77)).sum())
        results.append((seen, torch.autograd.grad(total, leaves, allow_unused=True)))
    (got, got_grads), (want, want_grads) = results
    assert got.index is not None
    assert want.index is not None
    assert torch.equal(got.index, want.index)
    torch.testing.assert_close(got.output.double(), want.output, rtol=1e-5, atol=1e-5)
    if want.log_prob is not None:
        assert got.log_prob is not None
        torch.testing.assert_close(got.log_prob.double(), want.log_prob, rtol=1e-5, atol=1e-5)
    for a, b in zip(got_grads, want_grads, strict=True):
        if b is not None:
            assert a is not None
            assert (a - b).abs().max() <= 1e-5 * max(1.0, float(b.abs().max()))


def test_hidden_keys_in_a_panel_all_rows_share(isa: str) -> None:
    """Padding hides the same keys from every row: their NaN must not meet the zeros of the gradient's products."""
    q, k, v = random_inputs(1, 2, 2, 40, 40, 16, 16)
    mask = padding(torch.tensor([25]))
    want = gradients(q, k, v, "native", torch.float32, mask, None)
    k[..., 25:, :], v[..., 25:, :] = math.nan, math.inf
    for a, b in zip(gradients(q, k, v, "native", torch.float32, mask, None), want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_second_derivatives_agree_without_a_warning() -> None:
    q, k, v = (x.requires_grad_() for x in random_inputs(1, 1, 1, 5, 5, 4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (grad,) = torch.autograd.grad(attend(q, k, v, kernel="native").square().sum(), q, create_graph=True)
        (second,) = torch.autograd.grad(grad.square().sum(), k)
    q2, k2, v2 = (x.detach().double().requires_grad_() for x in (q, k, v))
    (grad2,) = torch.autograd.grad(attend(q2, k2, v2, kernel="reference").square().sum(), q2, create_graph=True)
    (want,) = torch.autograd.grad(grad2.square().sum(), k2)
    torch.testing.assert_close(second, want.float(), rtol=1e-4, atol=1e-5)


def test_operators() -> None:
    q, k, v = (x.requires_grad_() for x in random_inputs(1, 2, 2, 20, 20, 16, 8))
    bias, sinks = torch.randn(1, 2, 20, requires_grad=True), torch.randn(2, requires_grad=True)
    spans = causal().spans(20, 20)
    diagonals, betas = torch.randn(2, 39, requires_grad=True), torch.rand(2, requires_grad=True)
    operator = OPERATORS[DotArguments].forward
    torch.library.opcheck(operator, (q, k, v, bias, sinks, None, None, spans, 0.25, 5.0, 1.2))
    torch.library.opcheck(operator, (q, k, v, None, None, None, None, None, 0.25, 0.0, 1.0))
    torch.library.opcheck(operator, (q, k, v, None, None, diagonals, betas, spans, 0.25, 0.0, 1.0, 0.0, 0, 1, 1))
    torch.library.opcheck(operator, (q, k, v, None, None, diagonals, None, None, 0.25, 0.0, 1.0, 0.0, 0, 1, 0, 1))


def test_compile() -> None:
    q, k, v = (x.requires_grad_() for x in random_inputs(1, 2, 2, 20, 20, 16, 16))
    compiled = torch.compile(lambda q, k, v: attend(q, k, v, kernel="native").sin(), backend="aot_eager", fullgraph=True)
    got = torch.autograd.grad(compiled(q, k, v).sum(), (q, k, v))
    want = torch.autograd.grad(attend(q, k, v, kernel="native").sin().sum(), (q, k, v))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
