"""Sparse attention put back to its true positions: compared with full attention where they agree, and with the models' own windows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.sight import change, watch

transformers = pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
SIZES = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
SEQ2SEQ = {
    "vocab_size": 97, "d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "max_position_embeddings": 96, "init_std": 0.5,
}  # fmt: skip


def build(name: str) -> Any:
    t, wide = transformers, {"initializer_range": 0.5, "max_position_embeddings": 96}
    torch.manual_seed(0)
    if name == "longformer":
        return t.LongformerModel(t.LongformerConfig(**SIZES, **wide, attention_window=4))
    if name == "big_bird":
        return t.BigBirdModel(t.BigBirdConfig(**SIZES, **wide, block_size=4, num_random_blocks=1))
    if name == "longt5":
        sizes = {"d_model": 32, "d_kv": 8, "num_heads": 4, "num_layers": 2, "d_ff": 37, "vocab_size": 97, "initializer_factor": 0.7}
        return t.LongT5EncoderModel(t.LongT5Config(**sizes, local_radius=3, encoder_attention_type="local"))
    if name == "pegasus_x":
        return t.PegasusXModel(t.PegasusXConfig(**SEQ2SEQ, block_size=8, num_global_tokens=3)).encoder
    reformer = {
        "axial_pos_embds_dim": (16, 16), "axial_pos_shape": (6, 8), "attn_layers": ["lsh", "local"], "attention_head_size": 8,
        "lsh_attn_chunk_length": 8, "local_attn_chunk_length": 8, "num_buckets": 4, "num_hashes": 1, "feed_forward_size": 37,
        "hash_seed": 0, "is_decoder": False, "vocab_size": 97, "hidden_size": 32, "num_attention_heads": 4, "initializer_range": 0.5,
    }  # fmt: skip
    return t.ReformerModel(t.ReformerConfig(**reformer))


@pytest.mark.parametrize("name", ["longformer", "big_bird", "longt5", "pegasus_x", "reformer"])
@torch.no_grad()
def test_weights_are_at_their_positions(name: str) -> None:
    """Every row sums to 1 and reproduces the model's output; most weights are exactly 0, and the rest are near the query."""
    model = build(name).eval()
    ids = torch.randint(3, 97, (2, 48), generator=torch.Generator().manual_seed(1))
    plain = model(ids)[0]
    with watch(model) as seen:
        assert torch.equal(model(ids)[0], plain)
    assert (len(seen), seen.missed) == (2, ())
    extra = 3 if name == "pegasus_x" else 0
    for recorded in seen:
        assert recorded.shape == (2, 4, 48 + extra, 48 + extra)
        assert recorded.proof.holds
        assert recorded.proof.output_error < 1e-5
        weights = recorded.weights()
        assert torch.allclose(weights.sum(-1), torch.ones(2, 4, 48 + extra), atol=1e-5)
        assert float((weights == 0).float().mean()) > 0.4
    if name in ("longformer", "longt5"):
        reach = 2 if name == "longformer" else 3
        distance = (torch.arange(48) - torch.arange(48).unsqueeze(-1)).abs()
        for recorded in seen:
            assert bool((recorded.weights()[..., distance > reach] == 0).all())
            assert bool((recorded.weights()[..., distance <= reach] > 0).all())


VALUES = {"longformer": "self.value", "big_bird": "self.value", "longt5": "SelfAttention.v", "pegasus_x": "self_attn.v_proj",
          "reformer": "self_attention.value"}  # fmt: skip


def parameters_of(model: Any, ending: str) -> list[torch.nn.Parameter]:
    """Return the parameters of the first module whose name ends so."""
    return list(next(module for name, module in model.named_modules() if name.endswith(ending)).parameters())


@pytest.mark.parametrize("name", VALUES)
@torch.no_grad()
def test_muting_a_head_is_zeroing_its_values(name: str) -> None:
    model, ids = build(name).eval(), torch.randint(3, 97, (2, 48), generator=torch.Generator().manual_seed(1))
    plain = model(ids)[0]
    with change(model) as c:
        c.layer(0).head(1).mute()
        muted = model(ids)[0]
        c.clear()
        assert torch.equal(model(ids)[0], plain)
        for layer in (0, 1):
            c.layer(layer).temperature(1.0)
        assert torch.allclose(model(ids)[0], plain, atol=1e-4)
    for parameter in parameters_of(model, VALUES[name]):
        parameter[8:16] = 0
    expected = model(ids)[0]
    assert not torch.allclose(expected, plain, atol=1e-2)
    assert torch.allclose(muted, expected, atol=1e-4)


