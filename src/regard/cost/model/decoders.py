"""The decoder families after Llama: what each calls its fields, what it assumes, and where it differs from the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.cost.model.architecture import ATTENTION_BIASES, MLP_BIASES, ConfigError
from regard.cost.model.fields import Family, Fields, Shape

QKV = frozenset({"query", "key", "value"})


def biased(condition: bool, biases: frozenset[str]) -> frozenset[str]:
    return biases if condition else frozenset()


def windows(c: Fields, layers: int, sliding: Callable[[int], bool] = lambda layer: True) -> tuple[int | None, ...]:
    """A window for each layer: from layer_types where the config has it, else by the family's rule."""
    window = c.size("sliding_window") or None
    kinds = c.any("layer_types")
    if kinds is not None:
        if not isinstance(kinds, (list, tuple)) or len(kinds) != layers:
            raise ConfigError(f"field 'layer_types' is {kinds!r}; expected a list with one word for each of the {layers} layers")
        if unknown := set(kinds) - {"full_attention", "sliding_attention"}:
            raise ConfigError(f"field 'layer_types' names {sorted(map(str, unknown))[0]!r}; expected full_attention or sliding_attention")
        sliding = [kind == "sliding_attention" for kind in kinds].__getitem__
    return tuple(window if sliding(layer) else None for layer in range(layers))


def modern(c: Fields, **changes: Any) -> Shape:
    """Rotary positions, grouped heads, a gated MLP and RMSNorm, under the names most families share."""
    shape: Shape = {
        "layers": c.count("num_hidden_layers"),
        "width": c.count("hidden_size"),
        "heads": c.count("num_attention_heads"),
        "kv_heads": c.size("num_key_value_heads"),
        "head_dim": c.size("head_dim"),
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.count("intermediate_size"),
        "gated": True,
        "activation": "silu",
        "norm": "gain",
        "position": "rotary",
        "tied": c.flag("tie_word_embeddings"),
        "wide_softmax": True,
    }
    if "attention_bias" in c:
        shape["biases"] = biased(c.flag("attention_bias"), ATTENTION_BIASES)
    if "sliding_window" in c:
        shape["windows"] = windows(c, shape["layers"])
    return {**shape, **changes}


def defaults(
    vocab_size: int, hidden_size: int, intermediate_size: int, num_hidden_layers: int, num_attention_heads: int, **others: Any
) -> dict[str, Any]:
    """The fields every modern family has, with its own defaults."""
    return {
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": num_attention_heads,
        "num_key_value_heads": None,
        "head_dim": None,
        "tie_word_embeddings": False,
        **others,
    }


_SLIDING: dict[str, Any] = {"sliding_window": None, "layer_types": None}
_QWEN: dict[str, Any] = {**_SLIDING, "use_sliding_window": False, "max_window_layers": 28}
_EXPERTS: dict[str, Any] = {"decoder_sparse_step": 1, "mlp_only_layers": None}


def _llama(c: Fields) -> Shape:
    biases = biased(c.flag("attention_bias"), ATTENTION_BIASES) | biased(c.flag("mlp_bias"), MLP_BIASES)
    return modern(c, biases=biases)


def _mixtral(c: Fields) -> Shape:
    return modern(
        c, experts=c.count("num_local_experts"), active_experts=c.count("num_experts_per_tok"), expert_width=c.count("intermediate_size")
    )


def _qwen_windows(c: Fields) -> tuple[int | None, ...]:
    first = c.size("max_window_layers")
    on = c.flag("use_sliding_window")
    return windows(c, c.count("num_hidden_layers"), lambda layer: layer >= first) if on else ()


def _qwen2(c: Fields) -> Shape:
    return modern(c, biases=QKV, windows=_qwen_windows(c))


def _qwen3(c: Fields) -> Shape:
    return modern(c, query_key_norm="head", windows=_qwen_windows(c))


def _dense_layers(c: Fields) -> int:
    """How many layers keep a plain MLP in the Qwen mixtures."""
    step, plain = c.count("decoder_sparse_step"), c.any("mlp_only_layers") or ()
    return sum(layer in plain or (layer + 1) % step != 0 for layer in range(c.count("num_hidden_layers")))


def _qwen_experts(c: Fields, experts: str) -> Shape:
    return {
        "experts": c.count(experts),
        "active_experts": c.count("num_experts_per_tok"),
        "expert_width": c.count("moe_intermediate_size"),
        "dense_layers": _dense_layers(c),
        "windows": _qwen_windows(c),
    }


def _qwen2_moe(c: Fields) -> Shape:
    shared = c.count("shared_expert_intermediate_size")
    return modern(c, biases=biased(c.flag("qkv_bias"), QKV), shared_width=shared, shared_gate=True, **_qwen_experts(c, "num_experts"))


def _qwen3_moe(c: Fields) -> Shape:
    return modern(c, query_key_norm="head", **_qwen_experts(c, "num_local_experts"))


def _gemma(c: Fields) -> Shape:
    return modern(c, activation="gelu")


def _gemma2(c: Fields) -> Shape:
    local = windows(c, c.count("num_hidden_layers"), lambda layer: layer % 2 == 0)
    capped = c.any("attn_logit_softcapping") is not None
    return modern(c, activation="gelu", norms=4, norm_place="both", windows=local, softcap=capped)


def _gemma3(c: Fields) -> Shape:
    every = c.count("sliding_window_pattern")
    local = windows(c, c.count("num_hidden_layers"), lambda layer: (layer + 1) % every != 0)
    return modern(c, activation="gelu", norms=4, norm_place="both", query_key_norm="head", windows=local)


