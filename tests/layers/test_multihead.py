import pytest
import torch
from torch import nn

from regard import Additive, Alibi, Entmax15, Entropy, Mask, attend, causal, padding, window
from regard.layers.cache import LayerCache
from regard.layers.multihead import MultiHeadAttention
from regard.layers.positions import Rotary

DOUBLE = {"dtype": torch.float64}


def test_heads_by_hand():
    """Written as the textbook does: every head apart, concatenated, times W_o."""
    layer = MultiHeadAttention(12, heads=3).double()
    nn.init.normal_(layer.in_proj_bias)
    x = torch.randn(2, 5, 12, **DOUBLE)
    weights, biases = layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3)
    heads = []
    for i in range(3):
        q, k, v = (x @ w[4 * i : 4 * i + 4].T + b[4 * i : 4 * i + 4] for w, b in zip(weights, biases, strict=True))
        heads.append(torch.softmax(q @ k.mT / 2.0, -1) @ v)
    torch.testing.assert_close(layer(x), torch.cat(heads, -1) @ layer.out_proj.weight.T + layer.out_proj.bias)


def test_projecting_once_then_by_h_matrices_is_one_product():
    """q = W_i (W x): the textbook's two maps of a head collapse into the one a layer keeps."""
    torch.manual_seed(0)
    shared, per_head = torch.randn(12, 12, **DOUBLE), torch.randn(3, 4, 12, **DOUBLE)
    x = torch.randn(5, 12, **DOUBLE)
    twice = [(x @ shared.T) @ w.T for w in per_head]
    once = x @ torch.cat([w @ shared for w in per_head]).T
    torch.testing.assert_close(torch.cat(twice, -1), once)


@pytest.mark.parametrize("bias", [True, False])
def test_loads_torchs_state_dict_and_matches(bias):
    peer = nn.MultiheadAttention(32, 4, bias=bias, batch_first=True).double().eval()
    layer = MultiHeadAttention(32, heads=4, bias=bias).double().eval()
    layer.load_state_dict(peer.state_dict())
    x, memory, lengths = torch.randn(3, 6, 32, **DOUBLE), torch.randn(3, 7, 32, **DOUBLE), torch.tensor([7, 4, 1])
    later = torch.ones(6, 6, dtype=torch.bool).triu(1)
    torch.testing.assert_close(layer(x, mask=causal()), peer(x, x, x, attn_mask=later)[0])
    absent = torch.arange(7) >= lengths[:, None]
    torch.testing.assert_close(layer(x, memory, mask=padding(lengths)), peer(x, memory, memory, key_padding_mask=absent)[0])


@pytest.mark.parametrize("kdim", [20, 32])
def test_loads_torchs_separate_widths_and_matches(kdim):
    peer = nn.MultiheadAttention(32, 4, kdim=kdim, vdim=24, batch_first=True).double().eval()
    layer = MultiHeadAttention(32, heads=4, kv_dim=(kdim, 24)).double().eval()
    layer.load_state_dict(peer.state_dict())
    x, keys, values = torch.randn(3, 6, 32, **DOUBLE), torch.randn(3, 7, kdim, **DOUBLE), torch.randn(3, 7, 24, **DOUBLE)
    torch.testing.assert_close(layer(x, (keys, values)), peer(x, keys, values)[0])
    assert layer.parameter_table().total == sum(p.numel() for p in peer.parameters())


def test_one_memory_width_serves_both_keys_and_values():
    layer = MultiHeadAttention(32, heads=4, kv_dim=20).double()
    x, memory = torch.randn(3, 6, 32, **DOUBLE), torch.randn(3, 7, 20, **DOUBLE)
    torch.testing.assert_close(layer(x, memory), layer(x, (memory, memory.clone())))
    torch.testing.assert_close(layer(x, memory), layer(x, layer.project(memory)))


