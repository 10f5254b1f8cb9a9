"""Sources of architectures: names, paths, configs, models; and the errors of wrong ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.cost import Architecture, ConfigError, Workload, plan, presets
from regard.cost.model.sources import architecture


def test_the_public_names() -> None:
    import regard.cost

    assert regard.cost.__all__ == sorted(regard.cost.__all__, key=lambda name: (name[0].islower(), name))
    assert all(hasattr(regard.cost, name) for name in regard.cost.__all__)


def test_presets_cover_the_models_people_ask_for() -> None:
    for start in (
        "gpt3",
        "gpt2",
        "bert",
        "llama-2",
        "llama-3",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen3",
        "gemma-2",
        "gemma-3",
        "deepseek-v3",
    ):
        assert any(name.startswith(start) for name in presets()), start


def test_a_name_a_mapping_an_object_and_a_model_agree(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, GPT2Config

    config = GPT2Config()
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    counts = {
        plan(source).total.value
        for source in ("gpt2", "GPT2", config, config.to_dict(), str(tmp_path / "config.json"), tmp_path / "config.json")
    }
    import torch

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert counts | {plan(model).total.value} == {124_439_808}


def test_our_field_names_as_mapping_or_object() -> None:
    class Config:
        layers, width, heads, vocabulary, gated = 2, 8, 2, 11, True

    fields = {"layers": 2, "width": 8, "heads": 2, "vocabulary": 11, "gated": True, "biases": ["query"], "windows": [3, None]}
    assert architecture(Config()).mlp_width == 32
    assert architecture(fields).windows == (3, None)
    assert architecture(Config()).gated


def test_a_multimodal_config_counts_its_text_part_and_says_so() -> None:
    text = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    a = architecture({"model_type": "llava", "text_config": text})
    assert a.width == 64
    assert "llava" in a.notes[0]


def test_a_head_that_is_not_counted_is_named() -> None:
    a = architecture({"model_type": "bert", "architectures": ["BertForSequenceClassification"]})
    assert a.notes == ("the head of BertForSequenceClassification is not counted",)
    assert a.pooler


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "lama"}, "unknown model_type 'lama'; did you mean llama"),
        ({"hidden_size": 3}, "field 'model_type' is missing"),
        ({"model_type": "llama", "hiden_size": 64}, "unknown field 'hiden_size'; did you mean 'hidden_size'?"),
        ({"model_type": "llama", "hidden_size": "big"}, "field 'hidden_size' is 'big'; expected a whole number from 1 to 100,000,000"),
        ({"model_type": "llama", "hidden_size": 0}, "field 'hidden_size' is 0; expected a whole number"),
        ({"model_type": "llama", "hidden_size": True}, "field 'hidden_size' is True"),
        ({"model_type": "llama", "attention_bias": "yes"}, "field 'attention_bias' is 'yes'; expected true or false"),
        ({"model_type": "llama", "hidden_size": 100, "num_attention_heads": 3}, "width 100 does not divide into 3 heads"),
        ({"model_type": "llama", "num_key_value_heads": 5}, "32 heads cannot share 5 key-value heads"),
        ({"model_type": "gemma2", "layer_types": ["full_attention"]}, "field 'layer_types' .* one entry for each of the 26 layers"),
        ({"model_type": "gemma2", "num_hidden_layers": 1, "layer_types": ["chunked"]}, "has 'chunked'; expected full_attention"),
        ({"model_type": "deepseek_v2"}, "field 'num_experts_per_tok' is missing"),
        ({"model_type": "mixtral", "num_experts_per_tok": 9}, "8 experts need active_experts"),
        ({"model_type": "bert", "is_decoder": True}, "field 'is_decoder' is true; expected false"),
        ({"model_type": "bart", "encoder_ffn_dim": 7}, "field 'encoder_ffn_dim' is 7; expected the decoder's 4096"),
        ({"model_type": "gpt2", "activation_function": 3}, "field 'activation_function' is 3; expected a string"),
        ({"layers": 2, "width": 8, "heads": 2}, "missing vocabulary"),
        ({"layers": 2, "width": 8, "heads": 2, "vocabulary": 9, "gatd": True}, "unknown field 'gatd'; did you mean gated"),
        ({"layers": 2, "width": 8, "heads": 2, "vocabulary": 9, "biases": ["quary"]}, "biases has quary"),
        (
            {"layers": 2, "width": 8, "heads": 2, "vocabulary": 9, "windows": [1]},
            "windows has 1 entries; expected one for each of the 2 layers",
        ),
        ({"layers": -2, "width": 8, "heads": 2, "vocabulary": 9}, "layers is -2"),
        ({"regard": "Gpt", "config": {"vocabulary": 9, "colour": 1}}, "this Gpt config cannot be read: GptConfig has no option colour"),
        ({"regard": "Parrot", "config": {}}, "field 'regard' is 'Parrot'"),
    ],
)
def test_wrong_configs_name_the_field_and_what_was_expected(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(config)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch": 0}, "batch is 0; expected a whole number from 1 to 100,000,000"),
        ({"dtype": "bf61"}, "unknown dtype 'bf61'; did you mean bf16"),
        ({"optimiser": "adamv"}, "unknown optimiser 'adamv'; did you mean adam"),
        ({"context": 10, "generate": 10}, "generate is 10; expected fewer"),
        ({"mode": "dream"}, "mode is 'dream'"),
    ],
)
def test_wrong_workloads(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Workload(**fields)


def test_a_context_beyond_learned_positions_is_refused() -> None:
    with pytest.raises(ConfigError, match="context is 4,096; gpt2 has learned positions for 1,024 tokens only"):
        plan("gpt2", Workload(context=4096))
    with pytest.raises(ConfigError, match="generate is 1024; expected fewer"):
        plan("gpt2", Workload(generate=1024))
    assert plan("llama-2-7b", Workload(context=4096)).steps["prefill"].flops.value > 0


def test_every_number_of_a_plan_explains_itself() -> None:
    def quantities(value: Any) -> list[dict[str, Any]]:
        if isinstance(value, dict):
            if {"value", "formula", "numbers"} <= value.keys():
                return [value]
            return [quantity for item in value.values() for quantity in quantities(item)]
        return []

    numbers = quantities(plan("gemma-2-2b", Workload(context=5000)).to_dict())
    assert len(numbers) > 60
    assert all(each["formula"] and each["numbers"] for each in numbers)
    assert json.dumps(numbers)


@pytest.mark.parametrize("name", presets())
def test_every_preset_can_be_planned_both_ways(name: str) -> None:
    """The FLOPs needed never exceed those of a dense kernel, part by part."""
    for mode in ("infer", "train"):
        costs = plan(name, Workload(batch=2, context=512, mode=mode))  # type: ignore[arg-type]
        for step in costs.steps.values():
            for part, count in step.dense.items():
                assert 0 < step.needed[part].value <= count.value
            assert sum(part.value for part in step.moved.values()) > 0
        assert costs.peak("streamed").value > costs.memory["streamed"]["weights"].value
        assert costs.active.value <= costs.total.value


def test_architecture_is_frozen_and_hashable() -> None:
    a = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5)
    assert hash(a) == hash(Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5))
    with pytest.raises(AttributeError):
        a.layers = 2  # type: ignore[misc]
