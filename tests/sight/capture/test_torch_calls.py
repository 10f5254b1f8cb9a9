"""Attention through torch: SDPA by any name, nn.MultiheadAttention, nn.Transformer, regard's layers; attention that cannot be captured."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from eager_attention import Eager, check, torch_weights
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import regard
from regard.kernels.select import intercepted
from regard.models import Bert, BertConfig, Gpt, GptConfig
from regard.sight import watch
from regard.sight.capture.sdpa_arguments import split_mask


class Plain(nn.Module):
    """Self-attention, called in one of several ways."""

    def __init__(self, way: str = "direct", causal: bool = False) -> None:
        super().__init__()
        self.way, self.causal = way, causal
        self.project = nn.Linear(16, 48)
        self.gate = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.project(x).chunk(3, -1))
        if self.way == "direct":
            out = scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        elif self.way == "module":
            out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        elif self.way == "eager":
            out = F.dropout((q @ k.mT / math.sqrt(8)).softmax(-1), 0.0) @ v
        elif self.way == "three axes":
            p = torch.softmax(q.flatten(0, 1) @ k.flatten(0, 1).mT, dim=-1)
            out = torch.bmm(p.to(v.dtype), v.flatten(0, 1)).unflatten(0, (-1, 2))
        else:
            raise AssertionError(self.way)
        routed = self.gate(x).softmax(-1)  # a router's softmax is no attention
        return out.transpose(1, 2).flatten(2) * routed.sum(-1, keepdim=True)


def eager_weights(model: Plain, x: Tensor) -> Eager:
    q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2).double() for t in model.project(x).chunk(3, -1))
    s = q @ k.mT / math.sqrt(8)
    if model.causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    return Eager(s.softmax(-1).detach(), v.detach())


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("way", ["direct", "module"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", ["auto", "own", "streamed"])
def test_sdpa(way: str, causal: bool, kernel: str) -> None:
    model, x = Plain(way, causal), torch.randn(2, 9, 16)
    plain = model(x).detach()
    with watch(model, kernel=kernel) as seen:
        watched = model(x).detach()
    assert float((plain - watched).abs().max()) < 1e-5
    assert torch.equal(plain, watched) or kernel != "own"
    assert len(seen) == 1
    check(seen[0], eager_weights(model, x))
    assert seen.missed == ()
    assert seen[0].kind == ("causal" if causal else "self")
    assert F.scaled_dot_product_attention is scaled_dot_product_attention


class Flex(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Any:
        from torch.nn.attention.flex_attention import flex_attention

        return flex_attention(q, k, v)


class Fused(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Any:
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]


@pytest.mark.parametrize("kind", [Flex, Fused])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile", "ignore::UserWarning:torch.*")
def test_opaque_attention_functions_are_reported(kind: type[nn.Module]) -> None:
    model = kind()
    q, k, v = (torch.randn(1, 2, 16, 16) for _ in range(3))
    plain = model(q, k, v)
    with watch(model) as seen:
        assert torch.equal(model(q, k, v), plain)
    assert [m.name for m in seen.missed] == [kind.__name__]
    assert "gives no weights" in seen.missed[0].advice


def test_a_run_in_another_thread_is_reported() -> None:
    model, x = Plain("module"), torch.randn(1, 4, 16)
    with watch(model) as seen:
        thread = threading.Thread(target=model, args=(x,))
        thread.start()
        thread.join(30)
    assert len(seen) == 0
    assert "another thread" in seen.missed[0].advice


@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested tensors")
@torch.no_grad()
def test_transformer(heads_first: bool) -> None:
    model = nn.Transformer(32, 4, 2, 2, 64, batch_first=not heads_first).eval()
    source, target = torch.randn(2, 7, 32), torch.randn(2, 5, 32)
    pad = torch.zeros(2, 7, dtype=torch.bool)
    pad[1, 5:] = True
    masks: dict[str, Any] = {
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(5),
        "src_key_padding_mask": pad,
        "memory_key_padding_mask": pad,
    }
    inputs = (source.transpose(0, 1), target.transpose(0, 1)) if heads_first else (source, target)
    plain = model(*inputs, **masks)
    with torch_weights() as expected:
        model(*inputs, **masks)
    with watch(model) as seen:
        watched = model(*inputs, **masks)
    assert float((plain - watched).abs().max()) < 1e-5
    assert [one.kind for one in seen] == ["encoder", "encoder", "causal", "cross", "causal", "cross"]
    assert [one.name for one in seen][:2] == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn"]
    for one, p in zip(seen, expected, strict=True):
        check(one, p)
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("kernel", ["auto", "own"])
def test_multihead_that_gives_its_weights(kernel: str) -> None:
    model, x = nn.MultiheadAttention(16, 2, batch_first=True), torch.randn(2, 6, 16)
    memory = torch.randn(2, 4, 16)
    plain, weights = model(x, memory, memory, average_attn_weights=False)
    with watch(model, kernel=kernel) as seen:
        again, same = model(x, memory, memory, average_attn_weights=False)
    assert torch.equal(plain, again)
    assert torch.equal(weights, same)
    assert seen.missed == ()
    assert seen[0].kind == "cross"
    value = F.linear(memory, model.in_proj_weight[32:], model.in_proj_bias[32:]).unflatten(-1, (2, 8)).transpose(1, 2)
    check(seen[0], Eager(weights.detach().double(), value.detach().double()))


def test_own_layers() -> None:
    """Calls of regard's kernels, small calls that go straight to SDPA, and cached generation."""
    model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=4, kv_heads=2, layers=2, context=32, window=6, positions="rotary")).eval()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    ids = torch.randint(0, 50, (2, 12))
    plain, observed = model.observe(ids, readings=[regard.Entropy()])
    with watch(model) as seen:
        watched = model(ids)
    assert torch.allclose(plain, watched, atol=1e-5)
    assert [one.name for one in seen] == ["blocks.0.attention", "blocks.1.attention"]
    for one, other in zip(seen, observed, strict=True):
        assert torch.allclose(one.readings["entropy"], other.readings["entropy"], atol=1e-5)
        assert one.kind == "causal"
    with watch(model) as seen:
        _, observed = model.observe(ids, readings=[regard.TopK(2)])  # the caller's readings stay as they are
    assert observed[0].readings.keys() == {"top"}
    assert observed[0].readings["top"].keys.shape[-1] == 2
    assert seen[0].readings["top"].keys.shape[-1] == 4
    with watch(model) as seen:
        generated = model.generate(ids, max_new=3, temperature=0)
    assert [one.call for one in seen if one.layer == 1] == [0, 1, 2]
    assert [len(one.key_pos) for one in seen if one.layer == 1] == [12, 6, 6]
    assert torch.equal(generated, model.generate(ids, max_new=3, temperature=0))
    assert not intercepted()