@pytest.mark.parametrize("name", ["longformer", "longformer, global tokens", "pegasus_x"])
@torch.no_grad()
def test_a_temperature_is_a_smaller_query(name: str) -> None:
    model, ids = build(name.partition(",")[0]).eval(), torch.randint(3, 97, (2, 48), generator=torch.Generator().manual_seed(1))
    options = {}
    if "global" in name:
        options["global_attention_mask"] = torch.zeros(2, 48, dtype=torch.int64)
        options["global_attention_mask"][:, 0] = 1
    plain = model(ids, **options)[0]
    with change(model) as c, watch(model) as seen:
        c.layer(0).temperature(2.0)
        warm = model(ids, **options)[0]
    for ending in ("self.query", "self.query_global") if "longformer" in name else ("self_attn.q_proj",):
        for parameter in parameters_of(model, ending):
            parameter /= 2
    with watch(model) as expected:
        assert torch.allclose(model(ids, **options)[0], warm, atol=1e-4)
    assert not torch.allclose(warm, plain, atol=1e-2)
    assert torch.allclose(seen[0].weights(), expected[0].weights(), atol=1e-5)


@torch.no_grad()
def test_a_window_is_a_narrower_longformer() -> None:
    model, ids = build("longformer").eval(), torch.randint(3, 97, (2, 48))
    expected = model(ids)[0]  # sees two tokens on either side
    for layer in model.encoder.layer:
        layer.attention.self.one_sided_attn_window_size = 4
    model.config.attention_window = [8, 8]
    assert not torch.allclose(model(ids)[0], expected, atol=1e-2)
    with change(model) as c:
        c.layer(0).window(2)
        c.layer(1).window(2)
        assert torch.allclose(model(ids)[0], expected, atol=1e-4)


def test_gradients_of_changed_attention_in_blocks() -> None:
    model, ids = build("longformer").eval(), torch.randint(3, 97, (1, 48))
    with change(model) as c:
        c.layer(0).temperature(2.0)
        model(ids)[0].square().mean().backward()
    value, query = (parameters_of(model, f"self.{part}")[0] for part in ("value", "query"))
    changed = value.grad.clone(), query.grad.clone()
    model.zero_grad()
    with torch.no_grad():
        for parameter in parameters_of(model, "self.query"):
            parameter /= 2
    model(ids)[0].square().mean().backward()
    assert torch.allclose(changed[0], value.grad, rtol=1e-3, atol=1e-5)
    assert torch.allclose(changed[1], query.grad / 2, rtol=1e-3, atol=1e-5)


@torch.no_grad()
def test_longformer_returns_the_same_windows() -> None:
    model = build("longformer").eval()
    ids = torch.randint(3, 97, (2, 48))
    windows = model(ids, output_attentions=True).attentions  # (B, h, L, 5): offsets −2 … 2
    with watch(model) as seen:
        model(ids)
    for recorded, expected in zip(seen, windows, strict=True):
        weights = torch.nn.functional.pad(recorded.weights(), (2, 2))
        found = torch.stack([weights[:, :, i, i : i + 5] for i in range(48)], 2)
        assert torch.allclose(found, expected, atol=1e-6)


@torch.no_grad()
def test_global_tokens_of_longformer() -> None:
    model = build("longformer").eval()
    ids = torch.randint(3, 97, (2, 48))
    everywhere = torch.zeros(2, 48, dtype=torch.int64)
    everywhere[:, 0] = 1
    with watch(model) as seen:
        model(ids, global_attention_mask=everywhere)
    assert seen.missed == ()
    weights = seen[0].weights()
    assert bool((weights[:, :, 10:, 0] > 0).all())
    assert bool((weights[:, :, 0, :] > 0).all())


@torch.no_grad()
def test_bigbird_is_full_attention_on_the_same_keys() -> None:
    """Where block-sparse attention sees a key, its score is that of full attention: rows that see everything have the same weights."""
    model = build("big_bird").eval()
    ids = torch.randint(3, 97, (1, 48))
    with watch(model) as sparse:
        model(ids)
    model.set_attention_type("original_full")
    with watch(model) as full:
        model(ids)
    first = slice(0, 4)  # the first block sees all keys
    assert torch.allclose(sparse[0].weights()[:, :, first], full[0].weights()[:, :, first], atol=1e-5)
    p, q = sparse[0].weights(), full[0].weights()
    ratio = (p / q).masked_fill(p == 0, torch.inf)
    times = (ratio / ratio.amin(-1, keepdim=True))[p > 1e-4]  # a random block may be one that the row sees already: it counts twice
    assert torch.allclose(times, times.round(), atol=2e-2)
    assert float(times.max()) < 3.5
    assert float((times.round() == 1).float().mean()) > 0.5
