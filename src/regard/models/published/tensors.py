"""Which tensors of a published folder make each tensor of this library's models.

This library keeps query, key and value, and the gate and value of SwiGLU, as one matrix each: published ones are concatenated along
rows. Matrices stored as (in, out) are transposed first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.models.bert import BertConfig
    from regard.models.gpt import GptConfig

__all__ = ["BERT_UNUSED", "GPT_UNUSED", "TensorMap", "TensorSource", "bert_tensors", "gpt2_tensors", "llama_tensors", "weight_and_bias"]


@dataclass(frozen=True)
class TensorSource:
    """The published tensors one tensor of a model is made from: concatenated along rows, after transposing if `transpose`."""

    names: tuple[str, ...]
    transpose: bool = False


TensorMap = dict[str, TensorSource]  # a tensor of this library's model → the published ones

# Parts of the names of buffers and heads that a folder may contain and these models do not use.
GPT_UNUSED = ("rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias")
BERT_UNUSED = ("position_ids", "cls.seq_relationship.", "cls.predictions.decoder.", "classifier.", "pooler.", "cls.")


def weight_and_bias(name: str, published: str) -> TensorMap:
    """Map the weight and the bias of a layer `name` to those of the layer `published`."""
    return {f"{name}.{kind}": TensorSource((f"{published}.{kind}",)) for kind in ("weight", "bias")}


def gpt2_tensors(config: GptConfig, names: Collection[str]) -> TensorMap:
    """Map GPT-2: matrices are stored as (in, out); query, key and value are already one."""
    prefix = "transformer." if any(name.startswith("transformer.") for name in names) else ""
    tensor_map = {
        "tokens.weight": TensorSource((f"{prefix}wte.weight",)),
        "positions.weight": TensorSource((f"{prefix}wpe.weight",)),
        **weight_and_bias("norm", f"{prefix}ln_f"),
    }
    for i in range(config.layers):
        block, layer = f"blocks.{i}", f"{prefix}h.{i}"
        tensor_map |= weight_and_bias(f"{block}.attention_norm", f"{layer}.ln_1") | weight_and_bias(f"{block}.mlp_norm", f"{layer}.ln_2")
        tensor_map[f"{block}.attention.in_proj_weight"] = TensorSource((f"{layer}.attn.c_attn.weight",), transpose=True)
        tensor_map[f"{block}.attention.in_proj_bias"] = TensorSource((f"{layer}.attn.c_attn.bias",))
        for part, name in (("attention.out_proj", "attn.c_proj"), ("mlp.up", "mlp.c_fc"), ("mlp.down", "mlp.c_proj")):
            tensor_map[f"{block}.{part}.weight"] = TensorSource((f"{layer}.{name}.weight",), transpose=True)
            tensor_map[f"{block}.{part}.bias"] = TensorSource((f"{layer}.{name}.bias",))
    return tensor_map | ({} if config.tied else {"head.weight": TensorSource(("lm_head.weight",))})


def llama_tensors(config: GptConfig, names: Collection[str]) -> TensorMap:
    """Map Llama, Mistral and Qwen2: one matrix each for query, key, value, gate and up; biases where the config has them."""
    prefix = "model." if any(name.startswith("model.") for name in names) else ""
    tensor_map = {"tokens.weight": TensorSource((f"{prefix}embed_tokens.weight",)), "norm.weight": TensorSource((f"{prefix}norm.weight",))}
    for i in range(config.layers):
        block, layer = f"blocks.{i}", f"{prefix}layers.{i}"
        attention, mlp = f"{layer}.self_attn", f"{layer}.mlp"
        tensor_map[f"{block}.attention_norm.weight"] = TensorSource((f"{layer}.input_layernorm.weight",))
        tensor_map[f"{block}.mlp_norm.weight"] = TensorSource((f"{layer}.post_attention_layernorm.weight",))
        for kind, present in (("weight", True), ("bias", config.qkv_bias)):
            if present:
                tensor_map[f"{block}.attention.in_proj_{kind}"] = TensorSource(tuple(f"{attention}.{x}_proj.{kind}" for x in "qkv"))
        for kind, present in (("weight", True), ("bias", config.out_bias)):
            if present:
                tensor_map[f"{block}.attention.out_proj.{kind}"] = TensorSource((f"{attention}.o_proj.{kind}",))
        for kind, present in (("weight", True), ("bias", config.mlp_bias)):
            if present:
                tensor_map[f"{block}.mlp.up.{kind}"] = TensorSource((f"{mlp}.gate_proj.{kind}", f"{mlp}.up_proj.{kind}"))
                tensor_map[f"{block}.mlp.down.{kind}"] = TensorSource((f"{mlp}.down_proj.{kind}",))
    return tensor_map | ({} if config.tied else {"head.weight": TensorSource(("lm_head.weight",))})


def bert_tensors(config: BertConfig, names: Collection[str]) -> TensorMap:
    """Map BERT, with the pooling layer and the masked-token head if the config has them."""
    prefix = "bert." if any(name.startswith("bert.") for name in names) else ""
    head = "cls.predictions"
    embeddings = f"{prefix}embeddings"
    tensor_map = {
        "tokens.weight": TensorSource((f"{embeddings}.word_embeddings.weight",)),
        "positions.weight": TensorSource((f"{embeddings}.position_embeddings.weight",)),
        **({"types.weight": TensorSource((f"{embeddings}.token_type_embeddings.weight",))} if config.types else {}),
        **weight_and_bias("embedding_norm", f"{embeddings}.LayerNorm"),
        **(weight_and_bias("pooler", f"{prefix}pooler.dense") if config.pooled else {}),
    }
    if config.masked:
        tensor_map |= weight_and_bias("head.dense", f"{head}.transform.dense") | weight_and_bias("head.norm", f"{head}.transform.LayerNorm")
        tensor_map["head.bias"] = TensorSource((f"{head}.bias",))
    for i in range(config.layers):
        block, layer = f"blocks.{i}", f"{prefix}encoder.layer.{i}"
        for kind in ("weight", "bias"):
            parts = tuple(f"{layer}.attention.self.{name}.{kind}" for name in ("query", "key", "value"))
            tensor_map[f"{block}.attention.in_proj_{kind}"] = TensorSource(parts)
        tensor_map |= weight_and_bias(f"{block}.attention.out_proj", f"{layer}.attention.output.dense")
        tensor_map |= weight_and_bias(f"{block}.attention_norm", f"{layer}.attention.output.LayerNorm")
        tensor_map |= weight_and_bias(f"{block}.mlp.up", f"{layer}.intermediate.dense")
        tensor_map |= weight_and_bias(f"{block}.mlp.down", f"{layer}.output.dense")
        tensor_map |= weight_and_bias(f"{block}.mlp_norm", f"{layer}.output.LayerNorm")
    return tensor_map