def test_own_encoder_with_padding() -> None:
    model = Bert(BertConfig(vocabulary=50, d_model=32, heads=4, layers=2, context=32)).eval()
    ids, lengths = torch.randint(5, 50, (2, 9)), torch.tensor([9, 4])
    plain = model(ids, lengths)
    with watch(model) as seen:
        assert torch.allclose(model(ids, lengths), plain, atol=1e-5)
    assert len(seen) == 2
    assert float(seen[0].readings["received"][1, :, 4:].abs().max()) == 0


class Fails(Plain):
    def forward(self, x: Tensor) -> Tensor:
        super().forward(x)
        raise RuntimeError("inside the model")


def test_closing_restores_everything() -> None:
    model, x = Fails("module"), torch.randn(1, 4, 16)
    hooks = lambda: sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())  # noqa: E731
    with pytest.raises(RuntimeError, match="inside the model"), watch(model) as seen:
        model(x)
    assert len(seen) == 1
    assert F.scaled_dot_product_attention is scaled_dot_product_attention
    assert not intercepted()
    assert torch.backends.mha.get_fastpath_enabled()
    assert hooks() == 0
    with watch(model) as seen:  # a caught error does not disturb the numbering of layers
        for _ in range(2):
            with pytest.raises(RuntimeError):
                model(x)
    assert [(one.layer, one.call) for one in seen] == [(0, 0), (0, 1)]