def test_grouped_heads_equal_repeated_ones():
    grouped = MultiHeadAttention(32, heads=8, kv_heads=2).double()
    full = MultiHeadAttention(32, heads=8).double()
    q, k, v = grouped.in_proj_weight.detach().split([32, 8, 8])
    repeated = [w.view(2, 4, 32).repeat_interleave(4, 0).view(32, 32) for w in (k, v)]
    full.load_state_dict({**grouped.state_dict(), "in_proj_weight": torch.cat([q, *repeated]), "in_proj_bias": torch.zeros(96, **DOUBLE)})
    x = torch.randn(2, 9, 32, **DOUBLE)
    torch.testing.assert_close(grouped(x, mask=causal()), full(x, mask=causal()))


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_the_value_maps_of_all_heads_make_the_output(kv_heads):
    """W_o holds every head's Value↑: the output is Σ_heads weights · x · (Value↑ Value↓)ᵀ."""
    layer = MultiHeadAttention(16, heads=4, kv_heads=kv_heads, bias=False).double()
    x = torch.randn(1, 6, 16, **DOUBLE)
    eye = torch.eye(6, **DOUBLE).expand(1, 4, 6, 6)
    q, k, _ = layer.project_heads(x, None, None)
    weights = attend(q, k.repeat_interleave(4 // kv_heads, 1), eye)[0]  # attending to the identity gives the weights
    by_maps = sum(weights[head] @ x[0] @ layer.value_map(head).T for head in range(4))
    torch.testing.assert_close(layer(x)[0], by_maps)
    assert layer.value_map(3).shape == (16, 16)
    assert torch.linalg.matrix_rank(layer.value_map(3)) == 4
    torch.testing.assert_close(layer.value_up(1) @ layer.value_down(1), layer.value_map(1))


@pytest.mark.parametrize("reach", [None, 4])
@pytest.mark.parametrize("rotary", [False, True, Rotary(fraction=0.5)])
def test_a_cache_changes_nothing(rotary, reach):
    layer = MultiHeadAttention(32, heads=4, kv_heads=2, rotary=rotary).double()
    mask = causal() if reach is None else causal() & window(reach - 1, 0)
    x = torch.randn(2, 17, 32, **DOUBLE)
    whole = layer(x, mask=mask)
    cache, parts, at = LayerCache(window=reach), [], 0
    with torch.no_grad():
        for count in (5, 1, 1, 3, 7):
            parts.append(layer(x[:, at : at + count], mask=mask, cache=cache))
            at += count
    torch.testing.assert_close(torch.cat(parts, 1), whole.detach())


def test_observing_returns_the_same_output_and_what_was_read():
    layer = MultiHeadAttention(32, heads=4).double()
    x = torch.randn(2, 9, 32, **DOUBLE)
    output, seen = layer.observe(x, mask=causal(), readings=[Entropy()])
    torch.testing.assert_close(output, layer(x, mask=causal()))
    assert seen.readings["entropy"].shape == (2, 4, 9)
    assert seen.readings["entropy"][..., 0].abs().max() < 1e-12  # the first token sees only itself


def test_any_score_and_choice_plug_in():
    layer = MultiHeadAttention(32, heads=4, score=Additive(8, 8, hidden=5), choice=Entmax15()).double()
    x = torch.randn(2, 6, 32, **DOUBLE)
    layer(x, mask=causal()).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.score.parameters())
    assert layer.parameter_table()["score"] == sum(p.numel() for p in layer.score.parameters())
    q, k, v = layer.project_heads(x, None, None)
    expected = layer.out_proj(attend(q, k, v, score=layer.score, choice=layer.choice, mask=causal()).transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, mask=causal()), expected)


def test_dropout_works_in_training_only():
    layer = MultiHeadAttention(32, heads=4, dropout=0.5)
    x = torch.randn(2, 6, 32)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_gradients_in_float64():
    layer = MultiHeadAttention(8, heads=2, kv_heads=1, rotary=True).double()
    x = torch.randn(1, 4, 8, **DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: torch.func.functional_call(layer, {"in_proj_weight": w}, (x,)), (x, layer.in_proj_weight))


