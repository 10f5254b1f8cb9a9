"""Inputs for tiny models of transformers, by the names of the arguments of their forward."""

from __future__ import annotations

import inspect
import re
from typing import Any

import torch
from tiny import FIRST_WORD, VOCABULARY, _value
from torch import Tensor, nn

_MISMATCH = re.compile(r"(image|video|audio|multimodal) features? and .*do not match.*?features:? *(\d+)", re.IGNORECASE | re.DOTALL)
_TOKENS = {  # fields with the id of the token that stands for a feature
    "image": ("image_token_id", "image_token_index", "media_placeholder_token_id", "im_patch_id", "image_patch_token_id"),
    "video": ("video_token_id", "video_token_index"),
    "audio": ("audio_token_id", "audio_token_index"),
}
_TOKENS["multimodal"] = (*_TOKENS["audio"], *_TOKENS["image"])
GRID = (1, 4, 4)  # of a picture's patches: time, height, width


def inputs_of(model: nn.Module, length: int = 12, batch: int = 2, pictures: str = "one") -> dict[str, Any]:
    """Return inputs for a model, by the names of its forward's arguments.

    pictures: "one", "several" (one more axis), "grid" (a list of patches, as Qwen2-VL has it) or "none".
    """
    generator = torch.Generator().manual_seed(0)
    config = model.config
    arguments = inspect.signature(model.forward).parameters
    names = set(arguments)
    main = model.main_input_name
    main = main if isinstance(main, str) else main[0]
    vocabulary = _size(config, "vocab_size") or VOCABULARY
    ids = torch.randint(FIRST_WORD, min(vocabulary, VOCABULARY), (batch, length), generator=generator)
    inputs: dict[str, Any] = {}
    if "input_ids" in names and main in ("input_ids", "pixel_values", "input_values"):
        inputs["input_ids"] = ids
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = torch.randint(FIRST_WORD, min(vocabulary, VOCABULARY), (batch, 7), generator=generator)
    if "pixel_values" in names and pictures == "grid":
        inputs |= _patches(config, batch, generator)
    elif "pixel_values" in names and pictures != "none":
        pixels = _pixels(model, batch, generator)
        inputs["pixel_values"] = pixels.unsqueeze(1).repeat(1, 2, 1, 1, 1) if pictures == "several" else pixels
    if "bbox" in names and "input_ids" in inputs:
        inputs["bbox"] = torch.zeros(batch, length, 4, dtype=torch.int64)
    if main == "inputs" and _field(config, "d_model"):
        inputs["inputs"] = torch.randn(batch, length, _field(config, "d_model"), generator=generator)
    if main == "input_values":
        kept = {"decoder_input_ids": inputs["decoder_input_ids"]} if "decoder_input_ids" in inputs else {}
        inputs = {"input_values": torch.randn(batch, 2000, generator=generator), **kept}
    if main == "input_features":
        inputs["input_features"] = _sound(config, batch, generator)
    if not inputs:
        inputs = {main: ids}
    for name, argument in arguments.items():
        is_required = argument.default is argument.empty and argument.kind in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY)
        if is_required and name not in inputs and name != "self" and (filled := _required(name, model, batch, generator)) is not None:
            inputs[name] = filled
    return inputs


def fitted(model: nn.Module, inputs: dict[str, Any]) -> dict[str, Any]:
    """Run a model and return the inputs that it ran with: where it counts more features of pictures or sound than tokens that stand
    for them, these are put into the text.
    """
    asked: set[int] = set()
    for _ in range(4):
        try:
            model(**inputs)
            return inputs
        except (ValueError, RuntimeError) as error:
            sound = inputs.get("input_features")
            if isinstance(sound, Tensor) and sound.dim() == 3 and sound.shape[1] != 64 and "do not match" not in str(error):
                inputs = {**inputs, "input_features": sound.transpose(1, 2)}  # time first
                continue
            found = _MISMATCH.search(str(error))
            if found is None or "input_ids" not in inputs:
                raise
            features = int(found[2])
            if features in asked:  # LLaVA states tokens times width
                features //= int(model.get_input_embeddings().weight.shape[1])
            asked.add(features)
            inputs = _with_tokens(model.config, inputs, found[1].lower(), features)
    model(**inputs)
    return inputs


def _with_tokens(config: Any, inputs: dict[str, Any], kind: str, features: int) -> dict[str, Any]:
    ids: Tensor = inputs["input_ids"]
    token = next((value for name in _TOKENS[kind] if isinstance(value := _field(config, name), int)), None)
    if token is None or features % len(ids):
        raise ValueError(f"{features} features of {kind} in {len(ids)} texts, and no token for them")
    text = ids[:, :1].new_tensor([[t for t in row if t != token] for row in ids.tolist()])
    placed = torch.full((len(ids), features // len(ids)), token)
    inputs = {**inputs, "input_ids": torch.cat([text[:, :2], placed, text[:, 2:]], 1)}
    if "mm_token_type_ids" in inputs or "image_grid_thw" in inputs:
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == token).long()
    return inputs


def _required(name: str, model: nn.Module, batch: int, generator: torch.Generator) -> Any:
    """Return something for an argument without a default, by its name; None if it is not known."""
    if name in ("input_ids", "qformer_input_ids"):
        return torch.randint(FIRST_WORD, VOCABULARY, (batch, 8), generator=generator)
    if name == "pixel_values":
        return _pixels(model, batch, generator)
    if name in ("pixel_values_videos", "video_values"):
        return _pixels(model, batch, generator).unsqueeze(1).repeat(1, 2, 1, 1, 1)
    if name == "input_values":
        return torch.randn(batch, 1, 2000, generator=generator)
    if name == "input_features":
        return _sound(model.config, batch, generator)
    return None


def _sound(config: Any, batch: int, generator: torch.Generator) -> Tensor:
    """Return spectrograms: frequencies and time, or the other way round where a model has no encoder like Whisper's."""
    bins = _size(config, "num_mel_bins") or _size(config, "feature_size") or 80
    frames = 2 * (_size(config, "max_source_positions") or 32)
    return torch.randn(batch, bins, frames, generator=generator)


def _pixels(model: nn.Module, batch: int, generator: torch.Generator) -> Tensor:
    config = getattr(model.config, "vision_config", model.config)
    size, channels = _field(config, "image_size") or 64, _size(config, "num_channels") or 3
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return torch.randn(batch, channels, height, width, generator=generator)


def _patches(config: Any, batch: int, generator: torch.Generator) -> dict[str, Any]:
    vision = getattr(config, "vision_config", config)
    patch, frames = _size(vision, "patch_size") or 8, _size(vision, "temporal_patch_size") or 1
    channels = _size(vision, "in_channels") or _size(vision, "in_chans") or _size(vision, "num_channels") or 3
    count = GRID[0] * GRID[1] * GRID[2]
    return {
        "pixel_values": torch.randn(batch * count, channels * frames * patch * patch, generator=generator),
        "image_grid_thw": torch.tensor([GRID] * batch),
    }


def _size(config: Any, name: str) -> int | None:
    value = _field(config, name)
    value = value[0] if isinstance(value, list | tuple) else value
    return value if isinstance(value, int) else None


def _field(config: Any, name: str) -> Any:
    """Return a field of a config, or of one inside it."""
    value = _value(config, name)
    if value is not None:
        return value
    for part in getattr(config, "sub_configs", {}):
        inner = getattr(config, part, None)
        value = None if inner is None else _field(inner, name)
        if value is not None:
            return value
    return None