def test_only_the_given_model_is_watched() -> None:
    model, other, x = Plain("module"), Plain("module"), torch.randn(1, 4, 16)
    with watch(model) as seen:
        other(x)
        F.scaled_dot_product_attention(*(torch.randn(1, 1, 3, 4) for _ in range(3)))
    assert len(seen) == 0


def test_watches_may_nest_and_overlap_in_threads() -> None:
    models, x = [Plain("module"), Plain("direct")], torch.randn(1, 4, 16)
    with watch(models[0]) as outer:
        with watch(models[0], kernel="own") as inner:
            models[0](x)
        models[0](x)
    assert (len(outer), len(inner)) == (2, 1)
    counts: dict[int, int] = {}
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

    def run(number: int) -> None:
        if number:
            first_in.wait(10)
        with watch(models[number]) as seen:
            (second_in if number else first_in).set()
            (first_out if number else second_in).wait(10)
            for _ in range(3 + number):
                models[number](x)
        first_out.set()
        counts[number] = len(seen)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counts == {0: 3, 1: 4}
    assert F.scaled_dot_product_attention is scaled_dot_product_attention
    assert not intercepted()


def test_shared_weights_are_several_layers() -> None:
    shared = Plain("module")
    model, x = nn.Sequential(shared, shared), torch.randn(1, 4, 16)
    with watch(model) as seen:
        model(x)
        model(x)
    assert [(one.layer, one.call) for one in seen] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_layers_and_heads_may_be_chosen() -> None:
    model, x = nn.Sequential(Plain("module"), Plain("direct")), torch.randn(1, 4, 16)
    with watch(model, layers=[1], heads=[1]) as seen:
        model(x)
    assert [one.layer for one in seen] == [1]
    assert seen[0].readings["top"].keys.shape[:2] == (1, 1)
    with watch(model) as all_heads:
        model(x)
    assert torch.allclose(seen.head(1, 1).readings["entropy"], all_heads.head(1, 1).readings["entropy"], atol=1e-5)
    assert torch.allclose(seen.head(1, 1).tile(), all_heads.head(1, 1).tile(), atol=1e-5)
    with pytest.raises(IndexError, match="was not recorded"):
        seen.head(1, 0)


def test_half_precision() -> None:
    model, x = Plain("module", causal=True).bfloat16(), torch.randn(1, 40, 16).bfloat16()
    for kernel in ("auto", "own"):
        with watch(model, kernel=kernel) as seen:
            model(x)
        assert seen[0].proof.holds
        assert 0 < seen[0].proof.output_error < 0.05


