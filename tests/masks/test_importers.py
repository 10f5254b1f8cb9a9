"""Masks of torch and transformers, compared with torch and transformers themselves."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from regard.masks import Mask, causal, everything, from_additive, from_hf, from_sdpa, from_torch_mha


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: from_sdpa(torch.ones(2, 2).long()), r"bool or floating point, but got torch.int64"),
        (lambda: from_sdpa([[True]]), r"must be a tensor, but got list"),
        (lambda: from_sdpa(torch.full((1, 1), 0.5)), r"adds numbers such as 0.5 .* from_additive"),
        (lambda: from_sdpa(torch.full((1, 1), math.nan)), r"adds numbers such as nan"),
        (lambda: from_additive(torch.ones(1, 1, dtype=torch.bool)), r"must be floating point, but got torch.bool"),
        (lambda: from_torch_mha(torch.ones(6, 2, 2, dtype=torch.bool)), r"B·h = 6, but num_heads is None; pass the layer's num_heads"),
        (lambda: from_torch_mha(torch.ones(6, 2, 2, dtype=torch.bool), num_heads=4), r"B·h = 6, but num_heads is 4"),
        (lambda: from_torch_mha(torch.ones(2, dtype=torch.bool)), r"attn_mask must be \(L, S\) or"),
        (lambda: from_torch_mha(key_padding_mask=torch.ones(1, 1, 1, dtype=torch.bool)), r"key_padding_mask must be \(B, S\)"),
        (lambda: from_torch_mha(torch.ones(2, 2).long()), r"True = hidden.* got torch.int64"),
        (lambda: from_hf(torch.tensor([[1, 2]])), r"other than 0 and 1; .* documents"),
        (lambda: from_hf(torch.ones(2)), r"\(B, S\) or \(B, heads, L, S\), but got shape \(2,\)"),
        (lambda: from_hf(torch.full((1, 1, 1, 1), -3.0)), r"adds numbers such as -3 "),
    ],
)
def test_invalid_arguments(build: Callable[[], Mask], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def attention(scores: Tensor, value: Tensor, mask: Mask) -> Tensor:
    L, S = scores.shape[-2:]
    return scores.masked_fill(~mask.dense(L, S), -math.inf).softmax(-1) @ value


@pytest.mark.parametrize("shape", [(5, 6), (2, 1, 5, 6), (2, 3, 5, 6), (1, 3, 5, 6)])
@pytest.mark.parametrize("additive", [False, True])
def test_from_sdpa_means_what_sdpa_means(shape: tuple[int, ...], additive: bool) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
    pattern = torch.rand(shape) < 0.6
    pattern[..., 0] = True
    given_mask = torch.zeros(shape).masked_fill(~pattern, -math.inf) if additive else pattern
    ours = attention(query @ key.mT / 2, value, from_sdpa(given_mask))
    torch.testing.assert_close(ours, scaled_dot_product_attention(query, key, value, attn_mask=given_mask))


@pytest.mark.parametrize(("L", "S"), [(4, 4), (3, 5), (5, 3)])
def test_the_causal_flag_of_sdpa_is_aligned_to_the_start(L: int, S: int) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(1, 1, L, 4), torch.randn(1, 1, S, 4), torch.randn(1, 1, S, 4)
    ours = attention(query @ key.mT / 2, value, causal(align="start"))
    torch.testing.assert_close(ours, scaled_dot_product_attention(query, key, value, is_causal=True))


def test_from_additive_takes_mask_and_bias_apart() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
    given_mask = torch.randn(1, 3, 5, 6).masked_fill(torch.rand(1, 3, 5, 6) < 0.3, -math.inf)
    given_mask[..., 0] = 1.5
    mask, bias = from_additive(given_mask)
    assert bool(bias.isfinite().all())
    ours = attention(query @ key.mT / 2 + bias, value, mask)
    torch.testing.assert_close(ours, scaled_dot_product_attention(query, key, value, attn_mask=given_mask))
    learned = given_mask.clone().requires_grad_()
    from_additive(learned)[1].sum().backward()
    assert torch.equal(learned.grad, mask.dense(5, 6).float())  # type: ignore[arg-type]


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("shape", [None, (5, 6), (6, 5, 6)])
@pytest.mark.parametrize("padded", [False, True])
def test_from_torch_mha_means_what_the_layer_means(additive: bool, shape: tuple[int, ...] | None, padded: bool) -> None:
    torch.manual_seed(0)
    B, h, L, S, d = 2, 3, 5, 6, 12
    layer = torch.nn.MultiheadAttention(d, h, batch_first=True)
    query, key = torch.randn(B, L, d), torch.randn(B, S, d)

    def written(hidden: Tensor) -> Tensor:
        hidden[..., 0] = False
        return torch.zeros(hidden.shape).masked_fill(hidden, -math.inf) if additive else hidden

    attn_mask = None if shape is None else written(torch.rand(shape) < 0.4)
    key_padding_mask = written(torch.rand(B, S) < 0.4) if padded else None
    weights = layer(query, key, key, attn_mask=attn_mask, key_padding_mask=key_padding_mask, average_attn_weights=False)[1]
    mask = from_torch_mha(attn_mask, key_padding_mask, num_heads=h)
    mask.check(B, h, L, S)
    assert torch.equal(mask.dense(L, S).expand(B, h, L, S), weights > 0)


def test_from_torch_mha_of_one_sequence() -> None:
    mask = from_torch_mha(key_padding_mask=torch.tensor([False, True]))
    assert mask.dense(1, 2).tolist() == [[[[True, False]]]]
    assert from_torch_mha() == everything()


def test_from_hf_reads_every_form() -> None:
    lowest = torch.finfo(torch.float32).min
    two = torch.tensor([[1, 1, 0], [0, 1, 1]])
    expected = two.bool()[:, None, None].expand(2, 1, 2, 3)
    for form in (two, two.bool(), two.float()):
        assert torch.equal(from_hf(form).dense(2, 3).expand(2, 1, 2, 3), expected)
    for low in (-math.inf, lowest, -1e4):
        additive = torch.zeros(2, 1, 2, 3).masked_fill(~expected, low)
        assert torch.equal(from_hf(additive).dense(2, 3), expected)
    half = torch.zeros(2, 1, 2, 3, dtype=torch.float16).masked_fill(~expected, torch.finfo(torch.float16).min)
    assert torch.equal(from_hf(half).dense(2, 3), expected)
    assert torch.equal(from_hf(expected).dense(2, 3), expected)
    assert torch.equal(from_hf(expected.long()).dense(2, 3), expected)
    assert from_hf(None) == everything() == from_sdpa(None)


def test_from_hf_agrees_with_the_masks_that_transformers_builds() -> None:
    transformers = pytest.importorskip("transformers", reason="pip install -c constraints.txt transformers")
    from transformers.masking_utils import create_causal_mask

    keep = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    for kind, wanted in (("eager", torch.float32), ("sdpa", torch.bool)):
        config = transformers.LlamaConfig(
            hidden_size=8, num_attention_heads=1, num_hidden_layers=1, intermediate_size=8, attn_implementation=kind
        )
        built = create_causal_mask(config=config, inputs_embeds=torch.zeros(2, 4, 8), attention_mask=keep, past_key_values=None)
        assert built.dtype == wanted
        ours = (causal() & from_hf(keep)).dense(4, 4)
        theirs = from_hf(built).dense(4, 4)
        real = keep.bool()[:, None, :, None]  # what padded queries see is nobody's business
        assert torch.equal(theirs & real, ours & real)


@pytest.mark.filterwarnings("ignore:Lower right causal bias")  # torch warns where a row has no key
@pytest.mark.parametrize("sizes", [(4, 4), (3, 6), (6, 3)])
def test_the_causal_biases_of_torch(sizes: tuple[int, int]) -> None:
    bias = pytest.importorskip("torch.nn.attention.bias", reason="torch's causal biases came with torch 2.3")
    for made, align in ((bias.causal_upper_left, "start"), (bias.causal_lower_right, "end")):
        assert torch.equal(from_sdpa(made(*sizes)).dense(*sizes)[0, 0], causal(align=align).dense(*sizes)[0, 0])
        with pytest.raises(ValueError, match="use from_sdpa for it"):
            from_additive(made(*sizes))