def _olmo2(c: Fields) -> Shape:
    return modern(c, query_key_norm="width", norm_place="branch")


def _cohere(c: Fields) -> Shape:
    return modern(c, norms=1, query_key_norm="width" if c.flag("use_qk_norm") else "none")


def _stablelm(c: Fields) -> Shape:
    return modern(
        c,
        norm="layer",
        norms=1 if c.flag("use_parallel_residual") else 2,
        biases=biased(c.flag("use_qkv_bias"), QKV),
        query_key_norm="width" if c.flag("qk_layernorm") else "none",
    )


def _starcoder2(c: Fields) -> Shape:
    biases = biased(c.flag("use_bias"), ATTENTION_BIASES | MLP_BIASES)
    return modern(c, norm="layer", gated=False, activation="gelu", biases=biases)


def _phi(c: Fields) -> Shape:
    normed = c.flag("qk_layernorm")
    biases = ATTENTION_BIASES | MLP_BIASES | {"head"} | biased(normed, frozenset({"query_key_norm"}))
    return modern(
        c,
        norm="layer",
        norms=1,
        gated=False,
        activation="gelu_new",
        biases=biases,
        query_key_norm="head" if normed else "none",
    )


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


_LLAMA = defaults(32000, 4096, 11008, 32, 32, attention_bias=False, mlp_bias=False)
_DEEPSEEK: dict[str, Any] = {
    "attention_bias": False,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}

DECODERS: dict[str, Family] = {
    "cohere": Family(_cohere, defaults(256000, 8192, 22528, 40, 64, tie_word_embeddings=True, attention_bias=False, use_qk_norm=False)),
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
    "gemma": Family(
        _gemma,
        defaults(256000, 3072, 24576, 28, 16, num_key_value_heads=16, head_dim=256, tie_word_embeddings=True, attention_bias=False),
    ),
    "gemma2": Family(
        _gemma2,
        defaults(256000, 2304, 9216, 26, 8, num_key_value_heads=4, head_dim=256, tie_word_embeddings=True, attention_bias=False)
        | {"sliding_window": 4096, "layer_types": None, "attn_logit_softcapping": 50.0},
    ),
    "gemma3_text": Family(
        _gemma3,
        defaults(262208, 2304, 9216, 26, 8, num_key_value_heads=4, head_dim=256, tie_word_embeddings=True, attention_bias=False)
        | {"sliding_window": 4096, "layer_types": None, "sliding_window_pattern": 6},
        {"_sliding_window_pattern": "sliding_window_pattern"},
    ),
    "gpt_oss": Family(
        _gpt_oss,
        defaults(201088, 2880, 2880, 36, 64, num_key_value_heads=8, head_dim=64, attention_bias=True)
        | {"sliding_window": 128, "layer_types": None, "num_local_experts": 128, "num_experts_per_tok": 4},
        {"num_experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"},
    ),
    "granite": Family(_llama, _LLAMA),
    "llama": Family(_llama, _LLAMA),
    "mistral": Family(modern, defaults(32000, 4096, 14336, 32, 32, num_key_value_heads=8) | {"sliding_window": 4096, "layer_types": None}),
    "mixtral": Family(
        _mixtral,
        defaults(32000, 4096, 14336, 32, 32, num_key_value_heads=8) | _SLIDING | {"num_local_experts": 8, "num_experts_per_tok": 2},
        {"num_experts": "num_local_experts"},
    ),
    "olmo": Family(lambda c: modern(c, norm="none"), defaults(50304, 4096, 11008, 32, 32, attention_bias=False)),
    "olmo2": Family(_olmo2, defaults(50304, 4096, 11008, 32, 32, attention_bias=False)),
    "phi": Family(_phi, defaults(51200, 2048, 8192, 24, 32, qk_layernorm=False)),
    "phi3": Family(lambda c: modern(c, joined_projection=True), defaults(32064, 3072, 8192, 32, 32) | _SLIDING),
    "qwen2": Family(_qwen2, defaults(151936, 4096, 22016, 32, 32) | _QWEN),
    "qwen2_moe": Family(
        _qwen2_moe,
        defaults(151936, 2048, 5632, 24, 16)
        | _QWEN
        | _EXPERTS
        | {"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60}
        | {"qkv_bias": True},
    ),
    "qwen3": Family(_qwen3, defaults(151936, 4096, 22016, 32, 32, head_dim=128, attention_bias=False) | _QWEN),
    "qwen3_moe": Family(
        _qwen3_moe,
        defaults(151936, 2048, 6144, 24, 32, num_key_value_heads=4, attention_bias=False)
        | _QWEN
        | _EXPERTS
        | {"moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_local_experts": 128},
        {"num_experts": "num_local_experts"},
    ),
    "smollm3": Family(
        _llama,
        defaults(128256, 2048, 11008, 36, 16, num_key_value_heads=4, tie_word_embeddings=True, attention_bias=False, mlp_bias=False),
    ),
    "stablelm": Family(_stablelm, defaults(50304, 2560, 6912, 32, 32, use_qkv_bias=False, qk_layernorm=False, use_parallel_residual=False)),
    "starcoder2": Family(
        _starcoder2, defaults(49152, 3072, 12288, 30, 24, num_key_value_heads=2, use_bias=True, tie_word_embeddings=True) | _SLIDING
    ),
}
