"""Published models by name, each as the config.json fields that differ from its family's defaults."""

from __future__ import annotations

from typing import Any

from regard.models.published.architecture import Architecture, ConfigError, nearest
from regard.models.published.families import architecture_from_config

Config = dict[str, Any]


def _gpt(layers: int, width: int, heads: int, positions: int = 1024) -> Config:
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": positions}


def _bert(model_type: str, layers: int, width: int, heads: int, **fields: Any) -> Config:
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "intermediate_size": 4 * width}
    return {"model_type": model_type, **sizes, **fields}


def _llama_like(model_type: str, layers: int, width: int, heads: int, kv_heads: int, mlp: int, **fields: Any) -> Config:
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
    return {"model_type": model_type, **sizes, "num_key_value_heads": kv_heads, "intermediate_size": mlp, **fields}


# GPT-3's sizes are Table 2.1 of Brown et al. 2020 (arXiv:2005.14165), with two rows corrected that
# contradict their own parameter counts: "XL" has 16 heads of 128 (not 24) and "13B" a width of 5,120 (not 5,140).
PRESETS: dict[str, Config] = {
    "gpt3-125m": _gpt(12, 768, 12, 2048),
    "gpt3-350m": _gpt(24, 1024, 16, 2048),
    "gpt3-760m": _gpt(24, 1536, 16, 2048),
    "gpt3-1.3b": _gpt(24, 2048, 16, 2048),
    "gpt3-2.7b": _gpt(32, 2560, 32, 2048),
    "gpt3-6.7b": _gpt(32, 4096, 32, 2048),
    "gpt3-13b": _gpt(40, 5120, 40, 2048),
    "gpt3": _gpt(96, 12288, 96, 2048),
    "gpt2": _gpt(12, 768, 12),
    "gpt2-medium": _gpt(24, 1024, 16),
    "gpt2-large": _gpt(36, 1280, 20),
    "gpt2-xl": _gpt(48, 1600, 25),
    "bert-base": _bert("bert", 12, 768, 12),
    "bert-large": _bert("bert", 24, 1024, 16),
    "minilm": _bert("bert", 6, 384, 12),
    "distilbert-base": {"model_type": "distilbert"},
    "roberta-base": _bert("roberta", 12, 768, 12, max_position_embeddings=514, type_vocab_size=1),
    "roberta-large": _bert("roberta", 24, 1024, 16, max_position_embeddings=514, type_vocab_size=1),
    "albert-base": _bert("albert", 12, 768, 12),
    "t5-small": {"model_type": "t5"},
    "t5-base": {"model_type": "t5", "d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
    "bart-large": {"model_type": "bart"},
    "opt-6.7b": _bert("opt", 32, 4096, 32, ffn_dim=16384),
    "bloom-176b": {"model_type": "bloom", "n_layer": 70, "hidden_size": 14336, "n_head": 112},
    "falcon-7b": {"model_type": "falcon"},
    "pythia-1.4b": _bert("gpt_neox", 24, 2048, 16, vocab_size=50304),
    "phi-2": _llama_like("phi", 32, 2560, 32, 32, 10240),
    "phi-3-mini": _llama_like("phi3", 32, 3072, 32, 32, 8192, sliding_window=2047),
    "llama-2-7b": _llama_like("llama", 32, 4096, 32, 32, 11008),
    "llama-2-13b": _llama_like("llama", 40, 5120, 40, 40, 13824),
    "llama-2-70b": _llama_like("llama", 80, 8192, 64, 8, 28672),
    "llama-3-8b": _llama_like("llama", 32, 4096, 32, 8, 14336, vocab_size=128256),
    "llama-3-70b": _llama_like("llama", 80, 8192, 64, 8, 28672, vocab_size=128256),
    "llama-3.1-405b": _llama_like("llama", 126, 16384, 128, 8, 53248, vocab_size=128256),
    "llama-3.2-1b": _llama_like("llama", 16, 2048, 32, 8, 8192, vocab_size=128256, tie_word_embeddings=True),
    "llama-3.2-3b": _llama_like("llama", 28, 3072, 24, 8, 8192, vocab_size=128256, tie_word_embeddings=True),
    "smollm2-135m": _llama_like("llama", 30, 576, 9, 3, 1536, vocab_size=49152, tie_word_embeddings=True),
    "smollm2-360m": _llama_like("llama", 32, 960, 15, 5, 2560, vocab_size=49152, tie_word_embeddings=True),
    "smollm2-1.7b": _llama_like("llama", 24, 2048, 32, 32, 8192, vocab_size=49152, tie_word_embeddings=True),
    "mistral-7b": _llama_like("mistral", 32, 4096, 32, 8, 14336, sliding_window=4096),
    "mistral-7b-v0.3": _llama_like("mistral", 32, 4096, 32, 8, 14336, vocab_size=32768, sliding_window=None),
    "mixtral-8x7b": _llama_like("mixtral", 32, 4096, 32, 8, 14336),
    "mixtral-8x22b": _llama_like("mixtral", 56, 6144, 48, 8, 16384, vocab_size=32768),
    "qwen2-0.5b": _llama_like("qwen2", 24, 896, 14, 2, 4864, tie_word_embeddings=True),
    "qwen2-1.5b": _llama_like("qwen2", 28, 1536, 12, 2, 8960, tie_word_embeddings=True),
    "qwen2-7b": _llama_like("qwen2", 28, 3584, 28, 4, 18944, vocab_size=152064),
    "qwen2-72b": _llama_like("qwen2", 80, 8192, 64, 8, 29568, vocab_size=152064),
    "qwen3-0.6b": _llama_like("qwen3", 28, 1024, 16, 8, 3072, tie_word_embeddings=True),
    "qwen3-1.7b": _llama_like("qwen3", 28, 2048, 16, 8, 6144, tie_word_embeddings=True),
    "qwen3-4b": _llama_like("qwen3", 36, 2560, 32, 8, 9728, tie_word_embeddings=True),
    "qwen3-8b": _llama_like("qwen3", 36, 4096, 32, 8, 12288),
    "qwen3-14b": _llama_like("qwen3", 40, 5120, 40, 8, 17408),
    "qwen3-32b": _llama_like("qwen3", 64, 5120, 64, 8, 25600),
    "qwen3-30b-a3b": _llama_like("qwen3_moe", 48, 2048, 32, 4, 6144, head_dim=128),
    "qwen3-235b-a22b": _llama_like("qwen3_moe", 94, 4096, 64, 4, 12288, head_dim=128, moe_intermediate_size=1536),
    "gemma-2b": _llama_like("gemma", 18, 2048, 8, 1, 16384),
    "gemma-7b": _llama_like("gemma", 28, 3072, 16, 16, 24576),
    "gemma-2-2b": _llama_like("gemma2", 26, 2304, 8, 4, 9216),
    "gemma-2-9b": _llama_like("gemma2", 42, 3584, 16, 8, 14336),
    "gemma-2-27b": _llama_like("gemma2", 46, 4608, 32, 16, 36864, head_dim=128),
    "gemma-3-270m": _llama_like("gemma3_text", 18, 640, 4, 1, 2048, vocab_size=262144, sliding_window=512),
    "gemma-3-1b": _llama_like("gemma3_text", 26, 1152, 4, 1, 6912, vocab_size=262144, sliding_window=512),
    "gemma-3-4b": _llama_like("gemma3_text", 34, 2560, 8, 4, 10240, sliding_window=1024),
    "gemma-3-12b": _llama_like("gemma3_text", 48, 3840, 16, 8, 15360, sliding_window=1024),
    "gemma-3-27b": _llama_like("gemma3_text", 62, 5376, 32, 16, 21504, head_dim=128, sliding_window=1024),
    "deepseek-v2-lite": _llama_like("deepseek_v2", 27, 2048, 16, 16, 10944, q_lora_rank=None, moe_intermediate_size=1408)
    | {"num_experts_per_tok": 6, "first_k_dense_replace": 1},
    "deepseek-v3": {"model_type": "deepseek_v3"},
    "gpt-oss-20b": _llama_like("gpt_oss", 24, 2880, 64, 8, 2880, num_local_experts=32),
    "gpt-oss-120b": {"model_type": "gpt_oss"},
}

ALIASES = {"gpt3-175b": "gpt3", "gpt2-small": "gpt2", "bert": "bert-base", "llama-3": "llama-3-8b", "mixtral": "mixtral-8x7b"}


def presets() -> list[str]:
    """Return the names of all presets.

    >>> "gpt3" in presets()
    True
    """
    return list(PRESETS)


def preset(name: str) -> Architecture:
    """Return the architecture of a preset; case does not matter, and "_" equals "-".

    >>> preset("GPT3").layers
    96
    >>> preset("gpt-33")
    Traceback (most recent call last):
        ...
    regard.models.published.architecture.ConfigError: no model is called 'gpt-33'; did you mean gpt3 or gpt3-13b or gpt3-350m?
    """
    normalised = name.lower().replace("_", "-")
    normalised = ALIASES.get(normalised, normalised)
    if normalised not in PRESETS:
        raise ConfigError(f"no model is called {name!r}{nearest(normalised, PRESETS) or '; `regard plan list` lists all names'}")
    return architecture_from_config(PRESETS[normalised], normalised)
