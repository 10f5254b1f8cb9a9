"""Tiny transformers models of many families, with random weights, shared by the tests of costs."""

from collections.abc import Callable
from typing import Any

import pytest

_SHAPE = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
_GPT2 = {"vocab_size": 50, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
TINY: dict[str, dict[str, Any]] = {
    "bloom": {"vocab_size": 50, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "cohere": _SHAPE,
    "deepseek_v3": {
        **_SHAPE,
        "num_hidden_layers": 2,
        "num_key_value_heads": 4,
        "moe_intermediate_size": 16,
        "n_routed_experts": 8,
        "kv_lora_rank": 8,
        "q_lora_rank": 12,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 6,
        "n_group": 2,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
    },
    "falcon": {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    "gemma2": {**_SHAPE, "sliding_window": 5, "head_dim": 8},
    "gemma3_text": {**_SHAPE, "num_hidden_layers": 7, "sliding_window": 5, "head_dim": 8},
    "gpt2": _GPT2,
    "gpt_oss": {**_SHAPE, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5},
    "llama": _SHAPE,
    "mistral": {**_SHAPE, "sliding_window": 5},
    "mixtral": _SHAPE,
    "olmo2": _SHAPE,
    "opt": {
        "vocab_size": 50,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "ffn_dim": 40,
        "word_embed_proj_dim": 16,
    },
    "phi": _SHAPE,
    "qwen2_moe": {
        **_SHAPE,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 12,
        "shared_expert_intermediate_size": 20,
    },
    "qwen3": {**_SHAPE, "head_dim": 8},
    "starcoder2": _SHAPE,
}
_EXPERTS = {"deepseek_v3", "gpt_oss", "mixtral", "qwen2_moe"}


@pytest.fixture(scope="session")
def tiny_model() -> Callable[..., Any]:
    """Return a function that builds a tiny causal model of a family: eager attention by default, eager experts, no dropout."""
    import logging

    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    logging.getLogger("transformers").setLevel(logging.ERROR)

    def build(family: str, attention: str = "eager") -> Any:
        config = CONFIG_MAPPING[family](**TINY[family], pad_token_id=0, bos_token_id=1, eos_token_id=2)
        for name, value in list(vars(config).items()):
            if ("dropout" in name or "pdrop" in name) and isinstance(value, float):
                setattr(config, name, 0.0)
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
        if family in _EXPERTS:
            model.set_experts_implementation("eager")
        return model.eval()

    return build
