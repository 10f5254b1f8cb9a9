"""The same in every kernel: an empty row gives 0, lse −∞ and zero gradients; hidden keys have no effect, not even NaN."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

import regard

ALL = ["native", "streamed", "reference"]
BAD = [math.nan, math.inf, -math.inf]


def three(L: int = 6, S: int = 6, d: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    return (
        torch.randn(2, 3, L, d, generator=g).requires_grad_(),
        torch.randn(2, 3, S, d, generator=g).requires_grad_(),
        torch.randn(2, 3, S, d, generator=g).requires_grad_(),
    )


CHOICES = [regard.Softmax(), regard.Sparsemax(), regard.Entmax15(), regard.Argmax(), regard.Sample()]


@pytest.mark.parametrize(("kernel", "choice"), [("native", CHOICES[0]), *itertools.product(["streamed", "reference", "auto"], CHOICES)])
def test_empty_rows(kernel: str, choice: regard.Choice) -> None:
    q, k, v = three()
    mask = regard.padding([0, 4]) & ~regard.global_tokens([2])
    seen = regard.observe(q, k, v, mask=mask, choice=choice, kernel=kernel)
    allowed = mask.dense(6, 6).expand(2, 3, 6, 6)
    empty = ~allowed.any(-1)
    assert empty.any()
    assert not empty.all()
    assert (seen.output[empty] == 0).all()
    assert (seen.output[~empty] != 0).any()
    if isinstance(choice, regard.Softmax):
        assert seen.lse is not None
        assert (seen.lse[empty] == -math.inf).all()
        assert seen.lse[~empty].isfinite().all()
    if seen.index is not None:
        assert (seen.index[empty] == -1).all()
        assert allowed.gather(-1, seen.index[..., None].clamp(min=0))[~empty].all()
    total = seen.output.sum() + (0 if seen.log_prob is None else seen.log_prob.sum())
    grads = torch.autograd.grad(total, [q, k, v], allow_unused=True)
    for grad in grads:
        assert grad is None or grad.isfinite().all()
    if grads[0] is not None:
        assert (grads[0][empty] == 0).all()


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("which", ["key", "value", "both"])
@pytest.mark.parametrize("mask", [regard.causal(), regard.padding([3, 3]), regard.dense(torch.ones(6, 6).tril().bool())])
@pytest.mark.parametrize("kernel", [*ALL, "auto"])
def test_masked_nan_never_leaks(kernel: str, mask: regard.Mask, which: str, bad: float) -> None:
    q, k, v = three()
    clean = regard.attend(q, k, v, mask=mask, kernel=kernel)
    k2, v2 = k.detach().clone(), v.detach().clone()
    if which != "value":
        k2[:, :, 3:] = bad
    if which != "key":
        v2[:, :, 3:, 0] = bad
    k2.requires_grad_(), v2.requires_grad_()
    out = regard.attend(q, k2, v2, mask=mask, kernel=kernel)
    rows = slice(None) if isinstance(mask.tile(range(6), range(3, 6), 6, 6), str) else slice(0, 3)
    torch.testing.assert_close(out[:, :, rows], clean[:, :, rows])
    grads = torch.autograd.grad(out[:, :, rows].sum(), [q, k2, v2])
    wanted = torch.autograd.grad(clean[:, :, rows].sum(), [q, k, v])
    torch.testing.assert_close(grads[0][:, :, rows], wanted[0][:, :, rows])
    if rows == slice(None):  # nobody sees the bad keys; under a causal mask rows 3… do, and honestly spoil what they look at
        for got, want in zip(grads[1:], wanted[1:], strict=True):
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("kernel", ALL)
def test_visible_nan_is_not_hidden(kernel: str) -> None:
    q, k, v = (x.detach() for x in three())
    v[0, 0, 2, 1] = math.nan
    out = regard.attend(q, k, v, mask=regard.causal(), kernel=kernel)
    assert out[0, 0, 2:, 1].isnan().all()
    assert not out[0, 0, :2].isnan().any()
    assert not out[1].isnan().any()


@pytest.mark.parametrize(("L", "S"), [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("kernel", ["auto", "streamed", "reference"])
@pytest.mark.parametrize("choice", CHOICES)
def test_nothing_to_look_at(choice: regard.Choice, kernel: str, L: int, S: int) -> None:
    q, k, v = three(L, S)
    seen = regard.observe(q, k, v, choice=choice, mask=regard.causal(), kernel=kernel)
    assert seen.output.shape == (2, 3, L, 8)
    assert (seen.output == 0).all()
    if seen.output.requires_grad:
        seen.output.sum().backward()
    assert q.grad is None or (q.grad == 0).all()


def test_mean_attention_over_empty_batch() -> None:
    q = torch.randn(0, 3, 4, 8)
    assert regard.attend(q, q, q).shape == (0, 3, 4, 8)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 4, 3)])
def test_leading_axes(lead: tuple[int, ...]) -> None:
    q, k, v = torch.randn(*lead, 5, 8), torch.randn(*lead, 7, 8), torch.randn(*lead, 7, 4)
    want = torch.softmax(q @ k.mT / math.sqrt(8), -1) @ v
    for kernel in ("auto", "streamed", "reference"):
        torch.testing.assert_close(regard.attend(q, k, v, kernel=kernel), want)
    seen = regard.observe(q, k, v, readings=[regard.Entropy()])
    assert seen.lse is not None
    assert seen.lse.shape == (*lead, 5)
    assert seen.readings["entropy"].shape == (*lead, 5)


def test_broadcast_keys() -> None:
    q, k = torch.randn(4, 2, 5, 8), torch.randn(1, 1, 7, 8, requires_grad=True)
    want = torch.softmax(q @ k.mT / math.sqrt(8), -1) @ k
    got = regard.attend(q, k, k)
    torch.testing.assert_close(got, want)
    (grad,) = torch.autograd.grad(got.sum(), k)
    (true,) = torch.autograd.grad(want.sum(), k)
    torch.testing.assert_close(grad, true)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_what_sdpa_does(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(1, 2, 9, 8) for _ in range(3))
    with torch.autocast("cpu", dtype=dtype):
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        for mask in (None, regard.everything(), regard.causal()):
            got = regard.attend(q, k, v, mask=mask)
            assert got.dtype == want.dtype == dtype
        torch.testing.assert_close(regard.attend(q, k, v), want, rtol=2e-2, atol=2e-2)
        assert regard.attend(q, k, v, score=regard.Gaussian()).dtype == dtype
        assert regard.attend(*(x.double() for x in (q, k, v))).dtype == torch.float64


def test_dropout_is_the_same_in_every_kernel_and_drops_what_it_says() -> None:
    q, k = torch.zeros(2, 2, 64, 4), torch.zeros(2, 2, 300, 4)
    v = torch.eye(300).expand(2, 2, 300, 300)
    outs = [
        regard.attend(q, k, v, dropout=0.25, generator=torch.Generator().manual_seed(5), kernel=kernel)
        for kernel in ("streamed", "reference", "auto")
    ]
    torch.testing.assert_close(outs[0], outs[1])
    torch.testing.assert_close(outs[0], outs[2])
    kept = (outs[0] > 0).double().mean()
    assert abs(float(kept) - 0.75) < 0.005
    torch.testing.assert_close(outs[0].sum(-1).mean(), torch.tensor(1.0), rtol=0.01, atol=0)
    other = regard.attend(q, k, v, dropout=0.25, generator=torch.Generator().manual_seed(6))
    assert ((other > 0) != (outs[0] > 0)).double().mean() > 0.3


def test_tiles_of_every_size_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, dropout and draws do not depend on how the pattern is cut."""
    from regard.kernels import tiles

    q, k, v = (torch.randn(2, 3, 70, 8, dtype=torch.float64) for _ in range(3))
    seen = []
    for budget in (1 << 20, 6 * 300, 6 * 16 * 16):
        monkeypatch.setattr(tiles.Tiles.__init__, "__defaults__", (budget,))
        for choice in (regard.Softmax(), regard.Sample(), regard.Entmax15()):
            options = {"dropout": 0.2} if not choice.hard else {}
            generator = torch.Generator().manual_seed(1)
            out = regard.observe(q, k, v, mask=regard.causal(), choice=choice, kernel="streamed", generator=generator, **options)
            seen.append(out.output)
    for i in range(3):
        torch.testing.assert_close(seen[i], seen[i + 3])
        torch.testing.assert_close(seen[i], seen[i + 6])
