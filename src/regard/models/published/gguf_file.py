"""Load a GGUF file, quantised or not, as a `Gpt`."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.layers.positions import Rotary
from regard.models.gpt import GptConfig
from regard.models.published.fields import reading_config
from regard.models.published.gguf_header import open_gguf
from regard.models.published.tensors import TensorMap, TensorSource, weight_and_bias

__all__ = ["GgufFile", "read_gguf"]

_ARCHITECTURES = ("llama", "qwen2", "gpt2")


class GgufFile:
    """The settings and tensors of a GGUF file; tensors are returned as float32, in the row order of the published weights."""

    def __init__(self, path: Path) -> None:
        reader = open_gguf(path)
        from gguf import dequantize

        self._dequantize = dequantize
        self.where = str(path)
        self._fields = reader.fields
        with reading_config(self.where):
            self.settings: dict[str, Any] = {
                name: field.contents() for name, field in reader.fields.items() if "." in name and not name.startswith("tokenizer.")
            }
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.names: Collection[str] = set(self._tensors)
        self.architecture: str = self.settings.get("general.architecture", "none given")

    def setting(self, key: str, default: Any = None) -> Any:
        """Return a setting of the file's architecture, or the default."""
        value = self.settings.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise ValueError(f"{self.where} lacks the setting {self.architecture}.{key}; the file is not a complete model")
        return value

    def tokenizer(self) -> Any:
        """Return the tokenizer stored in the file (a `tokenizers.Tokenizer`) and the ids that end a text."""
        from regard.models.published.gguf_tokenizer import tokenizer_of

        with reading_config(self.where):
            settings = {name: field.contents() for name, field in self._fields.items() if name.startswith("tokenizer.ggml.")}
            ends = {settings[key] for name in ("eos", "eot") if (key := f"tokenizer.ggml.{name}_token_id") in settings}
            return tokenizer_of(settings, where=self.where), ends

    @property
    def chat_template(self) -> str | None:
        """The Jinja template of conversations, None if the file has none."""
        field = self._fields.get("tokenizer.chat_template")
        return None if field is None else str(field.contents())

    def get(self, name: str) -> Tensor:
        """Return a tensor, dequantised."""
        stored = self._tensors[name]
        try:
            values = self._dequantize(stored.data, stored.tensor_type)
        except NotImplementedError as error:
            raise ValueError(f"{self.where}: {name} is stored as {stored.tensor_type.name}, which the gguf package cannot read") from error
        tensor = torch.from_numpy(values.copy()).float()
        if self.architecture == "llama" and name.endswith(("attn_q.weight", "attn_q.bias", "attn_k.weight", "attn_k.bias")):
            heads = self.setting("attention.head_count")
            heads = heads if "attn_q" in name else self.setting("attention.head_count_kv", heads)
            if len(tensor) % (2 * heads):
                raise ValueError(f"{self.where}: {name} has {len(tensor)} rows, which are not {heads} heads; download it again")
            return _unpermute(tensor, heads)
        return tensor


def read_gguf(path: Path) -> tuple[GptConfig, TensorMap, GgufFile]:
    """Return the config of a `Gpt`, which tensors of the file make the model's, and the file."""
    with reading_config(str(path)):
        return _read_gguf(path)


def _read_gguf(path: Path) -> tuple[GptConfig, TensorMap, GgufFile]:
    file = GgufFile(path)
    if file.architecture not in _ARCHITECTURES:
        raise ValueError(f"{path} holds the architecture {file.architecture!r}; expected one of {', '.join(_ARCHITECTURES)}")
    config = _gpt2(file) if file.architecture == "gpt2" else _llama(file)
    tensor_map = {"tokens.weight": TensorSource(("token_embd.weight",)), "norm.weight": TensorSource(("output_norm.weight",))}
    if not config.tied:
        tensor_map["head.weight"] = TensorSource(("output.weight",))
    for i in range(config.layers):
        tensor_map |= _block(config, f"blocks.{i}", f"blk.{i}")
    if file.architecture == "gpt2":
        tensor_map |= {"positions.weight": TensorSource(("position_embd.weight",)), "norm.bias": TensorSource(("output_norm.bias",))}
    file.names = set(file.names) - {"rope_freqs.weight"}  # already in the config
    return config, tensor_map, file


