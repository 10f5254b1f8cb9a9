"""Read the header of a weight file: names, shapes and dtypes of its tensors, without loading them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path

from regard.files import as_object
from regard.models.published.architecture import Architecture, ConfigError
from regard.models.published.fields import weight_file_names
from regard.models.published.gguf_header import open_gguf

_MAX_HEADER_BYTES = 100_000_000  # as in the safetensors library


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class StoredWeights:
    """All tensors of a file, or of the files of a folder."""

    path: Path
    tensors: tuple[StoredTensor, ...]

    @property
    def count(self) -> int:
        """Number of elements of all tensors."""
        return sum(tensor.count for tensor in self.tensors)

    @property
    def bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.tensors)

    def dtypes(self) -> dict[str, int]:
        """Return the number of elements in each dtype, most common first."""
        counts: Counter[str] = Counter()
        for tensor in self.tensors:
            counts[tensor.dtype] += tensor.count
        return dict(counts.most_common())

    def not_parameters(self, a: Architecture) -> dict[str, list[StoredTensor]]:
        """Return the stored tensors that are not parameters of the model, by reason."""
        tables = {tensor.shape for tensor in self.tensors if tensor.name.endswith(_EMBEDDINGS)}
        groups: dict[str, list[StoredTensor]] = {}
        for tensor in self.tensors:
            reason = next((reason for reason, endings in _BUFFERS.items() if tensor.name.endswith(endings)), None)
            if reason == "causal masks" and len(tensor.shape) != 4 and not tensor.name.endswith("masked_bias"):
                reason = None  # in Falcon and GPT-NeoX it is a bias
            if a.tied and tensor.name.endswith(_UNEMBEDDINGS) and tensor.shape in tables:
                reason = "tied copies of the embedding"
            if reason:
                groups.setdefault(reason, []).append(tensor)
        return groups

    def parameter_count(self, a: Architecture) -> int:
        """Return how many of the stored elements are parameters of the model."""
        return self.count - sum(tensor.count for tensors in self.not_parameters(a).values() for tensor in tensors)


_EMBEDDINGS = ("wte.weight", "embed_tokens.weight", "word_embeddings.weight", "embed_in.weight", "shared.weight")
_UNEMBEDDINGS = (
    "lm_head.weight",
    "predictions.decoder.weight",
    "vocab_projector.weight",
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
)
_BUFFERS = {
    "causal masks": (".attn.bias", ".attention.bias", ".attn.masked_bias", ".attention.masked_bias"),
    "computed positions": ("rotary_emb.inv_freq", "embeddings.position_ids", "rope_freqs.weight"),
    "a tied bias": ("predictions.decoder.bias", "lm_head.decoder.bias"),
    "routing state": ("e_score_correction_bias",),
}


def read_stored_weights(path: Path) -> StoredWeights:
    """Read the headers of a .safetensors or .gguf file, or of a folder of safetensors (one file, or shards with their index)."""
    if path.is_dir():
        return StoredWeights(path, tuple(tensor for file in _shards(path) for tensor in _safetensors(file)))
    if path.suffix == ".gguf":
        return StoredWeights(path, _gguf(path))
    if path.suffix == ".safetensors":
        return StoredWeights(path, _safetensors(path))
    raise ConfigError(f"{path.name}: expected a .safetensors or .gguf file, or a folder with config.json and .safetensors files")


def _shards(folder: Path) -> list[Path]:
    index = next(iter(sorted(folder.glob("*.safetensors.index.json"))), None)
    if index is None:
        files = sorted(folder.glob("*.safetensors"))
        return files[:1] if (folder / "model.safetensors") in files else files
    names = weight_file_names(index)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ConfigError(f"{index.name} names {len(names)} files, of which {len(missing)} are missing, the first is {missing[0]}")
    return [folder / name for name in names]


def _safetensors(path: Path) -> tuple[StoredTensor, ...]:
    """Read a safetensors header: its length as 8 bytes, little-endian, then JSON."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > _MAX_HEADER_BYTES:
                raise ConfigError(f"{path.name} is not a safetensors file: its header would be {length:,} bytes long")
            text = file.read(length)
            if len(text) < length:
                raise ConfigError(f"{path.name} is incomplete: it ends within its header")
            header = as_object(text, path.name)
        tensors = []
        for name, description in header.items():
            if name != "__metadata__":
                begin, end = description["data_offsets"]
                tensors.append(StoredTensor(name, tuple(description["shape"]), description["dtype"].lower(), end - begin))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path.name} is damaged or not a safetensors file: {error}") from error
    return tuple(tensors)


def _gguf(path: Path) -> tuple[StoredTensor, ...]:
    try:
        reader = open_gguf(path)  # maps the file into memory; only the header is read
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(str(error)) from error
    return tuple(
        StoredTensor(str(t.name), tuple(int(n) for n in reversed(t.shape)), str(t.tensor_type.name).lower(), int(t.n_bytes))
        for t in reader.tensors
    )
