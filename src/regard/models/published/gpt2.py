"""GPT-2 and the other decoder families before Llama."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from regard.models.published.architecture import ATTENTION_BIASES, MLP_BIASES, Architecture, ConfigError
from regard.models.published.decoder_fields import biased, defaults, modern
from regard.models.published.family import Family, Loader, Shape, activation, sizes
from regard.models.published.fields import Fields
from regard.models.published.tensors import gpt2_tensors

if TYPE_CHECKING:
    from regard.models.gpt import GptConfig

__all__ = ["GPT2_FAMILIES"]


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
    biases = MLP_BIASES | biased(c.flag("attention_bias"), ATTENTION_BIASES)
    return modern(c, norm="layer", gated=False, activation="gelu", biases=biases, joined_projection=True)


def _opt(c: Fields) -> Shape:
    pre_norm = c.flag("do_layer_norm_before")
    return {
        "layers": c.count("num_hidden_layers"),
        "width": c.count("hidden_size"),
        "heads": c.count("num_attention_heads"),
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.count("ffn_dim"),
        "positions": c.count("max_position_embeddings") + 2,  # the first two rows are unused
        "embedding_projection": "both" if c.size("word_embed_proj_dim") not in (0, c.count("hidden_size")) else "none",
        "wide_softmax": True,
        "activation": c.text("activation_function"),
        "biases": biased(c.flag("enable_bias"), ATTENTION_BIASES | MLP_BIASES),
        "norm": "layer" if c.flag("layer_norm_elementwise_affine") else "none",
        "norm_place": "before" if pre_norm else "after",
        "final_norm": pre_norm and not c.flag("_remove_final_layer_norm"),
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
    new_decoder, heads = c.flag("new_decoder_architecture"), c.count("num_attention_heads")
    kv_heads = c.size("num_kv_heads") if new_decoder else (1 if c.flag("multi_query") else heads)
    two_norms = not c.flag("parallel_attn") or (c.any("num_ln_in_parallel_attn") or (2 if new_decoder else 1)) == 2
    return {
        "layers": c.count("num_hidden_layers"),
        "width": c.count("hidden_size"),
        "heads": heads,
        "kv_heads": kv_heads,
        "vocabulary": c.count("vocab_size"),
        "mlp_width": c.size("ffn_hidden_size"),
        "position": "alibi" if c.flag("alibi") else "rotary",
        "biases": biased(c.flag("bias"), ATTENTION_BIASES | MLP_BIASES),
        "norms": 2 if two_norms else 1,
        "tied": c.flag("tie_word_embeddings"),
    }


def _gpt_config(c: Fields, a: Architecture, names: Collection[str]) -> GptConfig:
    """Build the config: pre-norm LayerNorm, learned positions."""
    from regard.models.gpt import GptConfig

    if c.flag("scale_attn_by_inverse_layer_idx"):
        raise ConfigError("config.json sets scale_attn_by_inverse_layer_idx, which `Gpt` does not support; expected false")
    return GptConfig(
        **sizes(a),
        context=a.positions,
        eps=c.number("layer_norm_epsilon"),
        activation=activation(c, "activation_function"),
        dropout=c.number("resid_pdrop"),
        attention_dropout=c.number("attn_pdrop"),
        tied=a.tied,
    )


_GPT2_ALIASES = {
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
_RUN: dict[str, Any] = {  # fields that matter only for running the model
    "layer_norm_epsilon": 1e-5,
    "resid_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "scale_attn_by_inverse_layer_idx": False,
}
_BLOOM_ALIASES = {"n_embed": "hidden_size", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}

GPT2_FAMILIES: dict[str, Family] = {
    "bloom": Family(
        _bloom, {"vocab_size": 250880, "hidden_size": 64, "n_layer": 2, "n_head": 8, "tie_word_embeddings": True}, _BLOOM_ALIASES
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
    "gpt2": Family(_gpt2, _GPT2 | _RUN, _GPT2_ALIASES, gpt=Loader(_gpt_config, gpt2_tensors)),
    "gpt_bigcode": Family(_gpt2, _GPT2 | {"multi_query": True}, _GPT2_ALIASES),
    "gpt_neox": Family(_gpt_neox, defaults(50432, 6144, 24576, 44, 64, attention_bias=True)),
    "gptj": Family(
        _gptj,
        _GPT2 | {"vocab_size": 50400, "n_positions": 2048, "n_embd": 4096, "n_layer": 28, "n_head": 16, "tie_word_embeddings": False},
        _GPT2_ALIASES,
    ),
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
}
