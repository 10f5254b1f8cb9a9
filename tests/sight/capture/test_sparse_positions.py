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


@torch.no_grad()
def test_changing_attention_in_blocks_is_refused() -> None:
    with change(model := build("longformer").eval()) as c:
        c.layer(0).mute()
        with pytest.raises(NotImplementedError, match="blocks"):
            model(torch.randint(3, 97, (1, 48)))


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
