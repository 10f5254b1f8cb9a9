"""Run by test_activations in a new process: measured and predicted peak memory of whole models, as JSON."""

import json
import logging
from functools import partial
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

import regard
from regard.cost import Workload
from regard.cost.count.activations import Attention, inference_activations, training_activations
from regard.cost.measure.peak import no_huge_pages, peak_bytes
from regard.cost.model.sources import architecture
from regard.layers import multihead
from regard.models.gpt import Gpt, GptConfig

_B, _N, _D, _LAYERS, _HEADS, _MLP, _V = 2, 384, 192, 3, 6, 768, 1500
_ROWS: list[dict[str, Any]] = []


def compare(name: str, model: Any, attention: Attention, train_step: Any, read_prompt: Any, *, checkpointing: bool = False) -> None:
    a = architecture(model)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)  # gradients are tested elsewhere
    model.train()
    train_step()
    measured = peak_bytes(train_step)
    work = Workload(batch=_B, context=_N, dtype="fp32", mode="train", checkpointing=checkpointing)
    predicted = sum(part.value for part in training_activations(a, work, attention).values())
    _ROWS.append({"name": f"{name} {attention} train", "measured": measured, "predicted": predicted})
    if checkpointing:
        return
    model.eval()
    with torch.no_grad():
        read_prompt()
        measured = peak_bytes(read_prompt)
    _ROWS.append({"name": f"{name} {attention} read", "measured": measured, "predicted": inference_activations(a, work, attention).value})


def main() -> None:
    no_huge_pages()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    ids = torch.randint(0, 50, (_B, _N), generator=torch.Generator().manual_seed(0))
    gpt2 = {"n_positions": _N, "n_embd": _D, "n_layer": _LAYERS, "n_head": _HEADS, "n_inner": _MLP}
    dropouts = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
    llama = {
        "hidden_size": _D,
        "intermediate_size": _MLP,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": 2,
    }
    kinds: tuple[tuple[str, Attention], ...] = (("eager", "dense"), ("sdpa", "fused"))
    for name, shape in (("gpt2", {**gpt2, **dropouts}), ("llama", llama)):
        for implementation, attention in kinds:
            config = CONFIG_MAPPING[name](vocab_size=_V, pad_token_id=0, **shape)
            model = AutoModelForCausalLM.from_config(config, attn_implementation=implementation)

            def train_step(model: Any = model) -> None:
                model(ids, labels=ids, use_cache=False).loss.backward()

            compare(name, model, attention, train_step, partial(model, ids, use_cache=False, logits_to_keep=1))
            if name == "llama":
                model.gradient_checkpointing_enable()
                compare(name, model, attention, train_step, None, checkpointing=True)
    own_model = Gpt(GptConfig(vocabulary=_V, d_model=_D, heads=_HEADS, hidden=_MLP, layers=_LAYERS, context=_N))
    kernels: tuple[Attention, ...] = ("fused", "streamed")
    for kernel in kernels:
        multihead.attend = partial(regard.attend, kernel=kernel)  # the layer itself uses kernel="auto"
        compare(
            "ours", own_model, kernel, lambda: own_model.loss(ids, ids).backward(), lambda: own_model.unembed(own_model.hidden(ids)[:, -1:])
        )
    print(json.dumps(_ROWS))


if __name__ == "__main__":
    main()
