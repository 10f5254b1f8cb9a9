"""The families of transformers, each as a tiny random model: which class, what to change in its config, what to call it with."""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torchvision_operators  # noqa: F401
import transformers
from tiny import HEADS, fill_zeros, inputs_of, tiny_config
from torch import nn
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import model_type_to_module_name

transformers.logging.set_verbosity_error()
_SWIN = {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4, "image_size": 32, "patch_size": 2}
OVERRIDES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("swin", "swinv2", "donut-swin", "maskformer-swin"), _SWIN),
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "big_bird": {"block_size": 4, "num_random_blocks": 1},
    "bigbird_pegasus": {"block_size": 4, "num_random_blocks": 1},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    "lilt": {"hidden_size": 48},
    "funnel": {"num_hidden_layers": None, "block_sizes": [1, 1]},
    "prophetnet": {"num_hidden_layers": None},
    "gemma3": {"mm_tokens_per_image": 4},
    "longt5": {"local_radius": 3, "encoder_attention_type": "transient-global", "global_block_size": 4},
    "pegasus_x": {"block_size": 8, "num_global_tokens": 3},
    "reformer": {
        "axial_pos_embds_dim": (16, 16), "axial_pos_shape": (6, 8), "attn_layers": ["lsh", "local"], "attention_head_size": 8,
        "lsh_attn_chunk_length": 8, "local_attn_chunk_length": 8, "num_buckets": 4, "num_hashes": 1, "feed_forward_size": 37,
        "hash_seed": 0, "is_decoder": False,
    },
}  # fmt: skip
LENGTHS = dict.fromkeys(("big_bird", "bigbird_pegasus", "longformer", "led", "longt5", "pegasus_x", "reformer"), 48)
MAPPINGS = (
    "MODEL_MAPPING", "MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING",
)  # fmt: skip


def names() -> list[str]:
    """Return one model type for each family: the one its package is named after, or the first."""
    found: dict[str, str] = {}
    for name in CONFIG_MAPPING.keys():  # noqa: SIM118
        package = model_type_to_module_name(name)
        if package not in found or name.replace("-", "_") == package:
            found[package] = name
    return list(found.values())


WAYS = [(2, "one"), (2, "none"), (2, "several"), (HEADS, "one"), (HEADS, "none")]  # heads of keys and values, pictures in the input


def build(name: str) -> tuple[nn.Module, dict[str, Any]]:
    """Return a tiny random model of a family, and inputs that it runs with: the first of several ways that it accepts."""
    first_error: Exception | None = None
    for key_heads, pictures in WAYS:
        try:
            return _build(name, key_heads, pictures)
        except Exception as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error


def _build(name: str, key_heads: int, pictures: str) -> tuple[nn.Module, dict[str, Any]]:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        config = tiny_config(CONFIG_MAPPING[name], OVERRIDES.get(name), key_heads=key_heads)
        torch.manual_seed(0)
        model = model_class(type(config))(config).eval()
        fill_zeros(model)
        inputs = inputs_of(model, LENGTHS.get(name, 12), pictures=pictures)
        model(**inputs)
    return model, inputs


def model_class(config: type) -> Any:
    for mapping_name in MAPPINGS:
        mapping = getattr(modeling_auto, mapping_name)
        if config in mapping.keys():  # noqa: SIM118
            found = mapping[config]
            return found[0] if isinstance(found, list | tuple) else found
    package = importlib.import_module(config.__module__.replace("configuration_", "modeling_"))
    for found in vars(package).values():  # a part of a family, such as its vision tower
        is_model = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel) and found.config_class is config
        if is_model and not found.__name__.endswith("PreTrainedModel") and found.forward is not nn.Module.forward:
            return found
    raise LookupError(f"no model class for {config.__name__}")
