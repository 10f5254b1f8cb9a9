"""Which tensors of a published folder make each tensor of this library's models.

A recipe names their tensors: joined along rows (we keep query, key and value, or gate and value, as one matrix), transposed first
where theirs is stored (in, out).
"""

from collections.abc import Collection
from dataclasses import dataclass

from regard.models.bert import BertConfig
from regard.models.gpt import GptConfig

__all__ = ["BERT_UNUSED", "GPT_UNUSED", "Recipe", "Recipes", "bert_tensors", "gpt2_tensors", "llama_tensors", "pair"]


@dataclass(frozen=True)
class Recipe:
    """How one of our tensors is made from theirs."""

    sources: tuple[str, ...]
    transpose: bool = False


Recipes = dict[str, Recipe]

# Buffers and heads that may lie in a folder and that these models do not need.
GPT_UNUSED = ("rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias")
BERT_UNUSED = ("position_ids", "cls.seq_relationship.", "cls.predictions.decoder.", "classifier.", "pooler.", "cls.")


def pair(ours: str, theirs: str) -> Recipes:
    """The weight and the bias of one part."""
    return {f"{ours}.{kind}": Recipe((f"{theirs}.{kind}",)) for kind in ("weight", "bias")}


def gpt2_tensors(config: GptConfig, names: Collection[str]) -> Recipes:
    """GPT-2: maps stored (in, out), query, key and value already one matrix."""
    at = "transformer." if any(name.startswith("transformer.") for name in names) else ""
    recipes = {
        "tokens.weight": Recipe((f"{at}wte.weight",)),
        "positions.weight": Recipe((f"{at}wpe.weight",)),
        **pair("norm", f"{at}ln_f"),
    }
    for i in range(config.layers):
        block, theirs = f"blocks.{i}", f"{at}h.{i}"
        recipes |= pair(f"{block}.attention_norm", f"{theirs}.ln_1") | pair(f"{block}.mlp_norm", f"{theirs}.ln_2")
        recipes[f"{block}.attention.in_proj_weight"] = Recipe((f"{theirs}.attn.c_attn.weight",), transpose=True)
        recipes[f"{block}.attention.in_proj_bias"] = Recipe((f"{theirs}.attn.c_attn.bias",))
        for part, name in (("attention.out_proj", "attn.c_proj"), ("mlp.up", "mlp.c_fc"), ("mlp.down", "mlp.c_proj")):
            recipes[f"{block}.{part}.weight"] = Recipe((f"{theirs}.{name}.weight",), transpose=True)
            recipes[f"{block}.{part}.bias"] = Recipe((f"{theirs}.{name}.bias",))
    return recipes | ({} if config.tied else {"head.weight": Recipe(("lm_head.weight",))})


def llama_tensors(config: GptConfig, names: Collection[str]) -> Recipes:
    """Llama, Mistral and Qwen2: one matrix each for query, key, value, gate and up; biases where the config has them."""
    at = "model." if any(name.startswith("model.") for name in names) else ""
    recipes = {"tokens.weight": Recipe((f"{at}embed_tokens.weight",)), "norm.weight": Recipe((f"{at}norm.weight",))}
    for i in range(config.layers):
        block, theirs = f"blocks.{i}", f"{at}layers.{i}"
        attention, mlp = f"{theirs}.self_attn", f"{theirs}.mlp"
        recipes[f"{block}.attention_norm.weight"] = Recipe((f"{theirs}.input_layernorm.weight",))
        recipes[f"{block}.mlp_norm.weight"] = Recipe((f"{theirs}.post_attention_layernorm.weight",))
        for kind, wanted in (("weight", True), ("bias", config.qkv_bias)):
            if wanted:
                recipes[f"{block}.attention.in_proj_{kind}"] = Recipe(tuple(f"{attention}.{x}_proj.{kind}" for x in "qkv"))
        for kind, wanted in (("weight", True), ("bias", config.out_bias)):
            if wanted:
                recipes[f"{block}.attention.out_proj.{kind}"] = Recipe((f"{attention}.o_proj.{kind}",))
        for kind, wanted in (("weight", True), ("bias", config.mlp_bias)):
            if wanted:
                recipes[f"{block}.mlp.up.{kind}"] = Recipe((f"{mlp}.gate_proj.{kind}", f"{mlp}.up_proj.{kind}"))
                recipes[f"{block}.mlp.down.{kind}"] = Recipe((f"{mlp}.down_proj.{kind}",))
    return recipes | ({} if config.tied else {"head.weight": Recipe(("lm_head.weight",))})


def bert_tensors(config: BertConfig, names: Collection[str]) -> Recipes:
    """BERT: the pooled vector and the masked-token head if the config has them."""
    at = "bert." if any(name.startswith("bert.") for name in names) else ""
    head = "cls.predictions"
    embeddings = f"{at}embeddings"
    recipes = {
        "tokens.weight": Recipe((f"{embeddings}.word_embeddings.weight",)),
        "positions.weight": Recipe((f"{embeddings}.position_embeddings.weight",)),
        **({"types.weight": Recipe((f"{embeddings}.token_type_embeddings.weight",))} if config.types else {}),
        **pair("embedding_norm", f"{embeddings}.LayerNorm"),
        **(pair("pooler", f"{at}pooler.dense") if config.pooled else {}),
    }
    if config.masked:
        recipes |= pair("head.dense", f"{head}.transform.dense") | pair("head.norm", f"{head}.transform.LayerNorm")
        recipes["head.bias"] = Recipe((f"{head}.bias",))
    for i in range(config.layers):
        block, theirs = f"blocks.{i}", f"{at}encoder.layer.{i}"
        for kind in ("weight", "bias"):
            parts = tuple(f"{theirs}.attention.self.{name}.{kind}" for name in ("query", "key", "value"))
            recipes[f"{block}.attention.in_proj_{kind}"] = Recipe(parts)
        recipes |= pair(f"{block}.attention.out_proj", f"{theirs}.attention.output.dense")
        recipes |= pair(f"{block}.attention_norm", f"{theirs}.attention.output.LayerNorm")
        recipes |= pair(f"{block}.mlp.up", f"{theirs}.intermediate.dense") | pair(f"{block}.mlp.down", f"{theirs}.output.dense")
        recipes |= pair(f"{block}.mlp_norm", f"{theirs}.output.LayerNorm")
    return recipes
