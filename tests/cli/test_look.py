"""`regard look`: what it prints, what it writes, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import regard
from made_models import gguf_file

from regard.sight import Sighting
from regard.training.runs import train
from regard.zoo import open as open_model

transformers = pytest.importorskip("transformers", reason="pip install transformers to open its models")
transformers.logging.set_verbosity_error()
WORDS = ["the", "FBI", "is", "chasing", "a", "criminal", "on", "run", ".", "I", "love", "China", "我", "爱", "中", "国"]
TINY = "d_model = 32\nlayers = 2\nheads = 2\n"


def run(*arguments: object) -> Any:
    return regard("look", *arguments)


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *WORDS, *(f"w{i}" for i in range(80))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("models") / "tiny-gpt2"
    config = transformers.GPT2Config(
        vocab_size=100,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=32,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


def test_a_transformers_folder(folder: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("r.json", "r.safetensors")]
    result = run(folder, "--text", "the FBI is chasing a criminal", "--out", files[0], "--out", files[1])
    assert result.exit_code == 0, result.output
    assert "tiny-gpt2: 2 layers × 4 heads, 6 × 6 tokens, exact" in result.stdout
    assert "(unwatched" in result.stdout
    assert "✓" in result.stdout
    assert "transformer.h.1.attn" in result.stdout
    about = json.loads(files[0].read_text(encoding="utf-8"))
    assert about["tokens"] == [["the", "FBI", "is", "chasing", "a", "criminal"]]
    sighting = Sighting.load(files[1])
    assert sighting.model == "tiny-gpt2"
    assert torch.allclose(sighting.head(1, 3).tile().sum(-1), torch.ones(6), atol=1e-5)
    assert sighting[0].labels is not None


def test_a_file_longer_than_the_model_reads(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "long.txt"
    text.write_text("我 爱 中 国 " * 20, encoding="utf-8")
    result = run(folder, "--file", text, "--no-baseline", "--no-labels", "--kernel", "own", "--proof", "full")
    assert result.exit_code == 0, result.output
    assert "reading the first 32 of 80 tokens" in result.output
    assert "32 × 32 tokens" in result.stdout
    assert "unwatched" not in result.stdout
    assert "sdpa; readings by" in result.stdout
    assert "8 × 8 tokens" in run(folder, "--file", text, "--tokens", 8, "--no-labels").stdout


def test_drawing_in_the_terminal(folder: Path) -> None:
    result = run(folder, "--text", "我 爱 中 国", "--no-labels", "--draw", "--head", "1.2")
    assert result.exit_code == 0, result.output
    plain = run(folder, "--text", "我 爱 中 国", "--no-labels").stdout
    assert "国" in result.stdout[len(plain) - 20 :]
    assert "国" not in plain
    assert "give a layer and a head" in run(folder, "--text", "我", "--no-labels", "--head", "first").output
    assert "was not recorded" in run(folder, "--text", "我", "--no-labels", "--head", "9.0").output


def test_a_model_without_readable_attention_exits_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.bloom.modeling_bloom import BloomAttention

    def recurrent(self: Any, states: torch.Tensor, residual: torch.Tensor, *rest: Any, **options: Any) -> Any:
        """An attention without weights: a running sum."""
        return self.dense(states.cumsum(1)) + residual, None

    monkeypatch.setattr(BloomAttention, "forward", recurrent)
    torch.manual_seed(0)
    config = transformers.BloomConfig(vocab_size=100, hidden_size=32, n_layer=1, n_head=4, architectures=["BloomModel"])
    transformers.BloomModel(config).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    result = run(tmp_path, "--text", "我 爱 中 国", "--no-labels", "--out", tmp_path / "r.json")
    assert result.exit_code == 1
    assert "NOT CAPTURED: h.0.self_attention (BloomAttention)" in result.stderr
    assert not (tmp_path / "r.json").exists()


def test_an_encoder_decoder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, decoder_start_token_id=0, architectures=["T5Model"]
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    out = tmp_path / "seen.json"
    result = run(tmp_path, "--text", "我 爱 中 国", "--target", "I love China .", "--out", out)
    assert result.exit_code == 0, result.output
    about = json.loads(out.read_text(encoding="utf-8"))
    assert about["source_tokens"] == [["我", "爱", "中", "国"]]
    assert about["tokens"] == [["I", "love", "China", "."]]
    assert [call["kind"] for call in about["calls"]] == ["encoder", "causal", "cross"]
    assert run(tmp_path, "--text", "我 爱 中 国").exit_code == 0


def test_our_own_runs(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("abcdefg\n" * 60, encoding="utf-8")
    config = tmp_path / "config.toml"
    config.write_text(
        f'out = "run"\n[data]\ntrain = "t.txt"\nbatch = 4\n[model]\n{TINY}context = 16\n'
        "[training]\nsteps = 2\nevaluate_every = 2\ncheckpoint_every = 2\n",
        encoding="utf-8",
    )
    _, folder = train("lm", config)
    result = run(folder, "--text", "abcdef", "--out", tmp_path / "seen.json")
    assert result.exit_code == 0, result.output
    assert "run: 2 layers × 2 heads, 6 × 6 tokens" in result.stdout
    assert json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))["tokens"] == [list("abcdef")]
    opened = open_model(folder)
    opened.model.save_folder(tmp_path / "saved")
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        open_model(tmp_path / "saved")


def test_a_translator_of_ours(tmp_path: Path) -> None:
    for name in ("train", "valid"):
        (tmp_path / f"{name}.tsv").write_text("a b c\tc b a\nb c\tc b\n" * 10, encoding="utf-8")
    config = tmp_path / "config.toml"
    config.write_text(
        'out = "run"\n[data]\ntrain = "train.tsv"\nvalid = "valid.tsv"\nbatch_tokens = 100\n\n'
        '[source]\nkind = "word"\n[target]\nkind = "word"\n'
        '[model]\nkind = "transformer"\nd_model = 16\nheads = 2\nencoder_layers = 1\ndecoder_layers = 1\n'
        "[training]\nsteps = 2\nevaluate_every = 2\n[decoding]\nbeam = 1\nmax_length = 10\n",
        encoding="utf-8",
    )
    _, folder = train("translation", config)
    result = run(folder, "--text", "a b c", "--target", "c b a", "--out", tmp_path / "seen.json")
    assert result.exit_code == 0, result.output
    about = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    assert [call["kind"] for call in about["calls"]] == ["encoder", "causal", "cross"]
    assert [len(about[name][0]) for name in ("source_tokens", "tokens")] == [3, 4]
    assert run(folder, "--text", "a b c", "--no-labels").exit_code == 0


def test_wrong_arguments_are_errors(folder: Path, tmp_path: Path) -> None:
    for arguments, message in [
        ((folder,), "--text"),
        ((folder, "--text", "the", "--file", folder / "config.json"), "--text"),
        ((folder, "--text", "the", "--out", "r.docx"), "the name of a report must end in"),
        ((folder, "--text", "the", "--kernel", "mine"), "auto or own"),
        ((tmp_path / "nothing", "--text", "the"), "there is no model"),
        ((tmp_path, "--text", "the"), "no config.json"),
    ]:
        result = run(*arguments)
        assert result.exit_code == 2
        assert message in result.output
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4
    )
    transformers.ViTModel(config).save_pretrained(tmp_path / "vit")
    result = run(tmp_path / "vit", "--text", "the")
    assert result.exit_code == 2
    assert "has no tokenizer" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["look", "shakespeare", "--text", ""], "the text is empty"),
        (["look", "reader", "--text", "Where is Mary?"], "give at least two sentences"),
    ],
)
def test_bad_texts_are_errors(words: list[str], message: str) -> None:
    result = regard(*words)
    assert result.exit_code == 2
    assert message in result.output
    assert not result.stdout
    assert "Traceback" not in result.output


def test_looking_at_a_gguf_file_and_at_a_translator(two_translators: Path, tmp_path: Path) -> None:
    result = regard("look", gguf_file(tmp_path / "small.gguf"), "--text", "hello 12", "--no-labels")
    assert result.exit_code == 0, result.output
    assert "small: 1 layers × 4 heads, 6 × 6 tokens" in result.stdout
    assert "test-zh" in regard("look", "test-zh", "--text", "我爱书", "--no-labels").stdout