def test_autocast_and_inference_mode() -> None:
    model, x = Plain("module", causal=True), torch.randn(1, 40, 16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        plain = model(x)
        with watch(model) as seen:
            watched = model(x)
    assert plain.dtype == watched.dtype == torch.bfloat16
    assert float((plain - watched).abs().max()) < 0.05
    assert seen[0].proof.holds
    with torch.inference_mode(), watch(model) as seen:
        model(x)
    check(seen[0], eager_weights(model, x))


def test_compiled_models_run_uncompiled_inside() -> None:
    model, x = Plain("module", causal=True), torch.randn(2, 9, 16)
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        plain = compiled(x)
        with watch(compiled) as seen:
            assert torch.allclose(compiled(x), plain, atol=1e-5)
        assert torch.equal(compiled(x), plain)
    check(seen[0], eager_weights(model, x))


class Sdpa(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, **options)


@pytest.mark.parametrize(
    "shapes",
    [
        ((5, 8), (7, 8), (7, 8)),
        ((3, 5, 8), (3, 7, 8), (3, 7, 4)),
        ((2, 1, 3, 5, 8), (1, 2, 3, 7, 8), (1, 2, 3, 7, 8)),
        ((1, 2, 1, 8), (1, 2, 7, 8), (1, 2, 7, 8)),
    ],
)
@pytest.mark.parametrize("kernel", ["auto", "own"])
def test_any_shape_torch_takes(shapes: tuple[tuple[int, ...], ...], kernel: str) -> None:
    model, (q, k, v) = Sdpa(), (torch.randn(shape) for shape in shapes)
    plain = model(q, k, v)
    with watch(model, kernel=kernel) as seen:
        watched = model(q, k, v)
    assert watched.shape == plain.shape
    assert torch.allclose(watched, plain, atol=1e-5)
    assert seen[0].proof.holds
    assert len(seen[0].key_pos) == 7


def test_other_numbers_of_heads_for_keys_and_values() -> None:
    class Grouped(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    model, q = Grouped(), torch.randn(2, 4, 5, 8)
    for k, v in ((2, 4), (4, 1)):
        key, value = torch.randn(2, k, 6, 8), torch.randn(2, v, 6, 8)
        plain = model(q, key, value)
        with watch(model) as seen:
            torch.testing.assert_close(model(q, key, value), plain)
        assert (len(seen), seen.missed) == (1, ())
        expected = (q.double() @ key.double().repeat_interleave(4 // k, 1).mT / 8**0.5).softmax(-1)
        torch.testing.assert_close(seen[0].weights(), expected.float(), atol=1e-6, rtol=0)


def test_grouped_heads_and_a_learned_bias() -> None:
    model, q = Sdpa(), torch.randn(1, 8, 5, 8)
    k, v = torch.randn(1, 2, 7, 8), torch.randn(1, 2, 7, 8)
    bias = torch.randn(5, 7, requires_grad=True)
    plain = model(q, k, v, attn_mask=bias, enable_gqa=True)
    (plain_gradient,) = torch.autograd.grad(plain.square().sum(), bias)
    with watch(model) as seen:
        watched = model(q, k, v, attn_mask=bias, enable_gqa=True)
    (gradient,) = torch.autograd.grad(watched.square().sum(), bias)
    assert torch.allclose(watched, plain, atol=1e-5)
    assert torch.allclose(gradient, plain_gradient, atol=1e-4)
    s = q.double() @ k.double().repeat_interleave(4, 1).mT / math.sqrt(8) + bias.detach()
    check(seen[0], Eager(s.softmax(-1), v.double()))


def test_outputs_with_dropout_are_not_compared() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, dropout=0.5, batch_first=True).train()
    with watch(layer) as seen:
        layer(torch.randn(1, 5, 16))
    assert math.isnan(seen[0].proof.output_error)
    assert seen[0].proof.holds
    assert "not comparable" in str(seen[0].proof)


def test_an_additive_mask_is_split_into_mask_and_bias() -> None:
    lowest = torch.finfo(torch.float32).min
    attn_mask = torch.tensor([[0.0, lowest, 1.5], [lowest, lowest, lowest], [-torch.inf, -torch.inf, -torch.inf], [-1e4, -1e4, 0.0]])
    mask, bias, uniform_rows = split_mask(attn_mask, 4, 3)
    assert mask is not None
    assert bias is not None
    assert uniform_rows is not None
    assert mask.dense(4, 3)[0, 0].int().tolist() == [[1, 0, 1], [1, 1, 1], [0, 0, 0], [0, 0, 1]]
    assert bias.tolist() == [[0, 0, 1.5], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert uniform_rows.flatten().tolist() == [False, True, False, False]


def test_recording_itself_is_not_looked_at_and_the_mode_comes_back() -> None:
    from torch.overrides import _get_current_function_mode, _len_torch_function_stack

    from regard.models import Gpt, GptConfig
    from regard.readings import Entropy

    modes = []

    class Looking(Entropy):
        def start(self, shape: object) -> object:
            modes.append(_get_current_function_mode())
            return super().start(shape)  # type: ignore[arg-type]

    model = Gpt(GptConfig(vocabulary=20, d_model=16, heads=2, layers=2, context=12)).eval()
    before = _len_torch_function_stack()
    with regard.watch(model, [Looking()]) as seen:
        model(torch.arange(8)[None])
        assert _len_torch_function_stack() == before + 1
    assert len(seen) == 2
    assert modes
    assert all(mode is None for mode in modes)
    assert _len_torch_function_stack() == before
