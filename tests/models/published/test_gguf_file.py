"""GGUF files written here with the gguf package's own writer, against transformers on the weights they were made from."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers
from gguf import GGMLQuantizationType as Kind

from regard.models.gpt import Gpt

IDS = torch.randint(0, 96, (2, 24), generator=torch.Generator().manual_seed(1))
SMALL = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
}


def peer_of(config: transformers.PretrainedConfig) -> torch.nn.Module:
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.2 * noise if "norm" in name and name.endswith("weight") else 0.15 * noise)
    return model.eval()


def permute(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """The order llama.cpp keeps llama's query and key rows in: pairs that turn together lie side by side."""
    half = rows.shape[0] // heads // 2
    order = [head * 2 * half + part * half + i for head in range(heads) for i in range(half) for part in range(2)]
    return rows[order]


def write(
    path: Path, peer: torch.nn.Module, kind: Kind = Kind.F32, *, tied: bool = False, extra: dict[str, np.ndarray] | None = None
) -> None:
    """Write a llama or qwen2 model; matrices are quantised to `kind`, vectors stay float32."""
    config, architecture = peer.config, peer.config.model_type
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model("llama")
    writer.add_token_list([f"t{i}" for i in range(config.vocab_size)])
    parts = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    for name, tensor in peer.state_dict().items():
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
        if architecture == "llama" and heads:
            tensor = permute(tensor, heads)
        theirs = name.removeprefix("model.").replace("layers.", "blk.").replace("embed_tokens", "token_embd").replace("lm_head", "output")
        theirs = "output_norm.weight" if theirs == "norm.weight" else theirs
        for long, short in parts.items():
            theirs = theirs.replace(long, short)
        if theirs == "output.weight" and tied:
            continue
        values = tensor.detach().float().numpy()
        if tensor.dim() > 1 and kind != Kind.F32:
            writer.add_tensor(theirs, gguf.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(theirs, values)
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("config", [transformers.LlamaConfig, transformers.Qwen2Config])
@pytest.mark.parametrize("tied", [False, True])
def test_unquantised_files_match_transformers(config, tied, tmp_path):
    peer = peer_of(config(**SMALL, tie_word_embeddings=tied))
    write(tmp_path / "model.gguf", peer, tied=tied)
    model = Gpt.from_folder(tmp_path / "model.gguf")
    with torch.no_grad():
        torch.testing.assert_close(model(IDS), peer(IDS).logits, rtol=0, atol=1e-4)
    assert model.config.tied == tied


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1])
def test_quantised_files_match_transformers_on_the_same_rounded_weights(kind, tmp_path):
    peer = peer_of(transformers.LlamaConfig(**SMALL))
    write(tmp_path / "model.gguf", peer, kind)
    with torch.no_grad():
        exact = peer(IDS).logits
        for parameter in peer.parameters():
            if parameter.dim() > 1:  # rounding works on rows, so it commutes with their order
                parameter.copy_(torch.from_numpy(gguf.dequantize(gguf.quantize(parameter.numpy(), kind), kind).copy()))
        got = Gpt.from_folder(tmp_path / "model.gguf")(IDS)
        torch.testing.assert_close(got, peer(IDS).logits, rtol=0, atol=1e-4)
    assert (got - exact).abs().max() > 1e-4


