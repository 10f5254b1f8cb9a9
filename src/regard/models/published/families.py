"""All published families, and the conversion of their config.json to an architecture or to a config of `Gpt` or `Bert`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

from regard.models.published.architecture import Architecture, ConfigError, nearest
from regard.models.published.encoders import ENCODER_FAMILIES
from regard.models.published.family import Family
from regard.models.published.fields import Fields, reading_config
from regard.models.published.gpt2 import GPT2_FAMILIES
from regard.models.published.llama import LLAMA_FAMILIES
from regard.models.published.mixtures import MIXTURE_FAMILIES
from regard.models.published.tensors import TensorMap

if TYPE_CHECKING:
    from regard.models.bert import BertConfig
    from regard.models.gpt import GptConfig

__all__ = ["FAMILIES", "GPT_FAMILIES", "architecture_from_config", "bert_from_config", "gpt_from_config"]

FAMILIES: dict[str, Family] = {**GPT2_FAMILIES, **LLAMA_FAMILIES, **MIXTURE_FAMILIES, **ENCODER_FAMILIES}
GPT_FAMILIES = tuple(sorted(name for name, family in FAMILIES.items() if family.gpt))  # those whose weights `Gpt` loads


def architecture_from_config(config: Mapping[str, Any], name: str = "") -> Architecture:
    """Return the architecture that a Hugging Face config.json describes.

    >>> architecture_from_config({"model_type": "gpt2"}).width
    768
    >>> architecture_from_config({"model_type": "lama"})
    Traceback (most recent call last):
        ...
    regard.models.published.architecture.ConfigError: unknown model_type 'lama'; did you mean llama?
    """
    kind = config.get("model_type")
    notes: tuple[str, ...] = ()
    if isinstance(config.get("text_config"), Mapping) and not (isinstance(kind, str) and kind in FAMILIES):
        notes = (f"the text part of a {kind} model; its other parts are not counted",)
        config = {"architectures": ["ForCausalLM"], **config["text_config"]}
        kind = config.get("model_type")
    if kind is None:
        raise ConfigError(f"field 'model_type' is missing; expected one of {', '.join(sorted(FAMILIES))}")
    if not isinstance(kind, str) or kind not in FAMILIES:
        close = nearest(str(kind), sorted(FAMILIES)) or f"; expected one of {', '.join(sorted(FAMILIES))}"
        raise ConfigError(f"unknown model_type {kind!r}{close}")
    family = FAMILIES[kind]
    with reading_config():
        return _architecture(config, family, Fields(config, family.defaults, family.aliases), name=name or kind, notes=notes)


def gpt_from_config(config: Mapping[str, Any], names: Collection[str]) -> tuple[GptConfig, TensorMap]:
    """Return the `GptConfig` of a config.json of one of GPT_FAMILIES, and which of the tensors `names` make the model's."""
    with reading_config():
        family, fields, architecture = _with_sizes(config)
        assert family.gpt is not None
        gpt_config = family.gpt.config(fields, architecture, names)
        return gpt_config, family.gpt.tensors(gpt_config, names)


def bert_from_config(config: Mapping[str, Any], names: Collection[str]) -> tuple[BertConfig, TensorMap]:
    """Return the `BertConfig` of a published config.json, and which of the tensors `names` make the model's."""
    with reading_config():
        family, fields, architecture = _with_sizes(config)
        assert family.bert is not None
        bert_config = family.bert.config(fields, architecture, names)
        return bert_config, family.bert.tensors(bert_config, names)


def _with_sizes(config: Mapping[str, Any]) -> tuple[Family, Fields, Architecture]:
    """Read a config.json that belongs to weights: every size must be in it, none is taken from the defaults."""
    family = FAMILIES[config["model_type"]]
    fields = Fields(config, family.defaults, family.aliases, sizes_required=True)
    return family, fields, _architecture(config, family, fields, name=config["model_type"])


def _architecture(config: Mapping[str, Any], family: Family, fields: Fields, *, name: str, notes: tuple[str, ...] = ()) -> Architecture:
    kind = config["model_type"]
    if family.encoder and config.get("is_decoder"):
        raise ConfigError(f"field 'is_decoder' is true; expected false: of the {kind} family only the encoder is read")
    if config.get("add_cross_attention"):
        raise ConfigError(f"field 'add_cross_attention' is true; expected false: the {kind} family is read without cross-attention")
    shape = family.shape(fields)
    head, pooler, head_notes = _head(config, family)
    general = {"name": name, "family": kind, "head": head, "pooler": pooler, "notes": notes + head_notes}
    # transformers' decoders keep the summed embeddings in memory until the end.
    held_embeddings = 0 if family.encoder else 2 if shape.get("position", "learned") == "learned" else 1
    return Architecture(**{**general, "held_embeddings": held_embeddings, **shape})


def _head(config: Mapping[str, Any], family: Family) -> tuple[Literal["language", "masked", "none"], bool, tuple[str, ...]]:
    """Return the head of the class in `architectures`, whether it has a pooler, and a note if its head is not counted."""
    class_name = str((config.get("architectures") or [""])[0])
    if not family.encoder and (not class_name or class_name.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration"))):
        return "language", False, ()
    if family.encoder and class_name.endswith("ForMaskedLM"):
        return "masked", False, ()
    notes = () if class_name == "" or class_name.endswith("Model") else (f"the head of {class_name} is not counted",)
    return "none", family.pooler, notes
