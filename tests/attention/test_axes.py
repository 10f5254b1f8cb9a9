"""Masks and biases of any number of axes are read as torch's SDPA reads an `attn_mask`: they broadcast from the right."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import regard

LEADS = [(3, 3), (2, 3), (4,), (2, 3, 2), (), (2, 2, 3, 2)]


def tensors(lead: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(len(lead))
    return torch.randn(*lead, 5, 4, generator=g), torch.randn(*lead, 6, 4, generator=g), torch.randn(*lead, 6, 4, generator=g)


@pytest.mark.parametrize("kernel", ["auto", "streamed", "reference"])
@pytest.mark.parametrize("lead", LEADS, ids=str)
def test_every_shape_that_broadcasts_means_what_it_means_to_sdpa(lead: tuple[int, ...], kernel: str) -> None:
    q, k, v = tensors(lead)
    full = (*lead, 5, 6)
    for dims in range(2, len(full) + 1):
        for ones in itertools.product([False, True], repeat=dims):
            shape = tuple(1 if one else n for one, n in zip(ones, full[-dims:], strict=True))
            visible = torch.rand(shape) < 0.6
            visible[..., 0] = True
            added = torch.randn(shape).masked_fill(~visible, -torch.inf)
            got = regard.attend(q, k, v, mask=regard.from_sdpa(visible), kernel=kernel)
            torch.testing.assert_close(got, scaled_dot_product_attention(q, k, v, visible))
            mask, bias = regard.from_additive(added)
            got = regard.attend(q, k, v, mask=~~mask & regard.everything() | ~regard.everything(), bias=bias, kernel=kernel)
            torch.testing.assert_close(got, scaled_dot_product_attention(q, k, v, added))


def test_gradients_of_a_bias_of_three_axes() -> None:
    for lead in ((3, 3), (4,)):
        q, k, v = tensors(lead)
        bias = torch.randn(lead[-1], 5, 6, requires_grad=True)
        grads = [
            torch.autograd.grad(f.square().sum(), bias)[0]
            for f in (regard.attend(q, k, v, bias=bias), scaled_dot_product_attention(q, k, v, bias))
        ]
        torch.testing.assert_close(*grads)


@pytest.mark.parametrize("function", [regard.attend, regard.observe, regard.explain])
def test_a_tensor_by_sequence_is_told_how_to_say_so(function: Any) -> None:
    q, k, v = tensors((2, 3))
    visible = torch.rand(2, 5, 6) < 0.5
    with pytest.raises(
        ValueError, match=r"three axes are \(heads, queries, keys\); if its first axis is the batch of 2, pass m\[:, None\]"
    ):
        function(q, k, v, mask=regard.dense(visible))
    with pytest.raises(ValueError, match=r"if its first axis is the batch, pass bias\[:, None\]"):
        function(q, k, v, bias=torch.randn(2, 5, 6))
    with pytest.raises(ValueError, match=r"does not broadcast from the right to inputs whose axes .* are \(4,\)"):
        function(*tensors((4,)), mask=regard.dense(visible))
    with pytest.raises(ValueError, match=r"expected something that broadcasts from the right to .* = \(2, 3, 2, 5, 6\)"):
        function(*tensors((2, 3, 2)), bias=torch.randn(2, 2, 5, 6))


def test_a_tensor_by_sequence_with_an_axis_for_the_heads() -> None:
    q, k, v = tensors((2, 3))
    visible = torch.rand(2, 5, 6) < 0.5
    got = regard.attend(q, k, v, mask=regard.dense(visible[:, None]) | regard.prefix(1), bias=torch.zeros(2, 1, 5, 6))
    visible[..., 0] = True
    torch.testing.assert_close(got, scaled_dot_product_attention(q, k, v, visible[:, None]))


def test_inputs_without_heads_take_a_head_axis_of_one() -> None:
    q, k, v = tensors((4,))
    visible = torch.rand(4, 1, 5, 6) < 0.5
    visible[..., 0] = True
    got = regard.attend(q, k, v, mask=regard.dense(visible), bias=torch.zeros(4, 1, 5, 6))
    torch.testing.assert_close(got, scaled_dot_product_attention(q, k, v, visible[:, 0]))


@pytest.mark.parametrize("kernel", ["native", "streamed"])
def test_the_padding_mask_of_sdpa_runs_compiled_and_in_linear_memory(kernel: str) -> None:
    q = torch.randn(2, 4, 700, 16)
    keep = torch.rand(2, 1, 1, 700) < 0.5
    got = regard.attend(q, q, q, mask=regard.from_sdpa(keep), kernel=kernel)
    torch.testing.assert_close(got, scaled_dot_product_attention(q, q, q, keep), rtol=1e-4, atol=1e-5)
    plan = regard.explain(q, q, q, mask=regard.from_sdpa(keep))
    assert plan.kernel == "native"
    assert plan.bytes == regard.explain(q, q, q, kernel="native").bytes
