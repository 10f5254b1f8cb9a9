"""Decoder families with a mixture of experts."""

from __future__ import annotations

from typing import Any

from regard.models.published.architecture import ATTENTION_BIASES
from regard.models.published.decoder_fields import QKV, SLIDING, biased, defaults, modern, windows
from regard.models.published.family import Family, Shape
from regard.models.published.fields import Fields
from regard.models.published.llama import QWEN, qwen_windows

__all__ = ["MIXTURE_FAMILIES"]


def _mixtral(c: Fields) -> Shape:
    return modern(
        c, experts=c.count("num_local_experts"), active_experts=c.count("num_experts_per_tok"), expert_width=c.count("intermediate_size")
    )


def _qwen2_moe(c: Fields) -> Shape:
    shared = c.count("shared_expert_intermediate_size")
    return modern(c, biases=biased(c.flag("qkv_bias"), QKV), shared_width=shared, shared_gate=True, **_qwen_experts(c, "num_experts"))


def _qwen3_moe(c: Fields) -> Shape:
    return modern(c, query_key_norm="head", **_qwen_experts(c, "num_local_experts"))


def _qwen_experts(c: Fields, experts: str) -> Shape:
    return {
        "experts": c.count(experts),
        "active_experts": c.count("num_experts_per_tok"),
        "expert_width": c.count("moe_intermediate_size"),
        "dense_layers": _dense_layers(c),
        "windows": qwen_windows(c),
    }


def _dense_layers(c: Fields) -> int:
    """Count the layers with a plain MLP in the Qwen mixtures."""
    step, mlp_only = c.count("decoder_sparse_step"), c.any("mlp_only_layers") or ()
    return sum(layer in mlp_only or (layer + 1) % step != 0 for layer in range(c.count("num_hidden_layers")))


def _deepseek(c: Fields) -> Shape:
    nope, rope = c.count("qk_nope_head_dim"), c.count("qk_rope_head_dim")
    return modern(
        c,
        biases=biased(c.flag("attention_bias"), frozenset({"compressed", "output"})),
        kv_heads=c.count("num_attention_heads"),
        head_dim=nope + rope,
        value_dim=c.count("v_head_dim"),
        rope_dim=rope,
        kv_rank=c.count("kv_lora_rank"),
        query_rank=c.size("q_lora_rank"),
        experts=c.count("n_routed_experts"),
        active_experts=c.count("num_experts_per_tok"),
        expert_width=c.count("moe_intermediate_size"),
        shared_width=c.size("n_shared_experts") * c.count("moe_intermediate_size"),
        dense_layers=min(c.size("first_k_dense_replace"), c.count("num_hidden_layers")),
    )


def _gpt_oss(c: Fields) -> Shape:
    biases = biased(c.flag("attention_bias"), ATTENTION_BIASES) | {"router", "experts"}
    return modern(
        c,
        biases=biases,
        sinks=True,
        experts=c.count("num_local_experts"),
        active_experts=c.count("num_experts_per_tok"),
        expert_width=c.count("intermediate_size"),
        windows=windows(c, c.count("num_hidden_layers"), lambda layer: layer % 2 == 0),
    )


_EXPERTS: dict[str, Any] = {"decoder_sparse_step": 1, "mlp_only_layers": None}
_DEEPSEEK: dict[str, Any] = {
    "attention_bias": False,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}

MIXTURE_FAMILIES: dict[str, Family] = {
    "deepseek_v2": Family(
        _deepseek,
        defaults(102400, 4096, 11008, 32, 32, **_DEEPSEEK)
        | {"n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": None, "moe_intermediate_size": 1407}
        | {"first_k_dense_replace": 0},
    ),
    "deepseek_v3": Family(
        _deepseek,
        defaults(129280, 7168, 18432, 61, 128, **_DEEPSEEK)
        | {"n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048}
        | {"first_k_dense_replace": 3},
        {"num_local_experts": "n_routed_experts"},
    ),
    "gpt_oss": Family(
        _gpt_oss,
        defaults(201088, 2880, 2880, 36, 64, num_key_value_heads=8, head_dim=64, attention_bias=True)
        | {"sliding_window": 128, "layer_types": None, "num_local_experts": 128, "num_experts_per_tok": 4},
        {"num_experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"},
    ),
    "mixtral": Family(
        _mixtral,
        defaults(32000, 4096, 14336, 32, 32, num_key_value_heads=8) | SLIDING | {"num_local_experts": 8, "num_experts_per_tok": 2},
        {"num_experts": "num_local_experts"},
    ),
    "qwen2_moe": Family(
        _qwen2_moe,
        defaults(151936, 2048, 5632, 24, 16)
        | QWEN
        | _EXPERTS
        | {"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60}
        | {"qkv_bias": True},
    ),
    "qwen3_moe": Family(
        _qwen3_moe,
        defaults(151936, 2048, 6144, 24, 32, num_key_value_heads=4, attention_bias=False)
        | QWEN
        | _EXPERTS
        | {"moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_local_experts": 128},
        {"num_experts": "num_local_experts"},
    ),
}
