"""The attention implementation "regard" of transformers inside torch.compile, on a static cache, and under gradient checkpointing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")
import regard.sight  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
IDS = torch.randint(0, 50, (2, 7), generator=torch.Generator().manual_seed(0))
PADDED = torch.ones(2, 7, dtype=torch.long)
PADDED[0, :2] = 0


def model_of(family: str) -> Any:
    torch.manual_seed(0)
    if family == "llama":
        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=50, **sizes))
    else:
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}
        rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=50, **sizes, **rates))
    return model.eval()


def run_on(model: Any, implementation: str) -> None:
    regard.sight.register()
    model.set_attn_implementation(implementation)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_forward_compiles_to_one_graph(family: str) -> None:
    model = model_of(family)
    run_on(model, "sdpa")
    want = model(IDS, attention_mask=PADDED).logits
    run_on(model, "regard")
    torch._dynamo.reset()
    compiled = torch.compile(model.forward, fullgraph=True, backend="aot_eager")
    got = compiled(IDS, attention_mask=PADDED, use_cache=False).logits
    torch.testing.assert_close(got[PADDED.bool()], want[PADDED.bool()], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_generating_on_a_static_cache(compiled: bool) -> None:
    model = model_of("llama")
    options: dict[str, Any] = {"attention_mask": PADDED, "max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    run_on(model, "sdpa")
    want = model.generate(IDS, **options)
    run_on(model, "regard")
    if compiled:
        torch._dynamo.reset()
        options["compile_config"] = transformers.CompileConfig(fullgraph=True, backend="aot_eager", mode=None)
        options["compile_config"]._compile_all_devices = True
    assert torch.equal(model.generate(IDS, cache_implementation="static", **options), want)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_gradient_checkpointing(family: str, reentrant: bool) -> None:
    model = model_of(family).train()
    model.enable_input_require_grads()

    def gradients() -> list[torch.Tensor]:
        model.zero_grad()
        model(IDS, attention_mask=PADDED, labels=IDS, use_cache=False).loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    run_on(model, "sdpa")
    want = gradients()
    run_on(model, "regard")
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    torch.testing.assert_close(gradients(), want, rtol=1e-4, atol=1e-5)


def test_the_mask_object_survives_what_checkpointing_does_to_its_arguments() -> None:
    from regard.sight.capture.transformers_masks import MaskRule

    rule = MaskRule.make((1, 1, 3, 3), "cpu", regard.causal(), query_start=0, key_start=0, length=3, is_causal=True)
    x = torch.randn(2, requires_grad=True)

    def layer(x: torch.Tensor, mask: MaskRule) -> torch.Tensor:
        assert mask.mask == regard.causal()
        return x * 2

    torch.utils.checkpoint.checkpoint(layer, x, rule, use_reentrant=True).sum().backward()
    assert x.grad is not None
