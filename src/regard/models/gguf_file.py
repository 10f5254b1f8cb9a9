"""Read a GGUF file, quantised or not, as one of our GPT configurations."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.layers.positions import Rotary
from regard.models.gpt import GptConfig
from regard.models.published.tensors import Recipe, pair

__all__ = ["GgufFile", "read_gguf"]

_ARCHITECTURES = ("llama", "qwen2", "gpt2")


class GgufFile:
    """The settings and tensors of a GGUF file; tensors come out as float32, in the row order of the published weights."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist")
        try:
            import gguf
        except ImportError as error:
            raise ImportError('reading GGUF files needs the gguf package: pip install "regard[weights]"') from error
        self._dequantize = gguf.dequantize
        try:
            reader = gguf.GGUFReader(str(path))
        except (ValueError, IndexError, KeyError) as error:
            raise ValueError(f"{path} is not a GGUF file, or not a whole one ({error}); download it again") from error
        self.where = str(path)
        self._fields = reader.fields
        self.settings: dict[str, Any] = {
            name: field.contents() for name, field in reader.fields.items() if "." in name and not name.startswith("tokenizer.")
        }
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.names: Collection[str] = set(self._tensors)
        self.architecture: str = self.settings.get("general.architecture", "none given")

    def setting(self, key: str, default: Any = None) -> Any:
        value = self.settings.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise ValueError(f"{self.where} lacks the setting {self.architecture}.{key}; it is not a whole model")
        return value

    def tokenizer(self) -> Any:
        """The file's own tokenizer, of the `tokenizers` package, and the ids that end a text."""
        from regard.models.gguf_words import tokenizer_of

        words = {name: field.contents() for name, field in self._fields.items() if name.startswith("tokenizer.ggml.")}
        ends = {words[f"tokenizer.ggml.{name}_token_id"] for name in ("eos", "eot") if f"tokenizer.ggml.{name}_token_id" in words}
        return tokenizer_of(words, where=self.where), ends

    def get(self, name: str) -> Tensor:
        stored = self._tensors[name]
        try:
            values = self._dequantize(stored.data, stored.tensor_type)
        except NotImplementedError as error:
            raise ValueError(f"{self.where}: {name} is stored as {stored.tensor_type.name}, which the gguf package cannot read") from error
        tensor = torch.from_numpy(values.copy()).float()
        if self.architecture == "llama" and name.endswith(("attn_q.weight", "attn_q.bias", "attn_k.weight", "attn_k.bias")):
            heads = self.setting("attention.head_count")
            return _unpermute(tensor, heads if "attn_q" in name else self.setting("attention.head_count_kv", heads))
        return tensor


def read_gguf(path: Path) -> tuple[GptConfig, dict[str, Recipe], GgufFile]:
    """The configuration, how our tensors are made, and the file to make them from."""
    file = GgufFile(path)
    if file.architecture not in _ARCHITECTURES:
        raise ValueError(f"{path} holds the architecture {file.architecture!r}; {', '.join(_ARCHITECTURES)} are read")
    config = _gpt2(file) if file.architecture == "gpt2" else _llama(file)
    recipes = {"tokens.weight": Recipe(("token_embd.weight",)), "norm.weight": Recipe(("output_norm.weight",))}
    if not config.tied:
        recipes["head.weight"] = Recipe(("output.weight",))
    for i in range(config.layers):
        recipes |= _block(config, f"blocks.{i}", f"blk.{i}")
    if file.architecture == "gpt2":
        recipes |= {"positions.weight": Recipe(("position_embd.weight",)), "norm.bias": Recipe(("output_norm.bias",))}
    file.names = set(file.names) - {"rope_freqs.weight"}  # read into the configuration
    return config, recipes, file


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
        raise ValueError(f"{file.where} scales rotary positions by {kind!r}; none, linear and yarn are read")
    original = file.setting("rope.scaling.original_context_length", file.setting("context_length"))
    return Rotary(base, fraction, kind, file.setting("rope.scaling.factor"), original)


def _block(config: GptConfig, ours: str, theirs: str) -> dict[str, Recipe]:
    recipes: dict[str, Recipe] = {}
    if config.norm == "layer":  # gpt2: one packed map, biases everywhere
        for kind in ("weight", "bias"):
            recipes[f"{ours}.attention.in_proj_{kind}"] = Recipe((f"{theirs}.attn_qkv.{kind}",))
        for part, name in (
            ("attention_norm", "attn_norm"),
            ("attention.out_proj", "attn_output"),
            ("mlp_norm", "ffn_norm"),
            ("mlp.up", "ffn_up"),
            ("mlp.down", "ffn_down"),
        ):
            recipes |= pair(f"{ours}.{part}", f"{theirs}.{name}")
        return recipes
    recipes[f"{ours}.attention_norm.weight"] = Recipe((f"{theirs}.attn_norm.weight",))
    recipes[f"{ours}.mlp_norm.weight"] = Recipe((f"{theirs}.ffn_norm.weight",))
    recipes[f"{ours}.attention.in_proj_weight"] = Recipe(tuple(f"{theirs}.attn_{x}.weight" for x in "qkv"))
    recipes[f"{ours}.attention.in_proj_bias"] = Recipe(tuple(f"{theirs}.attn_{x}.bias" for x in "qkv"))
    recipes |= pair(f"{ours}.attention.out_proj", f"{theirs}.attn_output")
    recipes[f"{ours}.mlp.up.weight"] = Recipe((f"{theirs}.ffn_gate.weight", f"{theirs}.ffn_up.weight"))
    recipes[f"{ours}.mlp.down.weight"] = Recipe((f"{theirs}.ffn_down.weight",))
    return recipes


def _unpermute(rows: Tensor, heads: int) -> Tensor:
    """GGUF's llama interleaves the two halves of each query and key head (rows 0, d/2, 1, d/2 + 1, …); put them back."""
    return rows.view(heads, -1, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)
