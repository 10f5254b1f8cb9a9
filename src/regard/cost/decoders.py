"""The decoder families: what each calls its fields, what it assumes, and where it differs from the plain one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.cost.architecture import ATTENTION_BIASES, MLP_BIASES, ConfigError
from regard.cost.fields import Family, Fields, Shape

QKV = frozenset({"query", "key", "value"})


def _if(condition: bool, biases: frozenset[str]) -> frozenset[str]:
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


def _modern(c: Fields, **changes: Any) -> Shape:
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
        shape["biases"] = _if(c.flag("attention_bias"), ATTENTION_BIASES)
    if "sliding_window" in c:
        shape["windows"] = windows(c, shape["layers"])
    return {**shape, **changes}


def _defaults(
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
    biases = _if(c.flag("attention_bias"), ATTENTION_BIASES) | _if(c.flag("mlp_bias"), MLP_BIASES)
    return _modern(c, biases=biases)


def _mixtral(c: Fields) -> Shape:
    return _modern(
        c, experts=c.count("num_local_experts"), active_experts=c.count("num_experts_per_tok"), expert_width=c.count("intermediate_size")
    )


def _qwen_windows(c: Fields) -> tuple[int | None, ...]:
    first = c.size("max_window_layers")
    on = c.flag("use_sliding_window")
    return windows(c, c.count("num_hidden_layers"), lambda layer: layer >= first) if on else ()


def _qwen2(c: Fields) -> Shape:
    return _modern(c, biases=QKV, windows=_qwen_windows(c))


def _qwen3(c: Fields) -> Shape:
    return _modern(c, query_key_norm="head", windows=_qwen_windows(c))


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
    return _modern(c, biases=_if(c.flag("qkv_bias"), QKV), shared_width=shared, shared_gate=True, **_qwen_experts(c, "num_experts"))


def _qwen3_moe(c: Fields) -> Shape:
    return _modern(c, query_key_norm="head", **_qwen_experts(c, "num_local_experts"))


def _gemma(c: Fields) -> Shape:
    return _modern(c, activation="gelu")


def _gemma2(c: Fields) -> Shape:
    local = windows(c, c.count("num_hidden_layers"), lambda layer: layer % 2 == 0)
    capped = c.any("attn_logit_softcapping") is not None
    return _modern(c, activation="gelu", norms=4, norm_place="both", windows=local, softcap=capped)


def _gemma3(c: Fields) -> Shape:
    every = c.count("sliding_window_pattern")
    local = windows(c, c.count("num_hidden_layers"), lambda layer: (layer + 1) % every != 0)
    return _modern(c, activation="gelu", norms=4, norm_place="both", query_key_norm="head", windows=local)


def _olmo2(c: Fields) -> Shape:
    return _modern(c, query_key_norm="width", norm_place="branch")


def _cohere(c: Fields) -> Shape:
    return _modern(c, norms=1, query_key_norm="width" if c.flag("use_qk_norm") else "none")


def _stablelm(c: Fields) -> Shape:
    return _modern(
        c,
        norm="layer",
        norms=1 if c.flag("use_parallel_residual") else 2,
        biases=_if(c.flag("use_qkv_bias"), QKV),
        query_key_norm="width" if c.flag("qk_layernorm") else "none",
    )


def _starcoder2(c: Fields) -> Shape:
    biases = _if(c.flag("use_bias"), ATTENTION_BIASES | MLP_BIASES)
    return _modern(c, norm="layer", gated=False, activation="gelu", biases=biases)


def _phi(c: Fields) -> Shape:
    normed = c.flag("qk_layernorm")
    biases = ATTENTION_BIASES | MLP_BIASES | {"head"} | _if(normed, frozenset({"query_key_norm"}))
    return _modern(
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
    return _modern(
        c,
        biases=_if(c.flag("attention_bias"), frozenset({"compressed", "output"})),
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
    biases = _if(c.flag("attention_bias"), ATTENTION_BIASES) | {"router", "experts"}
    return _modern(
        c,
        biases=biases,
        sinks=True,
        experts=c.count("num_local_experts"),
        active_experts=c.count("num_experts_per_tok"),
        expert_width=c.count("intermediate_size"),
        windows=windows(c, c.count("num_hidden_layers"), lambda layer: layer % 2 == 0),
    )


def _gpt2(c: Fields) -> Shape:
    return {
        "layers": c.count("n_layer"),
        "width": c.count("n_embd"),
        "heads": c.count("n_head"),
        "kv_heads": 1 if "multi_query" in c and c.flag("multi_query") else 0,
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.size("n_inner"),
        "positions": c.count("n_positions"),
        "activation": c.text("activation_function"),
        "biases": ATTENTION_BIASES | MLP_BIASES,
        "tied": c.flag("tie_word_embeddings"),
    }


def _gptj(c: Fields) -> Shape:
    return {**_gpt2(c), "position": "rotary", "positions": 0, "norms": 1, "biases": MLP_BIASES | {"head"}}


def _gpt_neox(c: Fields) -> Shape:
    biases = MLP_BIASES | _if(c.flag("attention_bias"), ATTENTION_BIASES)
    return _modern(c, norm="layer", gated=False, activation="gelu", biases=biases, joined_projection=True)


def _opt(c: Fields) -> Shape:
    before = c.flag("do_layer_norm_before")
    return {
        "layers": c.count("num_hidden_layers"),
        "width": c.count("hidden_size"),
        "heads": c.count("num_attention_heads"),
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.count("ffn_dim"),
        "positions": c.count("max_position_embeddings") + 2,  # its table starts two rows late
        "late_positions": True,
        "wide_softmax": True,
        "activation": c.text("activation_function"),
        "biases": _if(c.flag("enable_bias"), ATTENTION_BIASES | MLP_BIASES),
        "norm": "layer" if c.flag("layer_norm_elementwise_affine") else "none",
        "norm_place": "before" if before else "after",
        "final_norm": before and not c.flag("_remove_final_layer_norm"),
        "embedding_width": c.size("word_embed_proj_dim"),
        "tied": c.flag("tie_word_embeddings"),
    }


def _bloom(c: Fields) -> Shape:
    return {
        "layers": c.count("n_layer"),
        "width": c.count("hidden_size"),
        "heads": c.count("n_head"),
        "vocabulary": c.count("vocab_size"),
        "position": "alibi",
        "activation": "gelu",
        "biases": ATTENTION_BIASES | MLP_BIASES,
        "embedding_norm": True,
        "tied": c.flag("tie_word_embeddings"),
    }


def _falcon(c: Fields) -> Shape:
    new, heads = c.flag("new_decoder_architecture"), c.count("num_attention_heads")
    grouped = c.size("num_kv_heads") if new else (1 if c.flag("multi_query") else heads)
    two = not c.flag("parallel_attn") or (c.any("num_ln_in_parallel_attn") or (2 if new else 1)) == 2
    return {
        "layers": c.count("num_hidden_layers"),
        "width": c.count("hidden_size"),
        "heads": heads,
        "kv_heads": grouped,
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.size("ffn_hidden_size"),
        "position": "alibi" if c.flag("alibi") else "rotary",
        "biases": _if(c.flag("bias"), ATTENTION_BIASES | MLP_BIASES),
        "norms": 2 if two else 1,
        "tied": c.flag("tie_word_embeddings"),
    }


_GPT2_NAMES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
}
_GPT2: dict[str, Any] = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_inner": None,
    "activation_function": "gelu_new",
    "tie_word_embeddings": True,
}
_BLOOM_NAMES = {"n_embed": "hidden_size", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
_LLAMA = _defaults(32000, 4096, 11008, 32, 32, attention_bias=False, mlp_bias=False)
_DEEPSEEK: dict[str, Any] = {
    "attention_bias": False,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}

DECODERS: dict[str, Family] = {
    "bloom": Family(
        _bloom, {"vocab_size": 250880, "hidden_size": 64, "n_layer": 2, "n_head": 8, "tie_word_embeddings": True}, _BLOOM_NAMES
    ),
    "cohere": Family(_cohere, _defaults(256000, 8192, 22528, 40, 64, tie_word_embeddings=True, attention_bias=False, use_qk_norm=False)),
    "deepseek_v2": Family(
        _deepseek,
        _defaults(102400, 4096, 11008, 32, 32, **_DEEPSEEK)
        | {"n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": None, "moe_intermediate_size": 1407}
        | {"first_k_dense_replace": 0},
    ),
    "deepseek_v3": Family(
        _deepseek,
        _defaults(129280, 7168, 18432, 61, 128, **_DEEPSEEK)
        | {"n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048}
        | {"first_k_dense_replace": 3},
        {"num_local_experts": "n_routed_experts"},
    ),
    "falcon": Family(
        _falcon,
        {
            "vocab_size": 65024,
            "hidden_size": 4544,
            "num_hidden_layers": 32,
            "num_attention_heads": 71,
            "num_ln_in_parallel_attn": None,
            "num_kv_heads": None,
            "ffn_hidden_size": None,
            "alibi": False,
            "new_decoder_architecture": False,
            "multi_query": True,
            "parallel_attn": True,
            "bias": False,
            "tie_word_embeddings": True,
        },
        {"n_embed": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads"},
    ),
    "gemma": Family(
        _gemma,
        _defaults(256000, 3072, 24576, 28, 16, num_key_value_heads=16, head_dim=256, tie_word_embeddings=True, attention_bias=False),
    ),
    "gemma2": Family(
        _gemma2,
        _defaults(256000, 2304, 9216, 26, 8, num_key_value_heads=4, head_dim=256, tie_word_embeddings=True, attention_bias=False)
        | {"sliding_window": 4096, "layer_types": None, "attn_logit_softcapping": 50.0},
    ),
    "gemma3_text": Family(
        _gemma3,
        _defaults(262208, 2304, 9216, 26, 8, num_key_value_heads=4, head_dim=256, tie_word_embeddings=True, attention_bias=False)
        | {"sliding_window": 4096, "layer_types": None, "sliding_window_pattern": 6},
        {"_sliding_window_pattern": "sliding_window_pattern"},
    ),
    "gpt2": Family(_gpt2, _GPT2, _GPT2_NAMES),
    "gpt_bigcode": Family(_gpt2, _GPT2 | {"multi_query": True}, _GPT2_NAMES),
    "gpt_neox": Family(_gpt_neox, _defaults(50432, 6144, 24576, 44, 64, attention_bias=True)),
    "gpt_oss": Family(
        _gpt_oss,
        _defaults(201088, 2880, 2880, 36, 64, num_key_value_heads=8, head_dim=64, attention_bias=True)
        | {"sliding_window": 128, "layer_types": None, "num_local_experts": 128, "num_experts_per_tok": 4},
        {"num_experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"},
    ),
    "gptj": Family(
        _gptj,
        _GPT2 | {"vocab_size": 50400, "n_positions": 2048, "n_embd": 4096, "n_layer": 28, "n_head": 16, "tie_word_embeddings": False},
        _GPT2_NAMES,
    ),
    "granite": Family(_llama, _LLAMA),
    "llama": Family(_llama, _LLAMA),
    "mistral": Family(
        _modern, _defaults(32000, 4096, 14336, 32, 32, num_key_value_heads=8) | {"sliding_window": 4096, "layer_types": None}
    ),
    "mixtral": Family(
        _mixtral,
        _defaults(32000, 4096, 14336, 32, 32, num_key_value_heads=8) | _SLIDING | {"num_local_experts": 8, "num_experts_per_tok": 2},
        {"num_experts": "num_local_experts"},
    ),
    "olmo": Family(lambda c: _modern(c, norm="none"), _defaults(50304, 4096, 11008, 32, 32, attention_bias=False)),
    "olmo2": Family(_olmo2, _defaults(50304, 4096, 11008, 32, 32, attention_bias=False)),
    "opt": Family(
        _opt,
        {
            "vocab_size": 50272,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "ffn_dim": 3072,
            "max_position_embeddings": 2048,
            "do_layer_norm_before": True,
            "_remove_final_layer_norm": False,
            "word_embed_proj_dim": None,
            "num_attention_heads": 12,
            "activation_function": "relu",
            "enable_bias": True,
            "layer_norm_elementwise_affine": True,
            "tie_word_embeddings": True,
        },
    ),
    "phi": Family(_phi, _defaults(51200, 2048, 8192, 24, 32, qk_layernorm=False)),
    "phi3": Family(lambda c: _modern(c, joined_projection=True), _defaults(32064, 3072, 8192, 32, 32) | _SLIDING),
    "qwen2": Family(_qwen2, _defaults(151936, 4096, 22016, 32, 32) | _QWEN),
    "qwen2_moe": Family(
        _qwen2_moe,
        _defaults(151936, 2048, 5632, 24, 16)
        | _QWEN
        | _EXPERTS
        | {"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60}
        | {"qkv_bias": True},
    ),
    "qwen3": Family(_qwen3, _defaults(151936, 4096, 22016, 32, 32, head_dim=128, attention_bias=False) | _QWEN),
    "qwen3_moe": Family(
        _qwen3_moe,
        _defaults(151936, 2048, 6144, 24, 32, num_key_value_heads=4, attention_bias=False)
        | _QWEN
        | _EXPERTS
        | {"moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_local_experts": 128},
        {"num_experts": "num_local_experts"},
    ),
    "smollm3": Family(
        _llama,
        _defaults(128256, 2048, 11008, 36, 16, num_key_value_heads=4, tie_word_embeddings=True, attention_bias=False, mlp_bias=False),
    ),
    "stablelm": Family(
        _stablelm, _defaults(50304, 2560, 6912, 32, 32, use_qkv_bias=False, qk_layernorm=False, use_parallel_residual=False)
    ),
    "starcoder2": Family(
        _starcoder2, _defaults(49152, 3072, 12288, 30, 24, num_key_value_heads=2, use_bias=True, tie_word_embeddings=True) | _SLIDING
    ),
}