def _llama(file: GgufFile) -> GptConfig:
    heads, width = file.setting("attention.head_count"), file.setting("embedding_length")
    head_dim = file.setting("attention.key_length", width // heads)
    window = file.settings.get(f"{file.architecture}.attention.sliding_window")
    return GptConfig(
        vocabulary=int(file._tensors["token_embd.weight"].shape[1]),
        d_model=width,
        heads=heads,
        kv_heads=file.setting("attention.head_count_kv", heads),
        head_dim=head_dim,
        layers=file.setting("block_count"),
        context=file.setting("context_length"),
        hidden=file.setting("feed_forward_length"),
        norm="rms",
        eps=file.setting("attention.layer_norm_rms_epsilon"),
        activation="swiglu",
        positions="rotary",
        rotary=_rotary(file, head_dim),
        bias=False,
        qkv_bias="blk.0.attn_q.bias" in file.names,
        out_bias="blk.0.attn_output.bias" in file.names,
        window=window,
        tied="output.weight" not in file.names,
    )


def _gpt2(file: GgufFile) -> GptConfig:
    return GptConfig(
        vocabulary=int(file._tensors["token_embd.weight"].shape[1]),
        d_model=file.setting("embedding_length"),
        heads=file.setting("attention.head_count"),
        layers=file.setting("block_count"),
        context=file.setting("context_length"),
        hidden=file.setting("feed_forward_length"),
        eps=file.setting("attention.layer_norm_epsilon"),
        activation="gelu_tanh",
        tied="output.weight" not in file.names,
    )


def _rotary(file: GgufFile, head_dim: int) -> Rotary:
    base, fraction = file.setting("rope.freq_base", 10_000.0), file.setting("rope.dimension_count", head_dim) / head_dim
    if "rope_freqs.weight" in file.names:
        return Rotary(base, fraction, divisors=tuple(file.get("rope_freqs.weight").tolist()))
    kind = file.setting("rope.scaling.type", "none")
    if kind == "none":
        return Rotary(base, fraction)
    if kind not in ("linear", "yarn"):
        raise ValueError(f"{file.where} has the rotary scaling {kind!r}; expected none, linear or yarn")
    original = file.setting("rope.scaling.original_context_length", file.setting("context_length"))
    return Rotary(base, fraction, kind, file.setting("rope.scaling.factor"), original)


def _block(config: GptConfig, name: str, layer: str) -> TensorMap:
    tensor_map: TensorMap = {}
    if config.norm == "layer":  # gpt2: query, key and value in one matrix, biases everywhere
        for kind in ("weight", "bias"):
            tensor_map[f"{name}.attention.in_proj_{kind}"] = TensorSource((f"{layer}.attn_qkv.{kind}",))
        for part, stored in (
            ("attention_norm", "attn_norm"),
            ("attention.out_proj", "attn_output"),
            ("mlp_norm", "ffn_norm"),
            ("mlp.up", "ffn_up"),
            ("mlp.down", "ffn_down"),
        ):
            tensor_map |= weight_and_bias(f"{name}.{part}", f"{layer}.{stored}")
        return tensor_map
    tensor_map[f"{name}.attention_norm.weight"] = TensorSource((f"{layer}.attn_norm.weight",))
    tensor_map[f"{name}.mlp_norm.weight"] = TensorSource((f"{layer}.ffn_norm.weight",))
    tensor_map[f"{name}.attention.in_proj_weight"] = TensorSource(tuple(f"{layer}.attn_{x}.weight" for x in "qkv"))
    tensor_map[f"{name}.attention.in_proj_bias"] = TensorSource(tuple(f"{layer}.attn_{x}.bias" for x in "qkv"))
    tensor_map |= weight_and_bias(f"{name}.attention.out_proj", f"{layer}.attn_output")
    tensor_map[f"{name}.mlp.up.weight"] = TensorSource((f"{layer}.ffn_gate.weight", f"{layer}.ffn_up.weight"))
    tensor_map[f"{name}.mlp.down.weight"] = TensorSource((f"{layer}.ffn_down.weight",))
    return tensor_map


def _unpermute(rows: Tensor, heads: int) -> Tensor:
    """Undo the interleaving of the two halves of each query and key head (rows 0, d/2, 1, d/2 + 1, …) in GGUF's llama."""
    return rows.view(heads, -1, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)
