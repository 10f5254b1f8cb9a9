"""Cost: the page's counts are the plan's, presets are names and never paths, and bad configs are told."""

import json
import re
from typing import Any

import pytest

from regard.cost import Workload, plan


def test_gpt3_as_the_textbooks_count_it(studio: Any) -> None:
    data = studio.post("/api/cost/plan", json={}).json()["plan"]
    assert data["textbook_total"]["value"] == 175_181_291_520
    assert data["total"]["value"] == 174_604_259_328
    assert data["pieces"]["one query matrix"]["value"] == 1_572_864
    assert data["textbook"]["query"]["numbers"] == "12,288 · 128 · 96 · 96"


def test_growth_is_the_plan_at_each_context(studio: Any) -> None:
    request = {"preset": "llama-2-7b", "batch": 2, "dtype": "fp16"}
    data = studio.post("/api/cost/plan", json=request).json()["growth"]
    place = data["context"].index(4096)
    costs = plan("llama-2-7b", Workload(batch=2, context=4096, dtype="fp16"))
    assert data["cache"][place] == sum(q.value for q in costs.cache.values())
    assert data["dense"][place] == costs.memory["dense"]["activations"].value
    assert data["flops"][place] == costs.steps["prefill"].flops.value


def test_a_pasted_config_is_counted(studio: Any) -> None:
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
    }
    data = studio.post("/api/cost/plan", json={"config": config, "mode": "train"}).json()["plan"]
    assert data["total"]["value"] == plan(config).total.value
    assert "train" in data["steps"]


@pytest.mark.parametrize("preset", ["/etc/passwd", "../../etc", "config.json", "", "gpt4"])
def test_a_preset_is_a_name(studio: Any, preset: str) -> None:
    answer = studio.post("/api/cost/plan", json={"preset": preset})
    assert answer.status_code == 422
    assert "no preset" in answer.json()["message"]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "unheard-of"},
        {"model_type": "gpt2", "n_layer": "many"},
        {"model_type": "gpt2", "n_layer": 10**9},
        {"model_type": "gpt2", "n_layer": 1e9},
        {"model_type": "x", "text_config": {"model_type": "llama", "num_hidden_layers": 10**9}},
        {"text_config": {"text_config": {"model_type": "llama", "num_hidden_layers": 10**9}}},
        {"layers": 10**9, "width": 8, "heads": 1, "vocabulary": 9},
        {"regard": "Gpt", "config": {"vocabulary": 9, "layers": 10**9}},
        {"model_type": "gpt2", "n_embd": 10**15},
        {"model_type": ["gpt2"]},
        {"model_type": "gpt2", "n_head": 0},
        {"regard": "Gpt", "config": {}},
        {"text_config": None},
        json.loads('{"layers": 1, "width": {"a": []}}'),
    ],
)
def test_a_config_that_makes_no_sense_is_an_error(studio: Any, config: dict[str, Any]) -> None:
    answer = studio.post("/api/cost/plan", json={"config": config})
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid"
    assert answer.json()["message"]


@pytest.mark.parametrize("counting", ["textbook", "stored"])
def test_parameters_and_bytes_are_of_the_same_count(studio: Any, counting: str) -> None:
    data = studio.post("/api/cost/plan", json={"preset": "gpt2", "counting": counting, "dtype": "fp16"}).json()["plan"]
    assert data["memory"]["streamed"]["weights"]["value"] == 2 * data["total"]["value"]
    assert data["total"]["value"] == (162_129_408 if counting == "textbook" else 124_439_808)


def test_formulas_are_whole_and_without_phrases(studio: Any) -> None:
    for preset in ("gpt3", "gemma-2-9b", "deepseek-v3", "t5-base"):
        costs = studio.post("/api/cost/plan", json={"preset": preset}).json()["plan"]
        for parts in (costs["parameters"], *(step["needed"] for step in costs["steps"].values()), *costs["memory"].values()):
            for symbol in re.findall(r"[a-z_]{2,}", " ".join(part["formula"] for part in parts.values())):
                assert symbol.count("_") < 2 or symbol == "layers_of_", symbol  # "full_attention_layers" is a phrase too
        text = json.dumps(costs, ensure_ascii=False)
        assert "…" not in text
        for formula in re.findall(r'"formula": "([^"]*)"', text):
            assert not re.search(r"[A-Za-z]{2,} [A-Za-z]{2,}", formula), formula  # two words in a row are a phrase
