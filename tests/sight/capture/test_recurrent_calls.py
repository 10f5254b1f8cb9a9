"""Recurrent attention: its weights against recurrences written out in float64."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.sight import change, watch


def gated_delta_rule(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, initial_state: Tensor | None = None) -> Any:
    """The recurrence of Yang et al. 2025 (Gated Delta Networks, equation 10), token by token, (B, L, h, d)."""
    B, L, h, d = key.shape
    state = torch.zeros(B, h, d, value.shape[-1]) if initial_state is None else initial_state
    outputs = []
    for t in range(L):
        k, v = key[:, t], value[:, t]
        state = state * g[:, t, :, None, None].exp()
        state = state + (beta[:, t, :, None, None] * k.unsqueeze(-1)) * (v - torch.einsum("bhd,bhde->bhe", k, state)).unsqueeze(-2)
        outputs.append(torch.einsum("bhd,bhde->bhe", query[:, t], state))
    return torch.stack(outputs, 1), state


class DeltaNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.gates, self.out = nn.Linear(12, 36), nn.Linear(12, 6), nn.Linear(12, 12)
        self.kept: dict[str, Tensor] = {}

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = (t.unflatten(-1, (3, 4)) for t in self.project(x).chunk(3, -1))
        k = nn.functional.normalize(k, dim=-1)
        g, beta = -self.gates(x)[..., :3].exp(), self.gates(x)[..., 3:].sigmoid()
        self.kept = {"q": q, "k": k, "v": v, "g": g, "beta": beta}
        output, state = gated_delta_rule(q, k, v, g=g, beta=beta, initial_state=state)
        self.kept["output"] = output
        return self.out(output.flatten(-2)), state


def weights_in_float64(q: Tensor, k: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """A (B, h, L, S): the state as a sum over tokens of coefficient · value, by the recurrence of the coefficients."""
    q, k, g, beta = (x.double().transpose(1, 2) for x in (q, k, g, beta))
    B, h, L, d = k.shape
    weights = torch.zeros(B, h, L, L, dtype=torch.float64)
    coefficients = torch.zeros(B, h, L, d, dtype=torch.float64)  # of the values of each token
    for t in range(L):
        decayed = g[:, :, t, None, None].exp() * coefficients
        read = (decayed @ k[:, :, t].unsqueeze(-1)) * k[:, :, t].unsqueeze(-2)
        coefficients = decayed - beta[:, :, t, None, None] * read
        coefficients[:, :, t] = beta[:, :, t, None] * k[:, :, t]
        weights[:, :, t] = (coefficients @ q[:, :, t].unsqueeze(-1)).squeeze(-1)
    return weights


@pytest.fixture
def model() -> DeltaNet:
    torch.manual_seed(0)
    return DeltaNet().eval()


def test_weights_are_those_of_the_recurrence(model: DeltaNet) -> None:
    x = torch.randn(2, 7, 12)
    plain, _ = model(x)
    for kernel in ("auto", "own"):
        with watch(model, kernel=kernel) as seen:
            watched, _ = model(x)
        assert (len(seen), seen.missed) == (1, ())
        kept = model.kept
        expected = weights_in_float64(kept["q"], kept["k"], kept["g"], kept["beta"])
        torch.testing.assert_close(seen[0].weights(), expected.float(), atol=1e-6, rtol=0)
        assert bool((expected < -1e-3).any())  # they are signed
        assert (seen[0].kind, seen[0].heads, seen[0].proof.holds) == ("causal", 3, True)
        assert torch.equal(watched, plain)
        for name in ("entropy", "received", "sink"):
            assert bool(seen[0].readings[name].isfinite().all())
        torch.testing.assert_close(seen[0].readings["received"], expected.abs().sum(-2).float(), atol=1e-5, rtol=0)


def test_changes(model: DeltaNet) -> None:
    x = torch.randn(1, 6, 12)
    model(x)
    kept = {name: value.detach() for name, value in model.kept.items()}
    diagonal = weights_in_float64(kept["q"], kept["k"], kept["g"], kept["beta"]).diagonal(dim1=-2, dim2=-1)  # (B, h, L)
    with change(model) as c:
        c.layer(0).window(0)
        c.layer(0).head(1).mute()
        changed, _ = model(x)
    output = kept["v"].double() * diagonal.transpose(1, 2).unsqueeze(-1)  # (B, L, h, d)
    output[:, :, 1] = 0
    torch.testing.assert_close(changed, model.out(output.float().flatten(-2)), atol=1e-5, rtol=0)


def test_a_state_of_earlier_tokens_is_named(model: DeltaNet) -> None:
    x = torch.randn(1, 6, 12)
    with watch(model) as seen:
        _, state = model(x[:, :5])
        step, _ = model(x[:, 5:], state)
    assert len(seen) == 1
    assert [missed.advice.split(",")[0] for missed in seen.missed] == [
        "it continues from a state in which the values of earlier tokens are mixed"
    ]
    torch.testing.assert_close(step, model(x)[0][:, 5:])


def test_the_function_is_restored(model: DeltaNet) -> None:
    file = sys.modules[DeltaNet.__module__]
    with watch(model):
        assert file.gated_delta_rule is not gated_delta_rule_itself
        with change(model):
            pass
        assert file.gated_delta_rule is not gated_delta_rule_itself
    assert file.gated_delta_rule is gated_delta_rule_itself


gated_delta_rule_itself = gated_delta_rule


def test_a_text_that_is_too_long_is_named(model: DeltaNet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.sight.capture.recurrent_calls.MOST_BYTES", 1000)
    with watch(model) as seen:
        model(torch.randn(1, 12, 12))
    assert len(seen) == 0
    assert "watch a shorter text" in seen.missed[0].advice


def test_rwkv() -> None:
    pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
    from transformers import RwkvConfig, RwkvModel

    torch.manual_seed(0)
    rwkv = RwkvModel(RwkvConfig(vocab_size=30, hidden_size=6, num_hidden_layers=2, context_length=16)).eval()
    inputs: dict[str, Tensor] = {}
    attention = rwkv.blocks[0].attention
    attention.key.register_forward_hook(lambda module, args, output: inputs.update(key=output.double()))
    with torch.no_grad(), watch(rwkv, keep=True) as seen:
        attention.time_decay.uniform_(-1, 1), attention.time_first.uniform_(-1, 1)
        rwkv(torch.tensor([[3, 8, 5, 21, 7]]))
    assert (len(seen), seen.missed, seen[0].heads) == (2, (), 6)  # every channel has weights of its own
    k, decay, first = inputs["key"][0].T, attention.time_decay.detach().double().exp(), attention.time_first.detach().double()
    age = torch.arange(5).view(-1, 1) - torch.arange(5) - 1  # steps of decay between key and query
    scores = k.unsqueeze(1) - decay.view(-1, 1, 1) * age
    scores = torch.where(age == -1, (k + first.unsqueeze(-1)).unsqueeze(1), scores).masked_fill(age < -1, -torch.inf)
    torch.testing.assert_close(seen[0].weights()[0], scores.softmax(-1).float(), atol=1e-6, rtol=0)


def test_gated_delta_net_of_transformers_while_generating() -> None:
    pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    torch.manual_seed(0)
    config = Qwen3NextConfig(
        vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
        linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=1, linear_num_value_heads=2, num_experts=2,
        num_experts_per_tok=1, moe_intermediate_size=8, shared_expert_intermediate_size=8,
        layer_types=["linear_attention", "full_attention"],
    )  # fmt: skip
    model = Qwen3NextForCausalLM(config).eval()
    ids = torch.tensor([[4, 9, 2, 7]])
    options = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(ids, **options)
    with watch(model, kernel="own") as seen:
        watched = model.generate(ids, **options)
    assert torch.equal(plain, watched)
    assert {s.name for s in seen} == {"model.layers.0.linear_attn", "model.layers.1.self_attn"}
    assert all(s.proof.holds for s in seen)
    assert [m.name for m in seen.missed] == ["model.layers.0.linear_attn (Qwen3NextGatedDeltaNet)"]  # its steps
