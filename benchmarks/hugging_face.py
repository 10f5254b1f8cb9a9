"""How fast does a Hugging Face model decode with attention "regard", beside its own "sdpa"?

A Llama with SmolLM2-135M's shape and random weights (30 layers, 9 heads, 3 key heads, 576 wide), float32, batch 1: the time of four more
tokens after 128, 512 and 4,096 of them. Both models share their weights; each step starts from the same cache.

python benchmarks/hugging_face.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import torch

from regard.sight.capture.transformers_calls import register
from timing import Row, Table, alternate, main

STEPS = 4  # of one timing; the copy of the cache they extend is not timed
TARGETS = {128: 1.0, 512: 1.0, 4096: 1.15}


@torch.no_grad()
def decoding() -> Table:
    table = Table("hugging_face", "How fast does a Hugging Face model decode with regard's attention?")
    try:
        from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
    except ImportError:
        table.add(Row("decoding", "sdpa", 0.0, None, note="pip install 'regard[bench]'"))
        return table
    register()
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval()
    token = torch.tensor([[7]])
    for length, target in TARGETS.items():
        cache = DynamicCache(config=config)
        for layer in range(config.num_hidden_layers):
            cache.update(*(torch.randn(1, 3, length, 64) for _ in range(2)), layer)

        def prepare(implementation: str, cache: object = cache) -> Callable[[], object]:
            model.set_attn_implementation(implementation)
            own = copy.deepcopy(cache)
            return lambda: [model(token, past_key_values=own, use_cache=True) for _ in range(STEPS)]

        times = alternate({name: partial(prepare, name) for name in ("regard", "sdpa")}, rounds=20, prepared=True)
        table.compare(f"{STEPS} tokens after {length:,}, float32, batch 1", times, {"sdpa": target})
    return table


if __name__ == "__main__":
    main(decoding)
