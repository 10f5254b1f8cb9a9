"""The families of transformers, each as a tiny random model: which class, what to change in its config, what to call it with."""

from __future__ import annotations

import importlib
import inspect
import os
import warnings
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torchvision_operators  # noqa: F401
import transformers
from inputs import fitted, inputs_of
from overrides import CLASSES, INPUTS, LENGTHS, OVERRIDES, PARTS
from tiny import HEADS, fill_zeros, tiny_config
from torch import nn
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import model_type_to_module_name

transformers.logging.set_verbosity_error()
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


WAYS = [  # heads of keys and values, pictures in the input
    (2, "one"), (2, "grid"), (2, "several"), (HEADS, "one"), (HEADS, "grid"), (HEADS, "several"), (2, "none"), (HEADS, "none"),
]  # fmt: skip


def build(name: str) -> tuple[nn.Module, dict[str, Any]]:
    """Return a tiny random model of a family, and inputs that it runs with: the first of several ways that it accepts."""
    models: dict[int, nn.Module | Exception] = {}
    errors: list[Exception] = []
    for key_heads, pictures in WAYS:
        try:
            if key_heads not in models:
                models[key_heads] = _model(name, key_heads)
            model = models[key_heads]
            if isinstance(model, Exception) or (pictures != "one" and not _takes_pictures(model)):
                continue
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                inputs = inputs_of(model, LENGTHS.get(name, 12), pictures=pictures)
                if name in INPUTS:
                    inputs = INPUTS[name](model, inputs)
                return model, fitted(model, inputs)
        except Exception as error:
            models.setdefault(key_heads, error)
            errors.append(error)
    raise errors[0]


def _model(name: str, key_heads: int) -> nn.Module:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        config_class = getattr(transformers, PARTS[name]) if name in PARTS else CONFIG_MAPPING[name]
        config = tiny_config(config_class, OVERRIDES.get(name), key_heads=key_heads)
        torch.manual_seed(0)
        kind = getattr(transformers, CLASSES[name]) if name in CLASSES else model_class(type(config))
        model: nn.Module = kind(config).eval()
        fill_zeros(model)
    return model


def _takes_pictures(model: nn.Module) -> bool:
    return any("pixel_values" in name for name in inspect.signature(model.forward).parameters)


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