def test_parameter_table_counts_everything_once():
    layer = MultiHeadAttention(64, heads=8, kv_heads=2, head_dim=16)
    table = layer.parameter_table()
    assert table.total == sum(p.numel() for p in layer.parameters())
    assert table["key"] == table["value down"] == 2 * 64 * 16
    assert "total" in str(table)
    assert f"{table.total:,}" in str(table)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MultiHeadAttention(30, heads=4), "30 does not divide into 4 heads"),
        (lambda: MultiHeadAttention(32, heads=4, kv_heads=3), "kv_heads must divide heads"),
        (lambda: MultiHeadAttention(20, heads=4, rotary=True), "make that number even"),
        (lambda: MultiHeadAttention(32, heads=4)(torch.randn(2, 3, 31)), r"must be \(batch, tokens, 32\); it is \(2, 3, 31\)"),
        (lambda: MultiHeadAttention(32, heads=4)(torch.randn(2, 3, 32), torch.randn(2, 3, 8)), r"\(batch, tokens, 32\); it is \(2, 3, 8\)"),
        (lambda: MultiHeadAttention(32, heads=4, kv_dim=8)(torch.randn(2, 3, 32)), r"call layer\(x, memory\)"),
        (lambda: MultiHeadAttention(32, heads=4, rotary=True)(*torch.randn(2, 2, 3, 32)), "rotary=False"),
        (lambda: MultiHeadAttention(32, heads=4)(*torch.randn(2, 2, 3, 32), cache=LayerCache()), "project"),
    ],
)
def test_bad_input_says_what_to_do(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_heads_count_from_zero():
    with pytest.raises(IndexError, match="head is 4, but the layer has 4 heads"):
        MultiHeadAttention(32, heads=4).value_map(4)


def test_a_bias_is_added_to_the_scores():
    layer = MultiHeadAttention(16, heads=2).double()
    x, bias = torch.randn(2, 5, 16, **DOUBLE), torch.randn(1, 2, 5, 5, **DOUBLE)
    q, k, v = layer.project_heads(x, None, None)
    mixed = torch.softmax(q @ k.mT / 8**0.5 + bias, -1) @ v
    torch.testing.assert_close(layer(x, bias=bias), layer.out_proj(mixed.transpose(1, 2).flatten(2)))
    assert torch.equal(layer(x, bias=Alibi(2)), layer.observe(x, bias=Alibi(2))[0])
    assert not torch.allclose(layer(x, bias=Alibi(2)), layer(x))


def test_without_positions_the_order_of_the_tokens_is_not_seen():
    layer = MultiHeadAttention(16, heads=4, kv_heads=2).double()
    x, order = torch.randn(2, 7, 16, **DOUBLE), torch.randperm(7)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])
    turned = MultiHeadAttention(16, heads=4, kv_heads=2, rotary=True).double()
    assert not torch.allclose(turned(x.flip(1)), turned(x).flip(1))


@pytest.mark.parametrize("bias_kv", [False, True])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("widths", [(16, 16), (6, 10)])
@pytest.mark.parametrize("masked", ["none", "causal", "padding", "float"])
def test_the_extra_keys_of_torch(bias_kv: bool, zero: bool, widths: tuple[int, int], masked: str) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(16, 4, add_bias_kv=bias_kv, add_zero_attn=zero, kdim=widths[0], vdim=widths[1], batch_first=True)
    ours = MultiHeadAttention.from_torch(theirs)
    x, keys, values = torch.randn(2, 5, 16), torch.randn(2, 5, widths[0]), torch.randn(2, 5, widths[1])
    options: dict[str, torch.Tensor] = {}
    mask: Mask | None = None
    bias: torch.Tensor | None = None
    if masked == "causal":
        options["attn_mask"], mask = torch.ones(5, 5, dtype=torch.bool).triu(1), causal()
    elif masked == "padding":
        options["key_padding_mask"], mask = torch.arange(5) >= torch.tensor([[3], [5]]), padding([3, 5])
    elif masked == "float":
        options["attn_mask"] = bias = torch.randn(5, 5)
    want, _ = theirs(x, keys, values, **options)
    got = ours(x, (keys, values), mask=mask, bias=bias)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    parameters = [dict(layer.named_parameters()) for layer in (ours, theirs)]
    grads = [torch.autograd.grad(y.sin().sum(), list(p.values())) for y, p in zip((got, want), parameters, strict=True)]
    for name, mine, other in zip(parameters[0], *grads, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4, msg=name)
    assert list(parameters[0]) == list(parameters[1])


def test_a_bias_by_position_cannot_reach_the_extra_keys() -> None:
    layer = MultiHeadAttention(16, 4, add_zero_attn=True)
    with pytest.raises(ValueError, match="Alibi has no value for the keys of add_bias_kv"):
        layer(torch.randn(1, 3, 16), bias=Alibi(4))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_from_torch_copies_the_weights_to_the_bit(dtype: torch.dtype) -> None:
    theirs = nn.MultiheadAttention(16, 4, dtype=dtype)
    ours = MultiHeadAttention.from_torch(theirs).state_dict()
    assert list(ours) == list(theirs.state_dict())
    for name, weight in theirs.state_dict().items():
        assert ours[name].dtype == dtype
        assert torch.equal(ours[name], weight), name
