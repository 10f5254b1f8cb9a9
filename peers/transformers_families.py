"""transformers' common tests (the mixin of its source distribution) on tiny models of eight families. Run by run.py, not collected."""

from __future__ import annotations

import sys
import types
import unittest
from pathlib import Path
from typing import Any

import torch
import transformers as t

SOURCE = Path(__file__).parent.parent / "build" / "peers" / f"transformers-{t.__version__}"


def _mixin() -> Any:
    """ModelTesterMixin. Two modules it imports are not in the source distribution; tests that need them are not selected."""
    sys.path.insert(0, str(SOURCE))
    sys.modules.pop("tests", None)
    for module, name in (("tests.exporters.test_export", "ExportTesterMixin"), ("tests.generation.test_utils", "GenerationTesterMixin")):
        package = module.rsplit(".", 1)[0]
        sys.modules.setdefault(package, types.ModuleType(package)).__path__ = []  # type: ignore[attr-defined]
        sys.modules[module] = types.ModuleType(module)
        setattr(sys.modules[module], name, type(name, (), {}))
    from tests.test_modeling_common import ModelTesterMixin

    return ModelTesterMixin


B, L = 2, 7
TEXT = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
GPT2 = {
    "vocab_size": 50,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
OPT = {
    **TEXT,
    "ffn_dim": 64,
    "max_position_embeddings": 64,
    "word_embed_proj_dim": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
T5 = {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
WIDE = {**TEXT, "intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 64}
FAMILIES: dict[str, tuple[Any, list[Any]]] = {
    "Bert": (lambda: t.BertConfig(**TEXT, intermediate_size=64), [t.BertModel, t.BertForMaskedLM]),
    "Gpt2": (lambda: t.GPT2Config(**GPT2), [t.GPT2Model, t.GPT2LMHeadModel]),
    "Llama": (lambda: t.LlamaConfig(**WIDE), [t.LlamaModel, t.LlamaForCausalLM]),
    "Mistral": (lambda: t.MistralConfig(**WIDE, head_dim=8, sliding_window=4), [t.MistralModel, t.MistralForCausalLM]),
    "Qwen2": (lambda: t.Qwen2Config(**WIDE), [t.Qwen2Model, t.Qwen2ForCausalLM]),
    "Opt": (lambda: t.OPTConfig(**OPT), [t.OPTModel, t.OPTForCausalLM]),
    "Vit": (
        lambda: t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4),
        [t.ViTModel],
    ),
    "T5": (lambda: t.T5Config(**T5), [t.T5Model, t.T5ForConditionalGeneration]),
}


class Tester:
    """What the mixin asks of a family: a config and inputs."""

    def __init__(self, parent: unittest.TestCase, family: str) -> None:
        self.parent, self.family = parent, family
        self.batch_size, self.seq_length, self.is_training = B, 17 if family == "Vit" else L, True
        self.encoder_seq_length = self.decoder_seq_length = self.key_length = self.seq_length
        self.hidden_size, self.num_hidden_layers, self.num_attention_heads = 32, 2, 4
        self.num_masks, self.mask_length = 8, 16  # of ViT's patches, without the class token

    def get_config(self) -> Any:
        return FAMILIES[self.family][0]()

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, Any]]:
        if self.family == "Vit":
            return self.get_config(), {"pixel_values": torch.rand(B, 3, 16, 16)}
        inputs = {"input_ids": torch.randint(3, 50, (B, L)), "attention_mask": torch.ones(B, L, dtype=torch.long)}
        if self.family == "T5":
            inputs |= {"decoder_input_ids": torch.randint(3, 50, (B, L)), "decoder_attention_mask": inputs["attention_mask"]}
        return self.get_config(), inputs


def _test_class(family: str) -> type:
    class Common(_mixin(), unittest.TestCase):  # type: ignore[misc]
        all_model_classes = tuple(FAMILIES[family][1])
        all_generative_model_classes = ()
        is_encoder_decoder = family == "T5"
        test_resize_embeddings = test_head_masking = test_pruning = has_attentions = True
        test_missing_keys = test_torch_exportable = False

        def setUp(self) -> None:
            torch.manual_seed(0)
            self.model_tester = Tester(self, family)

    Common.__name__ = Common.__qualname__ = f"Test{family}"
    return Common


for _family in FAMILIES:
    globals()[f"Test{_family}"] = _test_class(_family)
