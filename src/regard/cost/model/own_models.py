"""Architectures of this library's own models."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from regard.models.published.architecture import ATTENTION_BIASES, MLP_BIASES, Architecture, ConfigError

_ACTIVATIONS = {"gelu_tanh": "gelu", "swiglu": "silu"}


def from_ours(config: Any, name: str = "") -> Architecture:
    """Return the architecture of a GptConfig, BertConfig or TransformerConfig, or of a model that has one.

    >>> from regard.models.gpt import GptConfig
    >>> from_ours(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16)).mlp_width
    128
    """
    config = getattr(config, "config", config)
    kind = type(config).__name__.removesuffix("Config").lower()
    encoder_decoder = kind == "transformer"
    layers = config.decoder_layers if encoder_decoder else config.layers
    qkv, out, mlp = (config.bias if bias is None else bias for bias in (config.qkv_bias, config.out_bias, config.mlp_bias))
    biases = (ATTENTION_BIASES - {"output"} if qkv else frozenset()) | ({"output"} if out else frozenset())
    shape: dict[str, Any] = {
        "layers": layers,
        "width": config.d_model,
        "heads": config.heads,
        "kv_heads": config.kv_heads or 0,
        "head_dim": config.head_dim or 0,
        "vocabulary": config.target_vocabulary if encoder_decoder else config.vocabulary,
        "mlp_width": config.width,
        "gated": config.activation == "swiglu",
        "activation": _ACTIVATIONS.get(config.activation, config.activation),
        "biases": biases | (MLP_BIASES if mlp else frozenset()),
        "norm": "layer" if config.norm == "layer" and config.bias else "gain",
        "norm_place": "before" if config.placement == "pre" else "after",
        "final_norm": config.placement == "pre",
        "position": config.positions,
        "positions": config.context if config.positions == "learned" else 0,
        "windows": tuple(config.window_of(layer) for layer in range(layers)) if not encoder_decoder else (),
        "joined_projection": True,
    }
    if kind == "bert":
        shape |= {"token_types": config.types, "pooler": config.pooled, "embedding_norm": True, "causal": False}
        shape |= {"head": "masked" if config.masked else "none", "biases": shape["biases"] | {"head"}}
    else:
        shape["tied"] = config.tied
    if encoder_decoder:
        shape |= {"encoder_layers": config.encoder_layers, "source_vocabulary": 0 if config.shared else config.source_vocabulary}
    return Architecture(name=name or kind, family="regard", **shape)


def is_ours(config: object) -> bool:
    """Return whether this is a config of this library or a model that has one."""
    config = getattr(config, "config", config)
    return dataclasses.is_dataclass(config) and hasattr(config, "d_model") and hasattr(config, "placement")


def from_saved(saved: Mapping[str, Any], name: str = "") -> Architecture:
    """Return the architecture of a config.json that a model's `save_folder` wrote."""
    from regard.models.bert import BertConfig
    from regard.models.gpt import GptConfig
    from regard.models.model_folder import config_from_dict
    from regard.models.transformer import TransformerConfig

    kinds: dict[str, Any] = {"Gpt": GptConfig, "Bert": BertConfig, "BertClassifier": BertConfig, "Transformer": TransformerConfig}
    if not isinstance(saved["regard"], str) or saved["regard"] not in kinds:
        raise ConfigError(f"field 'regard' is {saved['regard']!r}; expected one of {', '.join(kinds)}")
    try:
        return from_ours(config_from_dict(kinds[saved["regard"]], saved["config"]), name)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"this {saved['regard']} config cannot be read: {error}") from error
