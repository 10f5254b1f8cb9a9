"""Tiny random models of transformers: the default config of a family with its sizes made small, and inputs that fit."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

# Sizes by the name of a config's field. Heads times head width is the hidden size everywhere.
HIDDEN, HEADS, LAYERS, WIDE, VOCABULARY = 32, 4, 2, 37, 120
SIZES: dict[str, int] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "encoder_hidden_size", "decoder_hidden_size"), HIDDEN),
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
}  # fmt: skip


def tiny_config(kind: type, overrides: dict[str, Any] | None = None) -> Any:
    """Return a config of this class with small sizes; nested configs are made small too. `overrides` may name fields as "text_config.x"."""
    overrides = overrides or {}
    probe = kind()
    options: dict[str, Any] = {}
    for name, size in SIZES.items():
        value = getattr(probe, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and (value > size or name in ("pad_token_id", "vocab_size")):
            options[probe.attribute_map.get(name, name) if name in probe.attribute_map else name] = size
    if isinstance(spread := getattr(probe, "initializer_range", None), float) and spread < 0.01:
        options["initializer_range"] = 0.02  # smaller ones make every attention uniform
    for name in getattr(probe, "sub_configs", {}):
        part = getattr(probe, name, None)
        if part is not None:
            nested = {key[len(name) + 1 :]: value for key, value in overrides.items() if key.startswith(name + ".")}
            options[name] = tiny_config(type(part), nested).to_dict()
    layers = options.get("num_hidden_layers", getattr(probe, "num_hidden_layers", LAYERS))
    types = getattr(probe, "layer_types", None)
    if isinstance(types, list | tuple) and types and isinstance(layers, int):
        options["layer_types"] = _layer_types(list(types), layers)
    options |= {key: value for key, value in overrides.items() if "." not in key}
    return kind(**options)


def _layer_types(types: list[str], layers: int) -> list[str]:
    """Return as many layer types as there are layers, with every kind of attention among them."""
    kinds = list(dict.fromkeys(types))
    return [kinds[i % len(kinds)] for i in range(layers)]


def inputs_of(model: nn.Module, length: int = 12, batch: int = 2) -> dict[str, Any]:
    """Return inputs for a model, by the names of its forward's arguments."""
    generator = torch.Generator().manual_seed(0)
    config = model.config
    names = set(inspect.signature(model.forward).parameters)
    main = model.main_input_name
    vocabulary = _field(config, "vocab_size") or VOCABULARY
    ids = torch.randint(5, min(vocabulary, VOCABULARY), (batch, length), generator=generator)
    inputs: dict[str, Any] = {}
    if "input_ids" in names and main in ("input_ids", "pixel_values", "input_values"):
        inputs["input_ids"] = ids
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = torch.randint(5, min(vocabulary, VOCABULARY), (batch, 7), generator=generator)
    if "pixel_values" in names and (main == "pixel_values" or "vision_config" in getattr(config, "sub_configs", {})):
        inputs["pixel_values"] = _pixels(model, batch, generator)
    if main == "input_values":
        inputs = {"input_values": torch.randn(batch, 2000, generator=generator)}
    if main == "input_features":
        bins = _field(config, "num_mel_bins") or _field(config, "feature_size") or 80
        frames = 2 * (_field(config, "max_source_positions") or 32)
        inputs["input_features"] = torch.randn(batch, bins, frames, generator=generator)
    return inputs or {main: ids}


def _pixels(model: nn.Module, batch: int, generator: torch.Generator) -> torch.Tensor:
    config = getattr(model.config, "vision_config", model.config)
    size, channels = _field(config, "image_size") or 64, _field(config, "num_channels") or 3
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return torch.randn(batch, channels, height, width, generator=generator)


def _field(config: Any, name: str) -> Any:
    """Return a field of a config, or of one inside it."""
    value = getattr(config, name, None)
    if value is not None:
        return value
    for part in getattr(config, "sub_configs", {}):
        inner = getattr(config, part, None)
        value = None if inner is None else _field(inner, name)
        if value is not None:
            return value
    return None
