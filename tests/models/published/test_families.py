"""One reading of a config.json serves both: what a model costs and what `Gpt` and `Bert` load."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.cost import plan
from regard.models.bert import Bert
from regard.models.gpt import Gpt
from regard.models.published.architecture import ConfigError
from regard.models.published.encoders import ENCODER_FAMILIES
from regard.models.published.families import FAMILIES, GPT_FAMILIES, architecture_from_config, bert_from_config, gpt_from_config
from regard.models.published.fields import Fields, read_json
from regard.models.published.gpt2 import GPT2_FAMILIES
from regard.models.published.llama import LLAMA_FAMILIES
from regard.models.published.mixtures import MIXTURE_FAMILIES

SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 3, "num_attention_heads": 4}
GPT2 = {"model_type": "gpt2", "vocab_size": 96, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}
BERT = {"model_type": "bert", **SIZES, "max_position_embeddings": 40}
IDS = torch.randint(0, 96, (2, 24), generator=torch.Generator().manual_seed(1))


def test_every_family_is_described_once() -> None:
    tables = (GPT2_FAMILIES, LLAMA_FAMILIES, MIXTURE_FAMILIES, ENCODER_FAMILIES)
    assert sum(map(len, tables)) == len(FAMILIES)
    assert GPT_FAMILIES == ("gpt2", "llama", "mistral", "qwen2")
    assert [name for name, family in FAMILIES.items() if family.bert] == ["bert"]


@pytest.mark.parametrize(
    "config",
    [
        GPT2,
        {**GPT2, "n_inner": 40, "tie_word_embeddings": False},
        {"model_type": "llama", **SIZES, "num_key_value_heads": 2, "attention_bias": True, "mlp_bias": True},
        {"model_type": "llama", **SIZES, "head_dim": 16, "tie_word_embeddings": True},
        {"model_type": "mistral", **SIZES, "num_key_value_heads": 1, "sliding_window": 5},
        {"model_type": "qwen2", **SIZES, "use_sliding_window": True, "max_window_layers": 1, "sliding_window": 5},
    ],
    ids=lambda config: f"{config['model_type']}-{len(config)}",
)
def test_what_is_counted_is_what_is_loaded(config: dict[str, Any]) -> None:
    counted = architecture_from_config(config)
    ours, _ = gpt_from_config(config, () if counted.tied else ("lm_head.weight",))
    with torch.device("meta"):
        model = Gpt(ours)
    assert plan(config).total.value == plan(model).total.value == sum(p.numel() for p in model.parameters())
    assert tuple(ours.window_of(layer) for layer in range(ours.layers)) == counted.windows


def test_what_is_counted_of_bert_is_what_is_loaded() -> None:
    ours, tensor_map = bert_from_config(BERT, ("bert.pooler.dense.weight", "cls.predictions.transform.dense.weight"))
    assert ours.pooled
    assert ours.masked
    assert tensor_map["pooler.weight"].names == ("bert.pooler.dense.weight",)
    bare, _ = bert_from_config(BERT, ("pooler.dense.weight",))
    with torch.device("meta"):
        model = Bert(bare)
    assert plan(BERT).total.value == sum(p.numel() for p in model.parameters())


def test_a_cost_assumes_sizes_and_weights_do_not() -> None:
    config = {"model_type": "llama"}
    assert architecture_from_config(config).width == 4096
    with pytest.raises(ConfigError, match="lacks 'num_hidden_layers', a size of the model"):
        gpt_from_config(config, ())
    assert gpt_from_config({"model_type": "llama", **SIZES}, ())[0].context == 2048  # no size of a tensor


def test_other_spellings_are_read_for_weights_too() -> None:
    spelled = {"model_type": "gpt2", "vocab_size": 96, "n_positions": 64}
    spelled |= {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    assert gpt_from_config(spelled, ())[0] == gpt_from_config(GPT2, ())[0]


def test_mistral_with_layer_types_alternates(tmp_path: Path) -> None:
    """As transformers' AutoModel does: it opens such a folder as Ministral."""
    kinds = ["full_attention", "sliding_attention", "full_attention"]
    config = transformers.MinistralConfig(
        **SIZES, num_key_value_heads=2, max_position_embeddings=64, sliding_window=5, head_dim=8, layer_types=kinds, pad_token_id=None
    )
    torch.manual_seed(0)
    peer = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in peer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    peer.save_pretrained(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**about, "model_type": "mistral", "architectures": ["MistralForCausalLM"]}))
    model = Gpt.from_folder(tmp_path)
    assert [model.config.window_of(layer) for layer in range(3)] == [None, 5, None]
    with torch.no_grad():
        torch.testing.assert_close(model(IDS), peer(IDS).logits, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "llama", **SIZES, "rms_norm_epz": 1e-6}, "unknown field 'rms_norm_epz'; did you mean 'rms_norm_eps'?"),
        ({"model_type": "llama", **SIZES, "rms_norm_eps": "small"}, "field 'rms_norm_eps' is 'small'; expected a number, 0 or more"),
        ({"model_type": "llama", **SIZES, "rope_scaling": "linear"}, "field 'rope_scaling' is 'linear'; expected a JSON object"),
        (
            {"model_type": "llama", **SIZES, "rope_scaling": {"type": "linear"}},
            "lacks 'factor'; use the config.json published with the weights",
        ),
        ({"model_type": "qwen2", **SIZES, "use_sliding_window": True, "layer_types": ["x"] * 3}, "has 'x'; expected full_attention"),
        ({**GPT2, "activation_function": "silu"}, "activation_function 'silu'; expected one of gelu, gelu_new, gelu_pytorch_tanh, relu"),
        ({**GPT2, "scale_attn_by_inverse_layer_idx": True}, "sets scale_attn_by_inverse_layer_idx"),
        ({**GPT2, "add_cross_attention": True}, "field 'add_cross_attention' is true"),
        ({**GPT2, "n_head": 5}, "width 32 does not divide into 5 heads"),
    ],
)
def test_what_cannot_be_loaded_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        gpt_from_config(config, ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"is_decoder": True}, "field 'is_decoder' is true; expected false: of the bert family only the encoder is read"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key'; expected 'absolute'"),
        ({"max_position_embeddings": None}, "config.json lacks 'max_position_embeddings'"),
    ],
)
def test_what_cannot_be_loaded_of_bert_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        bert_from_config({**BERT, **change}, ())


def test_fields_tell_what_the_file_states_from_what_is_assumed() -> None:
    c = Fields({"width": 8, "extra": 1}, {"size": 4, "rate": 0.1}, {"width": "size"})
    assert (c.count("size"), c.stated("size"), c.stated("rate"), c.number("rate")) == (8, True, False, 0.1)
    assert "extra" not in c


def test_files_that_are_no_config_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for content, message in (("{", "is not JSON"), ("[1]", "holds a list; expected a JSON object")):
        path.write_text(content)
        with pytest.raises(ConfigError, match=message):
            read_json(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_json(tmp_path)
