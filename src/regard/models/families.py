"""Published model families as configurations of our models: their config.json read, and their tensors' names against ours.

A recipe says which of their tensors make one of ours: joined along rows (we keep query, key and value, or gate and value, as one matrix),
transposed first where theirs is stored (in, out).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from regard.layers.positions import Rotary
from regard.models.bert import BertConfig
from regard.models.gpt import GptConfig

__all__ = ["BERT_SPARE", "GPT_FAMILIES", "GPT_SPARE", "Recipe", "bert", "gpt2", "llama"]


@dataclass(frozen=True)
class Recipe:
    """How one of our tensors is made from theirs."""

    sources: tuple[str, ...]
    transpose: bool = False


Recipes = dict[str, Recipe]
Json = Mapping[str, Any]

# Buffers and heads that may lie in a folder and that these models do not need.
GPT_SPARE = ("rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", "lm_head.weight")
BERT_SPARE = ("position_ids", "cls.seq_relationship.", "cls.predictions.decoder.", "classifier.", "pooler.", "cls.")

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


def gpt2(config: Json, names: Collection[str]) -> tuple[GptConfig, Recipes]:
    """GPT-2: learned positions, LayerNorm before each part, maps stored (in, out)."""
    for option in ("scale_attn_by_inverse_layer_idx", "add_cross_attention"):
        if config.get(option):
            raise ValueError(f"config.json sets {option}, which this library's GPT does not have; no published GPT-2 weights need it")
    ours = GptConfig(
        vocabulary=need(config, "vocab_size"),
        d_model=need(config, "n_embd"),
        heads=need(config, "n_head"),
        layers=need(config, "n_layer"),
        context=need(config, "n_positions"),
        hidden=config.get("n_inner"),
        eps=config.get("layer_norm_epsilon", 1e-5),
        activation=cast(Any, activation(config, "activation_function", "gelu_new")),
        dropout=config.get("resid_pdrop", 0.1),
        attention_dropout=config.get("attn_pdrop", 0.1),
        tied=config.get("tie_word_embeddings", True),
    )
    at = "transformer." if any(name.startswith("transformer.") for name in names) else ""
    recipes = {
        "tokens.weight": Recipe((f"{at}wte.weight",)),
        "positions.weight": Recipe((f"{at}wpe.weight",)),
        **pair("norm", f"{at}ln_f"),
    }
    for i in range(ours.layers):
        block, theirs = f"blocks.{i}", f"{at}h.{i}"
        recipes |= pair(f"{block}.attention_norm", f"{theirs}.ln_1") | pair(f"{block}.mlp_norm", f"{theirs}.ln_2")
        recipes[f"{block}.attention.in_proj_weight"] = Recipe((f"{theirs}.attn.c_attn.weight",), transpose=True)
        recipes[f"{block}.attention.in_proj_bias"] = Recipe((f"{theirs}.attn.c_attn.bias",))
        for part, name in (("attention.out_proj", "attn.c_proj"), ("mlp.up", "mlp.c_fc"), ("mlp.down", "mlp.c_proj")):
            recipes[f"{block}.{part}.weight"] = Recipe((f"{theirs}.{name}.weight",), transpose=True)
            recipes[f"{block}.{part}.bias"] = Recipe((f"{theirs}.{name}.bias",))
    return ours, recipes | ({} if ours.tied else {"head.weight": Recipe(("lm_head.weight",))})


def llama(config: Json, names: Collection[str]) -> tuple[GptConfig, Recipes]:
    """Llama, Mistral and Qwen2: rotary positions, RMSNorm, SwiGLU, grouped heads; sliding windows and biases where the config says so."""
    family = config["model_type"]
    if config.get("hidden_act", "silu") != "silu":
        raise ValueError(f"config.json has hidden_act {config['hidden_act']!r}; the {family} family is read with silu (SwiGLU) only")
    heads, layers = need(config, "num_attention_heads"), need(config, "num_hidden_layers")
    context = config.get("max_position_embeddings", {"llama": 2048, "mistral": 131_072, "qwen2": 32_768}[family])
    window, window_layers = _windows(config, family, layers)
    both = bool(config.get("attention_bias", False))
    ours = GptConfig(
        vocabulary=need(config, "vocab_size"),
        d_model=need(config, "hidden_size"),
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim"),
        layers=layers,
        context=context,
        hidden=need(config, "intermediate_size"),
        norm="rms",
        eps=config.get("rms_norm_eps", 1e-6),
        activation="swiglu",
        positions="rotary",
        rotary=rotary(config, context),
        bias=False,
        qkv_bias=True if family == "qwen2" else both,
        out_bias=both,
        mlp_bias=bool(config.get("mlp_bias", False)),
        attention_dropout=config.get("attention_dropout", 0.0) or 0.0,
        window=window,
        window_layers=window_layers,
        tied=config.get("tie_word_embeddings", "lm_head.weight" not in names),
    )
    at = "model." if any(name.startswith("model.") for name in names) else ""
    recipes = {"tokens.weight": Recipe((f"{at}embed_tokens.weight",)), "norm.weight": Recipe((f"{at}norm.weight",))}
    for i in range(layers):
        block, theirs = f"blocks.{i}", f"{at}layers.{i}"
        attention, mlp = f"{theirs}.self_attn", f"{theirs}.mlp"
        recipes[f"{block}.attention_norm.weight"] = Recipe((f"{theirs}.input_layernorm.weight",))
        recipes[f"{block}.mlp_norm.weight"] = Recipe((f"{theirs}.post_attention_layernorm.weight",))
        for kind, wanted in (("weight", True), ("bias", ours.qkv_bias)):
            if wanted:
                recipes[f"{block}.attention.in_proj_{kind}"] = Recipe(tuple(f"{attention}.{x}_proj.{kind}" for x in "qkv"))
        for kind, wanted in (("weight", True), ("bias", ours.out_bias)):
            if wanted:
                recipes[f"{block}.attention.out_proj.{kind}"] = Recipe((f"{attention}.o_proj.{kind}",))
        for kind, wanted in (("weight", True), ("bias", ours.mlp_bias)):
            if wanted:
                recipes[f"{block}.mlp.up.{kind}"] = Recipe((f"{mlp}.gate_proj.{kind}", f"{mlp}.up_proj.{kind}"))
                recipes[f"{block}.mlp.down.{kind}"] = Recipe((f"{mlp}.down_proj.{kind}",))
    return ours, recipes | ({} if ours.tied else {"head.weight": Recipe(("lm_head.weight",))})


def bert(config: Json, names: Collection[str]) -> tuple[BertConfig, Recipes]:
    """BERT: LayerNorm after each part, learned positions and segments; the pooled vector and the masked head if the folder has them."""
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise ValueError("config.json describes a BERT used as a decoder; only the encoder is read")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ValueError(f"config.json has position_embedding_type {config['position_embedding_type']!r}; only 'absolute' is read")
    at = "bert." if any(name.startswith("bert.") for name in names) else ""
    head = "cls.predictions"
    ours = BertConfig(
        vocabulary=need(config, "vocab_size"),
        d_model=need(config, "hidden_size"),
        heads=need(config, "num_attention_heads"),
        layers=need(config, "num_hidden_layers"),
        context=need(config, "max_position_embeddings"),
        hidden=need(config, "intermediate_size"),
        types=config.get("type_vocab_size", 2),
        eps=config.get("layer_norm_eps", 1e-12),
        activation=cast(Any, activation(config, "hidden_act", "gelu")),
        dropout=config.get("hidden_dropout_prob", 0.1),
        attention_dropout=config.get("attention_probs_dropout_prob", 0.1),
        pooled=f"{at}pooler.dense.weight" in names,
        masked=f"{head}.transform.dense.weight" in names,
    )
    embeddings = f"{at}embeddings"
    recipes = {
        "tokens.weight": Recipe((f"{embeddings}.word_embeddings.weight",)),
        "positions.weight": Recipe((f"{embeddings}.position_embeddings.weight",)),
        **({"types.weight": Recipe((f"{embeddings}.token_type_embeddings.weight",))} if ours.types else {}),
        **pair("embedding_norm", f"{embeddings}.LayerNorm"),
        **(pair("pooler", f"{at}pooler.dense") if ours.pooled else {}),
    }
    if ours.masked:
        recipes |= pair("head.dense", f"{head}.transform.dense") | pair("head.norm", f"{head}.transform.LayerNorm")
        recipes["head.bias"] = Recipe((f"{head}.bias",))
    for i in range(ours.layers):
        block, theirs = f"blocks.{i}", f"{at}encoder.layer.{i}"
        for kind in ("weight", "bias"):
            parts = tuple(f"{theirs}.attention.self.{name}.{kind}" for name in ("query", "key", "value"))
            recipes[f"{block}.attention.in_proj_{kind}"] = Recipe(parts)
        recipes |= pair(f"{block}.attention.out_proj", f"{theirs}.attention.output.dense")
        recipes |= pair(f"{block}.attention_norm", f"{theirs}.attention.output.LayerNorm")
        recipes |= pair(f"{block}.mlp.up", f"{theirs}.intermediate.dense") | pair(f"{block}.mlp.down", f"{theirs}.output.dense")
        recipes |= pair(f"{block}.mlp_norm", f"{theirs}.output.LayerNorm")
    return ours, recipes


GPT_FAMILIES: dict[str, Callable[[Json, Collection[str]], tuple[GptConfig, Recipes]]] = {
    "gpt2": gpt2,
    "llama": llama,
    "mistral": llama,
    "qwen2": llama,
}


def rotary(config: Json, context: int) -> Rotary:
    """Rotary positions from `rope_parameters`, or from the older `rope_theta` and `rope_scaling`."""
    given: dict[str, Any] = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind = given.get("rope_type", given.get("type", "default"))
    base: Any = given.get("rope_theta", config.get("rope_theta", 10_000.0))
    fraction: Any = given.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    original = given.get("original_max_position_embeddings") or context
    if kind == "default":
        return Rotary(base, fraction)
    if kind == "linear":
        return Rotary(base, fraction, "linear", need(given, "factor"))
    if kind == "llama3":
        low, high = need(given, "low_freq_factor"), need(given, "high_freq_factor")
        return Rotary(base, fraction, "llama3", need(given, "factor"), original, low, high)
    if kind == "yarn" and not given.get("mscale") and not given.get("mscale_all_dim"):
        turns: dict[str, Any] = {"fast": given.get("beta_fast") or 32.0, "slow": given.get("beta_slow") or 1.0}
        sharpen, truncate = given.get("attention_factor"), given.get("truncate", True)
        return Rotary(base, fraction, "yarn", need(given, "factor"), original, **turns, sharpen=sharpen, truncate=truncate)
    raise ValueError(f"config.json scales rotary positions by {kind!r} ({given}); default, linear, llama3 and yarn are read")


def need(config: Json, key: str) -> Any:
    if config.get(key) is None:
        raise ValueError(f"config.json lacks {key!r}, which says how large the model is; take config.json from where the weights came from")
    return config[key]


def activation(config: Json, key: str, default: str) -> str:
    name = config.get(key, default)
    if name not in _ACTIVATIONS:
        raise ValueError(f"config.json has {key} {name!r}; {', '.join(_ACTIVATIONS)} are read")
    return _ACTIVATIONS[name]


def pair(ours: str, theirs: str) -> Recipes:
    return {f"{ours}.{kind}": Recipe((f"{theirs}.{kind}",)) for kind in ("weight", "bias")}


def _windows(config: Json, family: str, layers: int) -> tuple[int | None, tuple[int, ...] | None]:
    """The sliding window and the layers that have it (None: all)."""
    window: int | None = config.get("sliding_window", {"llama": None, "mistral": 4096, "qwen2": 4096}[family])
    if family == "llama" or window is None or (family == "qwen2" and not config.get("use_sliding_window", False)):
        return None, None
    if family == "mistral":
        return window, None
    kinds = config.get("layer_types")
    if kinds is None:
        return window, tuple(range(config.get("max_window_layers", 28), layers))
    return window, tuple(i for i, kind in enumerate(kinds) if kind == "sliding_attention")
