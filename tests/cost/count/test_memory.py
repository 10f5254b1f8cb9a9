"""Predicted bytes against the caches of real models and the states of torch optimisers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.cost import Architecture, Workload, plan
from regard.cost.count.memory import cache_bytes, summed, training_bytes, weight_bytes
from regard.models.published.families import architecture_from_config


@pytest.mark.parametrize("tokens", [3, 5, 6, 14])  # around the window of 5, and beyond it
@pytest.mark.parametrize("family", ["gpt2", "llama", "falcon", "mistral", "gemma2", "gemma3_text", "gpt_oss", "deepseek_v3", "mixtral"])
def test_cache_bytes_equal_those_of_transformers(family: str, tokens: int, tiny_model: Callable[..., Any]) -> None:
    """Multi-head, grouped, one key head, sliding, alternating and latent attention; a prompt and then one token."""
    model = tiny_model(family)
    a = architecture_from_config({**model.config.to_dict(), "architectures": None})
    ids = torch.ones(2, tokens, dtype=torch.int64)
    with torch.no_grad():
        cache = model(ids, use_cache=True).past_key_values
        cache = model(ids[:, :1], past_key_values=cache, use_cache=True).past_key_values
    cached = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert cached == summed(cache_bytes(a, Workload(batch=2, context=tokens + 1, dtype="fp32"))).value


def test_a_latent_cache_is_as_small_as_claimed() -> None:
    """DeepSeek-V3: 576 numbers per token and layer, where as many full heads would need 128 · (192 + 128)."""
    costs = plan("deepseek-v3", Workload(context=1000))
    assert costs.cache_token is not None
    assert costs.cache_token.value == 576
    assert summed(costs.cache).value == 576 * 61 * 1000 * 2


def test_cross_attention_is_cached_for_the_source() -> None:
    from transformers import AutoModelForSeq2SeqLM, T5Config

    config = T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=40, num_layers=2, num_decoder_layers=3, num_heads=4)
    model = AutoModelForSeq2SeqLM.from_config(config).eval()
    a = architecture_from_config({**config.to_dict(), "architectures": None})
    with torch.no_grad():
        out = model(input_ids=torch.ones(2, 10, dtype=torch.int64), decoder_input_ids=torch.ones(2, 6, dtype=torch.int64), use_cache=True)
    caches = (out.past_key_values.self_attention_cache, out.past_key_values.cross_attention_cache)
    cached = sum(layer.keys.nbytes + layer.values.nbytes for cache in caches for layer in cache.layers)
    assert cached == summed(cache_bytes(a, Workload(batch=2, context=6, source=10, dtype="fp32"))).value


def test_our_own_cache_holds_what_is_needed() -> None:
    from regard.models.gpt import Gpt, GptConfig

    model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=4, kv_heads=2, layers=3, context=64, window=5, window_layers=(1,))).eval()
    cache = model.new_cache()
    with torch.no_grad():
        model(torch.ones(2, 9, dtype=torch.int64), cache)
        for _ in range(4):
            model(torch.ones(2, 1, dtype=torch.int64), cache)
    cached = sum(2 * 2 * 2 * 8 * layer.kept * 4 for layer in cache)  # key and value, batch, key heads, width, tokens, bytes
    costs = plan(model, Workload(batch=2, context=13, dtype="fp32"))
    assert cached == summed(costs.ring_cache).value
    assert summed(costs.cache).value < cached  # transformers drops the oldest token of a full window at once


def test_an_encoder_caches_nothing() -> None:
    costs = plan("bert-base")
    assert costs.cache == {}
    assert costs.cache_token is None
    assert set(costs.steps) == {"forward"}


def test_small_dtypes_count_in_parts_of_a_byte() -> None:
    a = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5)
    assert weight_bytes(a, "int4").value == plan(a).total.value / 2
    small = plan(a, Workload(context=8, dtype="bf16", cache_dtype="fp8"))
    assert summed(small.cache).value == 2 * 4 * 8 * 1


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("adamw", lambda p: torch.optim.AdamW(p)),
        ("adam", lambda p: torch.optim.Adam(p)),
        ("rmsprop", lambda p: torch.optim.RMSprop(p)),
        ("adagrad", lambda p: torch.optim.Adagrad(p)),
        ("momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.1)),
    ],
)
def test_optimiser_bytes_equal_those_of_torch(name: str, make: Callable[..., torch.optim.Optimizer]) -> None:
    from regard.models.gpt import Gpt, GptConfig

    model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=4, layers=2, context=16))
    optimiser = make(model.parameters())
    model.loss(torch.ones(1, 8, dtype=torch.int64), torch.ones(1, 8, dtype=torch.int64)).backward()
    gradients = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
    optimiser.step()
    states = [s for state in optimiser.state.values() for s in state.values() if torch.is_tensor(s) and s.dim()]  # not the step counters
    predicted = training_bytes(plan(model).architecture, Workload(mode="train", dtype="fp32", optimiser=name))
    assert predicted["gradients"].value == gradients
    assert sum(s.nbytes for s in states) == (predicted[f"{name} states"].value if name != "sgd" else 0)


def test_mixed_precision_keeps_a_second_copy_of_the_weights() -> None:
    parts = training_bytes(plan("gpt2").architecture, Workload(mode="train", dtype="bf16", master="fp32"))
    n = 124_439_808
    assert {name: count.value for name, count in parts.items()} == {
        "weights": 4 * n,
        "gradients": 4 * n,
        "adamw states": 8 * n,
        "bf16 copy of the weights": 2 * n,
    }
