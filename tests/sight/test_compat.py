"""A quick slice of `make compat`: families of transformers that compute attention themselves, as its script checks them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="pip install transformers to compare with its models")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "compat"))

import by_hand
import families
import torch
from check import check, difference, largest_difference, same_bits

from regard.sight import watch

QUICK = ["mpt", "gpt_neo", "roformer", "swinv2", "falcon", "moonshine", "bridgetower", "squeezebert", "bamba", "yoso"]
QUICK += ["qwen3_next", "qwen4_exp", "kimi_linear"]  # recurrent attention; an indexer that reads rows of the mask
SLOW = [
    "gptj",
    "bloom",
    "xlnet",
    "deberta-v2",
    "mpnet",
    "led",
    "longformer",
    "xglm",
    "fsmt",
    "layoutlmv3",
    "perceiver",
    "llama",
    "t5",
    "vit",
]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
@pytest.mark.filterwarnings("ignore")
def test_family(name: str) -> None:
    model, inputs = families.build(name)
    found = check(model, lambda m: m(**inputs), eager=lambda m: m(**inputs, output_attentions=True))
    assert found["seen"] > 0
    assert (found["missed"], found["unseen"]) == ([], [])
    assert found["own"]
    assert found["proof"]
    assert found["output"] < 1e-5
    assert (found["in eager mode"] or 0.0) < 1e-5
    assert found["weights"] is None or found["weights"] < 1e-5
    what_if: Any = found["what-if"]
    assert isinstance(what_if, str) or (what_if["muted"] > 0 and what_if["neutral"] < 1e-5)


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "idefics3"])  # a picture; a list of patches; several pictures
@pytest.mark.filterwarnings("ignore")
def test_pictures_reach_the_model(name: str) -> None:
    model, inputs = families.build(name)
    assert "pixel_values" in inputs
    with watch(model) as seen, torch.no_grad():
        model(**inputs)
    assert any("vision" in layer.name or "visual" in layer.name for layer in seen)
    assert any("language" in layer.name or "text" in layer.name for layer in seen)


@pytest.mark.parametrize("name", by_hand.MODELS)
def test_attention_written_by_hand(name: str) -> None:
    model, inputs = by_hand.MODELS[name]()
    with watch(model) as seen:
        model(*inputs)
    count = 0 if name.startswith("no attention") else 1
    assert (len(seen), seen.missed) == (count, ())
    assert all(recorded.proof.holds for recorded in seen)


def test_outputs_that_are_not_numbers_are_compared() -> None:
    a, nan = torch.tensor([1.0, 2.0]), torch.tensor([1.0, torch.nan])
    assert same_bits(nan, nan.clone())
    assert not same_bits(a, nan)
    assert largest_difference([a], [nan]) == float("inf")
    assert largest_difference([nan], [nan]) == 0


def test_weights_are_compared_row_by_row() -> None:
    p = torch.rand(1, 2, 4, 5).softmax(-1)
    assert difference(p, p, lambda x: x) == 0
    assert difference(p, p.roll(1, 1), lambda x: x) > 1e-3
    mean = p.mean(1, keepdim=True).expand_as(p)  # as WavLM returns them
    assert difference(p, mean, lambda x: x) < 1e-6
    assert difference(p, mean.roll(1, 2), lambda x: x) > 1e-3
    halved, other, all_halved = p.clone(), p.clone(), p / 2
    halved[..., :2] /= 2  # as BigBird returns rows that see a block twice
    other[..., :2] /= 3
    assert difference(p, halved, lambda x: x) == 0
    assert difference(p, other, lambda x: x) > 1e-3
    assert difference(p, all_halved, lambda x: x) > 1e-3
