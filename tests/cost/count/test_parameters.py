"""Parameter counts against hand counts, textbooks, published numbers and transformers."""

import logging
from typing import Any

import pytest
import torch

from regard.cost import Architecture, plan, presets
from regard.cost.count.parameters import active_total, attention_pieces, grouped, parameter_total, parameters
from regard.cost.model.presets import PRESETS, preset
from regard.models.published.families import FAMILIES, architecture_from_config


def test_a_tiny_model_by_hand() -> None:
    tiny = Architecture("tiny", layers=2, width=6, heads=3, kv_heads=1, vocabulary=5, mlp_width=7, gated=True, positions=4, norm="gain")
    assert {part: count.value for part, count in parameters(tiny).items()} == {
        "token embedding": 5 * 6,
        "position embedding": 4 * 6,
        "query": 2 * 6 * 6,
        "key": 2 * 6 * 2,
        "value": 2 * 6 * 2,
        "output": 2 * 6 * 6,
        "mlp": 2 * 3 * 6 * 7,
        "norms": 2 * 2 * 6 + 6,
    }


def test_gpt3_as_the_textbooks_count_it() -> None:
    textbook = preset("gpt3").textbook()
    pieces = {name: count.value for name, count in attention_pieces(textbook).items()}
    assert pieces["one query matrix"] == pieces["one key matrix"] == 1_572_864
    assert pieces["one value map, whole"] == 150_994_944
    assert pieces["one value map, factored (Value↓ + Value↑)"] == 3_145_728
    assert pieces["one head"] == 6_291_456
    assert pieces["one layer's attention"] == 603_979_776
    groups = grouped(parameters(textbook))
    assert str(groups["attention"]) == "4 · d_model · d_head · heads · layers = 4 · 12,288 · 128 · 96 · 96 = 57,982,058,496"
    assert parameter_total(textbook).value == 175_181_291_520


def test_gpt3_counted_like_gpt2() -> None:
    assert plan("gpt3").total.value == 174_604_259_328


# From the model cards and the papers; parameters only.
_PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "minilm": 22_713_216,
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2-7b": 7_615_616_512,
    "qwen3-30b-a3b": 30_532_122_624,
    "gemma-2-9b": 9_241_705_984,
    "smollm2-135m": 134_515_008,
    "gpt-oss-120b": 116_829_156_672,
}