def test_q6_k_blocks_are_read(tmp_path):
    """gguf writes no Q6_K, so blocks are laid down by hand: 256 weights as 4 + 2 bits, 16 scales, one half-precision scale."""
    config = transformers.LlamaConfig(**SMALL | {"hidden_size": 256, "intermediate_size": 256})
    peer = peer_of(config)
    generator = np.random.default_rng(0)
    blocks = generator.integers(0, 256, (96, 210), dtype=np.uint8)
    blocks[:, 192:208] = generator.integers(1, 30, (96, 16), dtype=np.uint8)
    blocks[:, 208:] = np.full((96, 1), 1e-3, dtype=np.float16).view(np.uint8)
    values = torch.from_numpy(gguf.dequantize(blocks, Kind.Q6_K))
    with torch.no_grad():
        peer.model.embed_tokens.weight.copy_(values)
        write(tmp_path / "model.gguf", peer)
        reader = gguf.GGUFReader(str(tmp_path / "model.gguf"))
        copy = gguf.GGUFWriter(str(tmp_path / "q6.gguf"), "llama")
        for name, field in reader.fields.items():
            if name.startswith("llama."):
                copy.add_key_value(name, field.contents(), field.types[0])
        for tensor in reader.tensors:
            if tensor.name == "token_embd.weight":
                copy.add_tensor(tensor.name, blocks, raw_dtype=Kind.Q6_K)
            else:
                copy.add_tensor(tensor.name, np.array(tensor.data))
        copy.write_header_to_file()
        copy.write_kv_data_to_file()
        copy.write_tensors_to_file()
        copy.close()
        torch.testing.assert_close(Gpt.from_folder(tmp_path / "q6.gguf")(IDS), peer(IDS).logits, rtol=0, atol=1e-4)


def test_stretched_frequencies_in_the_file_are_used(tmp_path):
    """Llama 3's scaling reaches GGUF as a tensor of divisors."""
    scaling = {"rope_type": "llama3", "rope_theta": 1000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    peer = peer_of(transformers.LlamaConfig(**SMALL | {"rope_parameters": scaling | {"original_max_position_embeddings": 32}}))
    plain = 1000.0 ** (-np.arange(0, 16, 2) / 16)
    divisors = (plain / peer.model.rotary_emb.inv_freq.numpy()).astype(np.float32)
    write(tmp_path / "model.gguf", peer, extra={"rope_freqs.weight": divisors})
    with torch.no_grad():
        torch.testing.assert_close(Gpt.from_folder(tmp_path / "model.gguf")(IDS), peer(IDS).logits, rtol=0, atol=1e-4)
    assert divisors.max() > 3.9


def test_gpt2_files_match_transformers(tmp_path):
    config = transformers.GPT2Config(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2)
    peer = peer_of(config)
    writer = gguf.GGUFWriter(str(tmp_path / "model.gguf"), "gpt2")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(128)
    writer.add_head_count(4)
    writer.add_layer_norm_eps(1e-5)
    names = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm"}
    names |= {"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down", "h.": "blk."}
    for name, tensor in peer.transformer.state_dict().items():
        turned = tensor.t() if name.endswith("weight") and (".c_" in name) else tensor
        for long, short in names.items():
            name = name.replace(long, short)
        writer.add_tensor(name, np.ascontiguousarray(turned.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with torch.no_grad():
        torch.testing.assert_close(Gpt.from_folder(tmp_path / "model.gguf")(IDS), peer(IDS).logits, rtol=0, atol=1e-4)


def test_files_that_cannot_be_read_say_why(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Gpt.from_folder(tmp_path / "nowhere.gguf")
    writer = gguf.GGUFWriter(str(tmp_path / "rwkv.gguf"), "rwkv6")
    writer.add_block_count(1)
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ValueError, match="architecture 'rwkv6'; expected one of llama, qwen2, gpt2"):
        Gpt.from_folder(tmp_path / "rwkv.gguf")
    (tmp_path / "text.gguf").write_text("not a model at all, but long enough to be looked at")
    with pytest.raises(ValueError, match="not a GGUF file"):
        Gpt.from_folder(tmp_path / "text.gguf")


def test_a_file_cut_short_is_said_to_be(tmp_path):
    write(tmp_path / "model.gguf", peer_of(transformers.LlamaConfig(**SMALL)))
    whole = (tmp_path / "model.gguf").read_bytes()
    for share in (0.02, 0.5, 0.99):
        (tmp_path / "model.gguf").write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(ValueError, match="is not a GGUF file or is incomplete"):
            Gpt.from_folder(tmp_path / "model.gguf")
