"""Counts from the headers of files, not_parameters the count from the config."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from regard.cost import ConfigError, plan
from regard.cost.model.sources import find
from regard.cost.model.weight_headers import read_stored_weights

_LLAMA = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def _published(tmp_path: Path, family: str, fields: dict[str, Any], *, shard: str | None = None) -> tuple[Path, int]:
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[family](**fields, pad_token_id=0))
    folder = tmp_path / "published"
    model.save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
    return folder, sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("family", "fields"), [("llama", _LLAMA), ("gpt2", {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4})])
def test_a_published_folder_and_its_file(tmp_path: Path, family: str, fields: dict[str, Any]) -> None:
    folder, count = _published(tmp_path, family, fields)
    for path in (folder, folder / "model.safetensors"):
        a, stored = find(path)
        assert stored is not None
        assert stored.count == plan(a).total.value == count
        assert stored.bytes == 4 * count
        assert stored.dtypes() == {"f32": count}
        assert a.name == "published"


def test_shards_are_counted_together_and_a_missing_one_is_named(tmp_path: Path) -> None:
    folder, count = _published(tmp_path, "llama", _LLAMA, shard="20KB")
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) > 2
    assert read_stored_weights(folder).count == count
    files[1].unlink()
    with pytest.raises(ConfigError, match=rf"1 are missing, the first is {files[1].name}"):
        read_stored_weights(folder)


def test_only_the_header_is_read(tmp_path: Path) -> None:
    """A header that promises 4 TB and no data behind it: counted all the same."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [1_000_000, 1_000_000], "data_offsets": [0, 4_000_000_000_000]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    assert read_stored_weights(path).count == 10**12


def test_tied_copies_and_buffers_are_told_apart(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=16)
    model = GPT2LMHeadModel(config)
    tensors = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    count = sum(tensor.numel() for tensor in tensors.values())
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone()  # as older files have it
    for layer in range(2):
        tensors[f"transformer.h.{layer}.attn.bias"] = torch.ones(1, 1, 16, 16)
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    save_file(tensors, tmp_path / "model.safetensors")
    a, stored = find(tmp_path)
    assert stored is not None
    not_parameters = {reason: sum(t.count for t in tensors) for reason, tensors in stored.not_parameters(a).items()}
    assert not_parameters == {"tied copies of the embedding": 50 * 32, "causal masks": 2 * 256}
    assert stored.count - sum(not_parameters.values()) == plan(a).total.value == count


def test_a_folder_of_our_own(tmp_path: Path) -> None:
    from regard.models.gpt import Gpt, GptConfig

    model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=4, layers=2, context=16))
    model.save_folder(tmp_path / "mine")
    a, stored = find(tmp_path / "mine")
    assert stored is not None
    assert stored.count == plan(a).total.value == sum(p.numel() for p in model.parameters())


def test_a_gguf_file(tmp_path: Path) -> None:
    import gguf
    import numpy as np

    width, mlp, vocabulary = 32, 64, 40
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(mlp)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    shapes = {"token_embd.weight": (vocabulary, width), "output_norm.weight": (width,), "blk.0.attn_norm.weight": (width,)}
    shapes |= {"blk.0.ffn_norm.weight": (width,), "blk.0.attn_q.weight": (width, width), "blk.0.attn_output.weight": (width, width)}
    shapes |= {f"blk.0.attn_{part}.weight": (width // 2, width) for part in "kv"}
    shapes |= {f"blk.0.ffn_{part}.weight": (mlp, width) for part in ("gate", "up")} | {"blk.0.ffn_down.weight": (width, mlp)}
    for name, shape in shapes.items():
        writer.add_tensor(name, np.zeros(shape, np.float16 if len(shape) > 1 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    a, stored = find(path)
    assert stored is not None
    assert a.name == "tiny"
    assert stored.count == plan(a).total.value == sum(int(np.prod(shape)) for shape in shapes.values())
    assert set(stored.dtypes()) == {"f16", "f32"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged or not a safetensors file"),
        (b"\xff" * 16, "not a safetensors file: its header would be"),
        ((5).to_bytes(8, "little") + b"{bad}", "is damaged or not a safetensors file"),
        ((11).to_bytes(8, "little") + b'{"w": "bad"', "is damaged or not a safetensors file"),
        ((12).to_bytes(8, "little") + b'{"w": "bad"}', "is damaged or not a safetensors file"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken.safetensors"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_stored_weights(path)


def test_weights_without_a_config_and_other_files(tmp_path: Path) -> None:
    save_file({"w": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        find(tmp_path / "model.safetensors")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ConfigError, match=r"expected a \.safetensors or \.gguf"):
        read_stored_weights(tmp_path / "notes.txt")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF not really")
    with pytest.raises(ConfigError, match="GGUF"):
        find(tmp_path / "bad.gguf")