@pytest.mark.parametrize(("name", "count"), _PUBLISHED.items())
def test_published_counts(name: str, count: int) -> None:
    assert parameter_total(preset(name)).value == count


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16, "n_inner": None}, 559_214_592),
        (
            {"model_type": "opt", "ffn_dim": 4096, "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24}
            | {"word_embed_proj_dim": 512, "do_layer_norm_before": False, "_remove_final_layer_norm": False, "prefix": "</s>"},
            331_196_416,
        ),
        (
            {"model_type": "gpt_oss", "experts_per_token": 4, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_local_experts": 32}
            | {"layer_types": ["sliding_attention", "full_attention"] * 12, "initial_context_length": 4096},
            20_914_757_184,
        ),
        (
            {"model_type": "gemma3", "vision_config": {}, "architectures": ["Gemma3ForConditionalGeneration"]}
            | {"text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}},
            3_880_263_168,
        ),
    ],
)
def test_configs_spelled_as_their_authors_did(config: dict[str, Any], count: int) -> None:
    assert parameter_total(architecture_from_config(config)).value == count


def test_a_mixture_shows_what_a_token_meets() -> None:
    mixtral = preset("mixtral-8x7b")
    idle = 6 * 3 * 4096 * 14336 * 32  # six of eight experts, three maps, 32 layers
    assert active_total(mixtral).value == parameter_total(mixtral).value - idle
    assert active_total(preset("gpt2")).value == parameter_total(preset("gpt2")).value


def _of_transformers(config: dict[str, Any], kind: str) -> int:
    from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

    logging.getLogger("transformers").setLevel(logging.ERROR)
    fields = {name: value for name, value in config.items() if name != "model_type"}
    if kind != "Model" and config["model_type"] in ("t5", "bart"):
        kind = "Seq2Seq"
    classes = {
        "Model": AutoModel,
        "ForCausalLM": AutoModelForCausalLM,
        "ForMaskedLM": AutoModelForMaskedLM,
        "Seq2Seq": AutoModelForSeq2SeqLM,
    }
    with torch.device("meta"):
        model = classes[kind].from_config(CONFIG_MAPPING[config["model_type"]](**fields))
    return sum(parameter.numel() for parameter in model.parameters())


def _kinds(family: str) -> tuple[str, str]:
    return "Model", "ForMaskedLM" if FAMILIES[family].encoder else "ForCausalLM"


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_equals_transformers_at_its_defaults(family: str) -> None:
    """The same count for a config with only its own fields and with all defaults written out: our defaults are transformers'."""
    from transformers import CONFIG_MAPPING

    config: dict[str, Any] = {"model_type": family}
    if family == "deepseek_v2":
        config["num_experts_per_tok"] = 2  # transformers has no default for it
    fields = {name: value for name, value in config.items() if name != "model_type"}
    spelled_out = CONFIG_MAPPING[family](**fields).to_dict()
    for kind in _kinds(family):
        expected = _of_transformers(config, kind)
        named = {"architectures": [f"X{kind}"]}
        assert parameter_total(architecture_from_config({**config, **named})).value == expected
        assert parameter_total(architecture_from_config({**spelled_out, **named})).value == expected


_VARIANTS: list[dict[str, Any]] = [
    {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 8, "tie_word_embeddings": True},
    {"model_type": "llama", "head_dim": 96, "num_key_value_heads": 4},
    {"model_type": "gpt2", "n_inner": 1000, "n_layer": 3},
    {"model_type": "gpt_bigcode", "multi_query": False},
    {"model_type": "gpt_neox", "attention_bias": False, "num_hidden_layers": 3},
    {"model_type": "qwen2", "num_key_value_heads": 8, "use_sliding_window": True, "sliding_window": 128, "max_window_layers": 5},
    {"model_type": "qwen2_moe", "decoder_sparse_step": 2, "mlp_only_layers": [1], "qkv_bias": False},
    {"model_type": "qwen3", "attention_bias": True, "num_key_value_heads": 4},
    {"model_type": "qwen3_moe", "head_dim": 128, "num_hidden_layers": 5, "mlp_only_layers": [0, 3]},
    {"model_type": "gemma3_text", "num_hidden_layers": 8, "attention_bias": True},
    {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 8, "num_attention_heads": 64, "hidden_size": 4096},
    {"model_type": "falcon", "multi_query": False, "parallel_attn": False, "bias": True, "alibi": True},
    {"model_type": "stablelm", "use_qkv_bias": True, "qk_layernorm": True, "num_key_value_heads": 8},
    {"model_type": "stablelm", "use_parallel_residual": True},
    {"model_type": "phi", "qk_layernorm": True, "num_key_value_heads": 8},
    {"model_type": "phi3", "num_key_value_heads": 8, "sliding_window": 2047},
    {"model_type": "cohere", "use_qk_norm": True, "num_key_value_heads": 8, "num_hidden_layers": 4},
    {"model_type": "olmo2", "num_key_value_heads": 8, "attention_bias": True},
    {"model_type": "starcoder2", "use_bias": False},
    {"model_type": "opt", "word_embed_proj_dim": 512, "do_layer_norm_before": False},  # as opt-350m
    {"model_type": "opt", "enable_bias": False, "layer_norm_elementwise_affine": False},
    {"model_type": "deepseek_v3", "num_hidden_layers": 4, "q_lora_rank": None, "attention_bias": True},
    {"model_type": "deepseek_v2", "num_experts_per_tok": 6, "num_hidden_layers": 3, "first_k_dense_replace": 1},
    {"model_type": "gpt_oss", "num_hidden_layers": 4, "attention_bias": False},
    {"model_type": "mixtral", "num_local_experts": 5, "num_hidden_layers": 2},
    {"model_type": "albert", "num_hidden_groups": 3, "embedding_size": 64},
    {"model_type": "electra", "embedding_size": 256},
    {"model_type": "bert", "type_vocab_size": 3, "tie_word_embeddings": False},
    {"model_type": "electra", "tie_word_embeddings": False},
    {"model_type": "distilbert", "tie_word_embeddings": False, "n_layers": 2},
    {"model_type": "t5", "feed_forward_proj": "gated-gelu", "num_decoder_layers": 4},
    {"model_type": "bart", "encoder_layers": 3, "decoder_layers": 5},
]


@pytest.mark.parametrize("config", _VARIANTS, ids=lambda config: "-".join(map(str, list(config)[:2])) + f"-{config['model_type']}")
def test_variants_equal_transformers(config: dict[str, Any]) -> None:
    for kind in _kinds(config["model_type"]):
        assert parameter_total(architecture_from_config({**config, "architectures": [f"X{kind}"]})).value == _of_transformers(config, kind)


@pytest.mark.parametrize("name", presets())
def test_every_preset_equals_transformers(name: str) -> None:
    config = PRESETS[name]
    kind = "Model" if FAMILIES[config["model_type"]].encoder else "ForCausalLM"
    assert parameter_total(preset(name)).value == _of_transformers(config, kind)


def _ours() -> list[Any]:
    from regard.models.bert import Bert, BertConfig
    from regard.models.gpt import Gpt, GptConfig
    from regard.models.transformer import Transformer, TransformerConfig

    llama = {"norm": "rms", "activation": "swiglu", "positions": "rotary", "bias": False, "tied": False, "qkv_bias": True}
    return [
        Gpt(GptConfig(vocabulary=50, d_model=40, heads=4, layers=2, context=64)),
        Gpt(GptConfig(vocabulary=50, d_model=40, heads=4, kv_heads=2, layers=2, context=64, **llama)),
        Gpt(GptConfig(vocabulary=50, d_model=40, heads=4, layers=2, placement="post", bias=False)),
        Bert(BertConfig(vocabulary=50, d_model=32, heads=2, layers=3, context=16)),
        Bert(BertConfig(vocabulary=50, d_model=32, heads=2, layers=3, masked=False, types=0, placement="pre")),
        Transformer(TransformerConfig(source_vocabulary=30, target_vocabulary=40, d_model=32, heads=4)),
        Transformer(
            TransformerConfig(source_vocabulary=40, target_vocabulary=40, d_model=32, heads=4, shared=True, tied=False, placement="post")
        ),
    ]


@pytest.mark.parametrize("index", range(7))
def test_our_own_models(index: int) -> None:
    model = _ours()[index]
    assert plan(model).total.value == sum(parameter.numel() for parameter in model.parameters())
    assert plan(model.config).total.value == plan(model).total.value
