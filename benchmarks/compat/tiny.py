"""Tiny random models of transformers: the default config of a family with its sizes made small, and inputs that fit."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

# Sizes by the name of a config's field. Heads times head width is the hidden size everywhere.
HIDDEN, HEADS, LAYERS, WIDE, VOCABULARY = 32, 4, 2, 40, 120
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
    if isinstance(spread := _value(probe, "initializer_range"), float) and spread < 0.01:
        options["initializer_range"] = 0.02  # smaller ones make every attention uniform
    rope = _value(probe, "rope_parameters")
    if isinstance(rope, dict) and "mrope_section" in rope:
        options["rope_parameters"] = {**rope, "mrope_section": [1, 1, 2]}  # together half a head's width
    for name in getattr(probe, "sub_configs", {}):
        part = _value(probe, name)
        if part is not None:
            nested = {key[len(name) + 1 :]: value for key, value in overrides.items() if key.startswith(name + ".")}
            options[name] = tiny_config(type(part), nested, key_heads=key_heads).to_dict()
    layers = options.get("num_hidden_layers", _value(probe, "num_hidden_layers") or LAYERS)
    types = _value(probe, "layer_types")
    if isinstance(types, list | tuple) and types and isinstance(layers, int) and _can_be_set(kind, "layer_types"):
        options["layer_types"] = _layer_types(list(types), layers)
    options |= {key: value for key, value in overrides.items() if "." not in key}
    return kind(**{key: value for key, value in options.items() if not (key in overrides and value is None)})


def _value(config: Any, name: str) -> Any:
    """Return a field of a config; None if it has none, or one per layer."""
    try:
        return getattr(config, name, None)
    except Exception:
        return None


def _can_be_set(kind: type, name: str) -> bool:
    field = getattr(kind, name, None)
    return not isinstance(field, property) or field.fset is not None


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


def inputs_of(model: nn.Module, length: int = 12, batch: int = 2, pictures: str = "one") -> dict[str, Any]:
    """Return inputs for a model, by the names of its forward's arguments. pictures: "one", "several" (one more axis) or "none"."""
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
    has_pictures = main == "pixel_values" or "vision_config" in getattr(config, "sub_configs", {})
    if "pixel_values" in names and has_pictures and pictures != "none":
        pixels = _pixels(model, batch, generator)
        inputs["pixel_values"] = pixels.unsqueeze(1).repeat(1, 2, 1, 1, 1) if pictures == "several" else pixels
    if "bbox" in names and "input_ids" in inputs:
        inputs["bbox"] = torch.zeros(batch, length, 4, dtype=torch.int64)
    if main == "inputs" and _field(config, "d_model"):
        inputs["inputs"] = torch.randn(batch, length, _field(config, "d_model"), generator=generator)
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
    value = _value(config, name)
    if value is not None:
        return value
    for part in getattr(config, "sub_configs", {}):
        inner = getattr(config, part, None)
        value = None if inner is None else _field(inner, name)
        if value is not None:
            return value
    return None
