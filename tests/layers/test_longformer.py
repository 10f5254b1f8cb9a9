"""Longformer and block layouts are exact: equal to dense attention under the same pattern, and to the published layer."""

import pytest
import torch

import regard
from regard.layers.blocksparse import bigbird_layout, fixed_layout, local_layout, strided_layout
from regard.layers.longformer import LongformerAttention
from regard.layers.multihead import MultiHeadAttention


def pattern(N: int, reach: int, ids: list[int]) -> torch.Tensor:
    """Local band and global tokens written out."""
    at = torch.arange(N)
    band = (at - at.unsqueeze(-1)).abs() <= reach
    band[ids] = True
    band[:, ids] = True
    return band


def test_one_set_of_maps_is_dense_attention_under_the_pattern() -> None:
    torch.manual_seed(0)
    layer = LongformerAttention(16, heads=4, reach=3).double()
    x = torch.randn(2, 30, 16, dtype=torch.float64)
    expected = layer.near(x, mask=regard.dense(pattern(30, 3, [0, 11])))
    torch.testing.assert_close(layer(x, [0, 11]), expected)
    # Without global tokens it is a sliding window.
    torch.testing.assert_close(layer(x), layer.near(x, mask=regard.dense(pattern(30, 3, []))))


def test_global_rows_use_their_own_maps() -> None:
    torch.manual_seed(0)
    layer = LongformerAttention(16, heads=4, reach=2, own_global_maps=True).double()
    assert isinstance(layer.wide, MultiHeadAttention)
    x = torch.randn(3, 20, 16, dtype=torch.float64)
    ids = torch.tensor([[0, 7], [3, -1], [-1, -1]])
    out = layer(x, ids)
    for b, here in enumerate(([0, 7], [3], [])):
        one = x[b : b + 1]
        near = layer.near(one, mask=regard.dense(pattern(20, 2, here)))
        if here:
            near[:, here] = layer.wide(one[:, here], one)
        torch.testing.assert_close(out[b : b + 1], near)


def test_causal_and_padding_reach_the_global_rows_too() -> None:
    torch.manual_seed(0)
    layer = LongformerAttention(16, heads=2, reach=2, own_global_maps=True)
    x = torch.randn(2, 12, 16)
    mask = regard.causal() & regard.padding(torch.tensor([12, 9]))
    out = layer(x, [0, 5], mask=mask)
    later = x.clone()
    later[:, 6:] = 99.0
    later[1, 9:] = float("nan")
    changed = layer(later, [0, 5], mask=mask)
    torch.testing.assert_close(changed[:, :6], out[:, :6])
    assert not torch.allclose(changed[0, 6:], out[0, 6:])


def test_agrees_with_the_published_layer() -> None:
    transformers = pytest.importorskip("transformers", reason="pip install transformers to compare with its Longformer")
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    torch.manual_seed(0)
    config = transformers.LongformerConfig(hidden_size=24, num_attention_heads=3, attention_window=[8], attention_probs_dropout_prob=0.0)
    theirs = LongformerSelfAttention(config, layer_id=0).eval()
    ours = LongformerAttention(24, heads=3, reach=4, own_global_maps=True)
    assert ours.wide is not None
    with torch.no_grad():
        for layer, end in ((ours.near, ""), (ours.wide, "_global")):
            maps = [getattr(theirs, name + end) for name in ("query", "key", "value")]
            layer.in_proj_weight.copy_(torch.cat([m.weight for m in maps]))  # type: ignore[union-attr]
            layer.in_proj_bias.copy_(torch.cat([m.bias for m in maps]))  # type: ignore[union-attr]
        ours.near.out_proj.weight.copy_(torch.eye(24))  # their W_o is a layer of its own
        ours.near.out_proj.bias.zero_()
    x = torch.randn(2, 32, 24)
    flags = torch.zeros(2, 32)
    flags[:, [0, 13]] = 10_000.0
    expected = theirs(
        x, attention_mask=flags, is_index_masked=flags < 0, is_index_global_attn=flags > 0, is_global_attn=True, output_attentions=False
    )[0]
    torch.testing.assert_close(ours(x, [0, 13]), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "layout",
    [local_layout(6, 1, 2), strided_layout(6, 3), fixed_layout(6, 2), bigbird_layout(6, random=1)],
    ids=["local", "strided", "fixed", "bigbird"],
)
def test_block_layouts_are_exact(layout: torch.Tensor) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, heads=2).double()
    x = torch.randn(2, 45, 16, dtype=torch.float64)
    full = layout.repeat_interleave(8, 0).repeat_interleave(8, 1)[:45, :45]
    torch.testing.assert_close(layer(x, mask=regard.block_sparse(layout, 8)), layer(x, mask=regard.dense(full)))
    causal = layer(x, mask=regard.block_sparse(layout, 8) & regard.causal())
    torch.testing.assert_close(causal, layer(x, mask=regard.dense(full.tril())))


def test_two_steps_of_a_strided_layout_reach_everything_before() -> None:
    layout = strided_layout(16, 4).float()
    assert torch.equal(layout @ layout > 0, torch.ones(16, 16).tril().bool())


def test_bigbird_draws_as_many_as_asked_and_the_same_for_a_seed() -> None:
    plain, drawn = bigbird_layout(32, random=0), bigbird_layout(32, random=3, seed=1)
    assert (drawn.sum(1) - plain.sum(1))[1:].tolist() == [3] * 31
    assert torch.equal(drawn, bigbird_layout(32, random=3, seed=1))
    assert not torch.equal(drawn, bigbird_layout(32, random=3, seed=2))


def test_wrong_sizes_say_so() -> None:
    with pytest.raises(ValueError, match="stride is 0; expected at least 1"):
        strided_layout(4, 0)
    with pytest.raises(ValueError, match="near is -1; expected a number of blocks ≥ 0"):
        bigbird_layout(4, near=-1)
