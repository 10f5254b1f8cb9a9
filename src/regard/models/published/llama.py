"""Llama and the dense decoder families after it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from regard.models.published.architecture import ATTENTION_BIASES, MLP_BIASES, Architecture, ConfigError
from regard.models.published.decoder_fields import QKV, SLIDING, biased, defaults, modern, windows
from regard.models.published.family import Family, Loader, Shape, sizes, sliding_window
from regard.models.published.fields import Fields
from regard.models.published.rotary import ROTARY, rotary
from regard.models.published.tensors import llama_tensors

if TYPE_CHECKING:
    from regard.models.gpt import GptConfig

__all__ = ["LLAMA_FAMILIES", "QWEN", "qwen_windows"]


def _llama(c: Fields) -> Shape:
    biases = biased(c.flag("attention_bias"), ATTENTION_BIASES) | biased(c.flag("mlp_bias"), MLP_BIASES)
    return modern(c, biases=biases)


def _qwen2(c: Fields) -> Shape:
    return modern(c, biases=QKV, windows=qwen_windows(c))


def _qwen3(c: Fields) -> Shape:
    return modern(c, query_key_norm="head", windows=qwen_windows(c))


def qwen_windows(c: Fields) -> tuple[int | None, ...]:
    """Return the sliding windows of a Qwen model: if they are in use, in the layers from max_window_layers on."""
    if not c.flag("use_sliding_window"):
        return ()
    first = c.size("max_window_layers")
    return windows(c, c.count("num_hidden_layers"), lambda layer: layer >= first)


def _gemma(c: Fields) -> Shape:
    return modern(c, activation="gelu")


def _gemma2(c: Fields) -> Shape:
    sliding = windows(c, c.count("num_hidden_layers"), lambda layer: layer % 2 == 0)
    softcap = c.any("attn_logit_softcapping") is not None
    return modern(c, activation="gelu", norms=4, norm_place="both", windows=sliding, softcap=softcap)


def _gemma3(c: Fields) -> Shape:
    period = c.count("sliding_window_pattern")
    sliding = windows(c, c.count("num_hidden_layers"), lambda layer: (layer + 1) % period != 0)
    return modern(c, activation="gelu", norms=4, norm_place="both", query_key_norm="head", windows=sliding)


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
    qk_norm = c.flag("qk_layernorm")
    biases = ATTENTION_BIASES | MLP_BIASES | {"head"} | biased(qk_norm, frozenset({"query_key_norm"}))
    return modern(
        c,
        norm="layer",
        norms=1,
        gated=False,
        activation="gelu_new",
        biases=biases,
        query_key_norm="head" if qk_norm else "none",
    )


def _gpt_config(c: Fields, a: Architecture, names: Collection[str]) -> GptConfig:
    """Build the config: rotary positions, RMSNorm, SwiGLU, grouped heads; sliding windows and biases where the architecture has them."""
    from regard.models.gpt import GptConfig

    if c.text("hidden_act") != "silu":
        raise ConfigError(f"config.json has hidden_act {c.text('hidden_act')!r}; expected silu (SwiGLU) in the {a.family} family")
    context = c.count("max_position_embeddings", assume=True)
    window, window_layers = sliding_window(a)
    return GptConfig(
        **sizes(a),
        kv_heads=a.kv_heads,
        head_dim=a.head_dim,
        context=context,
        norm="rms",
        eps=c.number("rms_norm_eps"),
        activation="swiglu",
        positions="rotary",
        rotary=rotary(c, context),
        bias=False,
        qkv_bias="query" in a.biases,
        out_bias="output" in a.biases,
        mlp_bias="up" in a.biases,
        attention_dropout=0.0 if c.any("attention_dropout") is None else c.number("attention_dropout"),
        window=window,
        window_layers=window_layers,
        tied=a.tied if c.stated("tie_word_embeddings") else "lm_head.weight" not in names,
    )


_LOADER = Loader(_gpt_config, llama_tensors)
_RUN: dict[str, Any] = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "attention_dropout": 0.0, **ROTARY}  # for running the model only
_LLAMA = defaults(32000, 4096, 11008, 32, 32, attention_bias=False, mlp_bias=False)
QWEN: dict[str, Any] = {"sliding_window": 4096, "layer_types": None, "use_sliding_window": False, "max_window_layers": 28}

LLAMA_FAMILIES: dict[str, Family] = {
    "cohere": Family(_cohere, defaults(256000, 8192, 22528, 40, 64, tie_word_embeddings=True, attention_bias=False, use_qk_norm=False)),
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
    "granite": Family(_llama, _LLAMA),
    "llama": Family(_llama, _LLAMA | _RUN | {"max_position_embeddings": 2048}, gpt=_LOADER),
    "mistral": Family(
        modern,
        defaults(32000, 4096, 14336, 32, 32, num_key_value_heads=8)
        | _RUN
        | {"sliding_window": 4096, "layer_types": None, "max_position_embeddings": 131_072},
        gpt=_LOADER,
    ),
    "olmo": Family(lambda c: modern(c, norm="none"), defaults(50304, 4096, 11008, 32, 32, attention_bias=False)),
    "olmo2": Family(_olmo2, defaults(50304, 4096, 11008, 32, 32, attention_bias=False)),
    "phi": Family(_phi, defaults(51200, 2048, 8192, 24, 32, qk_layernorm=False)),
    "phi3": Family(lambda c: modern(c, joined_projection=True), defaults(32064, 3072, 8192, 32, 32) | SLIDING),
    "qwen2": Family(_qwen2, defaults(151936, 4096, 22016, 32, 32) | QWEN | _RUN | {"max_position_embeddings": 32_768}, gpt=_LOADER),
    "qwen3": Family(_qwen3, defaults(151936, 4096, 22016, 32, 32, head_dim=128, attention_bias=False) | QWEN),
    "smollm3": Family(
        _llama,
        defaults(128256, 2048, 11008, 36, 16, num_key_value_heads=4, tie_word_embeddings=True, attention_bias=False, mlp_bias=False),
    ),
    "stablelm": Family(_stablelm, defaults(50304, 2560, 6912, 32, 32, use_qkv_bias=False, qk_layernorm=False, use_parallel_residual=False)),
    "starcoder2": Family(
        _starcoder2, defaults(49152, 3072, 12288, 30, 24, num_key_value_heads=2, use_bias=True, tie_word_embeddings=True) | SLIDING
    ),
}
