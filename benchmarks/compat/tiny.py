"""Tiny random models of transformers: the default config of a family with its sizes made small."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

# Sizes by the name of a config's field. Heads times head width is the hidden size everywhere.
HIDDEN, HEADS, LAYERS, WIDE, VOCABULARY = 32, 4, 2, 40, 120
FIRST_WORD = 20  # ids below it are special tokens
SIZES: dict[str, int] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "encoder_hidden_size",
        "decoder_hidden_size", "out_hidden_size"), HIDDEN),
    **dict.fromkeys(("embed_dim", "word_embed_proj_dim", "embedding_size", "d_embed", "conv_dim", "lstm_dim", "text_embed_dim"), HIDDEN),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"), HEADS),
    **dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads", "attention_heads"), HEADS),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("head_dim", "d_head", "d_kv", "qkv_dim"), HIDDEN // HEADS),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "depth"), LAYERS),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "num_blocks", "num_hidden_groups"), LAYERS),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "n_inner", "encoder_ffn_dim", "decoder_ffn_dim", "d_inner", "mlp_dim"), WIDE),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "encoder_intermediate_size"), WIDE),
    **dict.fromkeys(("vocab_size", "n_vocab"), VOCABULARY),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions", "max_sequence_length"), 64),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "num_experts_per_token", "moe_top_k"), 2),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("qk_nope_head_dim", "v_head_dim", "qk_rope_head_dim", "qk_head_dim"), 8),
    "image_size": 32, "patch_size": 8, "num_channels": 3, "projection_dim": 16, "type_vocab_size": 2, "num_queries": 6, "num_labels": 3,
    "sliding_window": 8, "num_mel_bins": 16, "attention_window": 4, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "num_frames": 2,
    **dict.fromkeys(("mamba_n_heads", "mamba_num_heads", "linear_num_key_heads", "linear_num_value_heads"), 4),
    **dict.fromkeys(("mamba_d_head", "mamba_head_dim", "mamba_d_state", "mamba_chunk_size", "linear_key_head_dim",
        "linear_value_head_dim"), 16),
}  # fmt: skip
RESNET: dict[str, Any] = {
    "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1],
    "out_features": ["stage2", "stage3", "stage4"],
}  # fmt: skip
_STAGES = {"embed_dim": 16, "depths": [1, 1, 1, 1], "num_heads": [2, 2, 4, 4], "window_size": 4, "image_size": 64, "patch_size": 2}
BY_TYPE: dict[str, dict[str, Any]] = dict.fromkeys(("swin", "maskformer-swin"), _STAGES)  # of configs inside another


def tiny_config(kind: type, overrides: dict[str, Any] | None = None, *, key_heads: int = 2) -> Any:
    """Return a config of this class with small sizes; nested configs are made small too. `overrides` may name fields as "text_config.x",
    and None as a value leaves a field alone. key_heads: heads of keys and values, where the config can have fewer of them.
    """
    overrides = overrides or {}
    probe = kind()
    options: dict[str, Any] = {}
    for name, size in {**SIZES, "num_key_value_heads": key_heads, "num_kv_heads": key_heads}.items():
        value = _value(probe, name)
        is_large = isinstance(value, int) and not isinstance(value, bool) and (value > size or name in ("pad_token_id", "vocab_size"))
        is_unset = value is None and name in ("head_dim", "num_key_value_heads", "vocab_size") and hasattr(kind, name)
        if (is_large or is_unset) and _can_be_set(kind, name):
            options[probe.attribute_map.get(name, name)] = size
    for name in ("image_size", "patch_size"):
        value = _value(probe, name)
        if isinstance(value, list | tuple) and len(value) == 2 and max(value) > SIZES[name]:
            options[name] = [SIZES[name]] * 2
    if isinstance(spread := _value(probe, "initializer_range"), float) and spread < 0.01:
        options["initializer_range"] = 0.02  # smaller ones make every attention uniform
    options |= _special_tokens(probe, kind)
    rope = _value(probe, "rope_parameters")
    if isinstance(rope, dict) and "rope_type" in rope and _has_picture_positions(kind):
        options["rope_parameters"] = {**rope, "mrope_section": [1, 1, 2]}  # together half a head's width
    for name in getattr(probe, "sub_configs", {}):
        part = _value(probe, name)
        if part is not None:
            nested = {key[len(name) + 1 :]: value for key, value in overrides.items() if key.startswith(name + ".")}
            nested = {**BY_TYPE.get(part.model_type, {}), **nested}
            options[name] = _keeping_stages(part, tiny_config(type(part), nested, key_heads=key_heads)).to_dict()
    if type(_value(probe, "backbone_config")).__name__ == "TimmBackboneConfig":
        options |= {"backbone_config": RESNET, "use_timm_backbone": False}
    layers = options.get(probe.attribute_map.get("num_hidden_layers", "num_hidden_layers"), _value(probe, "num_hidden_layers") or LAYERS)
    for name in ("layer_types", "mlp_layer_types"):
        types = _value(probe, name)
        field = probe.attribute_map.get(name, name)
        if isinstance(types, list | tuple) and types and isinstance(layers, int) and _can_be_set(kind, field):
            options[field] = _layer_types(list(types), layers)
    options |= {key: value for key, value in overrides.items() if "." not in key}
    return kind(**{key: value for key, value in options.items() if not (key in overrides and value is None)})


def _keeping_stages(part: Any, tiny: Any) -> Any:
    """Let a tiny backbone return the features of the same stages as the one that its config describes."""
    stages = [stage for stage in _value(part, "out_features") or () if stage in (_value(tiny, "stage_names") or ())]
    if len(stages) > 1:
        tiny.set_output_features_output_indices(out_features=stages, out_indices=None)
    return tiny


def _value(config: Any, name: str) -> Any:
    """Return a field of a config; None if it has none, or one per layer."""
    try:
        return getattr(config, name, None)
    except Exception:
        return None


def _can_be_set(kind: type, name: str) -> bool:
    field = getattr(kind, name, None)
    return not isinstance(field, property) or field.fset is not None


@cache
def _has_picture_positions(kind: type) -> bool:
    """Return whether the model of a config splits rotary positions among time, height and width."""
    source = Path(inspect.getfile(kind))
    model = source.with_name(source.name.replace("configuration_", "modeling_"))
    return model.exists() and 'get("mrope_section"' in model.read_text(encoding="utf-8")


def _special_tokens(probe: Any, kind: type) -> dict[str, int]:
    """Return small ids for tokens that stand for pictures and sound, each its own, below FIRST_WORD."""
    found: dict[str, int] = {}
    for name, value in vars(probe).items():
        is_id = isinstance(value, int) and not isinstance(value, bool) and value >= VOCABULARY
        if is_id and re.search(r"_token(_id|_index|$)", name) and _can_be_set(kind, name):
            found[name] = 3 + len(found)
    return found


def fill_zeros(model: nn.Module) -> None:
    """Give parameters that begin as zero, or nearly, random numbers: behind them no change of attention would show."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.numel() and float(parameter.abs().max()) < 1e-3:
                nn.init.normal_(parameter, std=0.1 if parameter.dim() == 1 else 0.02)


def _layer_types(types: list[str], layers: int) -> list[str]:
    """Return as many layer types as there are layers, with every kind of attention among them."""
    kinds = list(dict.fromkeys(types))
    return [kinds[i % len(kinds)] for i in range(layers)]
