"""The attention implementation "regard" of transformers inside torch.compile, on a static cache, and under gradient checkpointing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")
import regard.sight  # noqa: E402
from regard.kernels import Request, Result, execute, intercept  # noqa: E402
from regard.sight.capture import transformers_calls  # noqa: E402

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


def explained(request: Request) -> tuple[str, str]:
    """The kernel of a request and the reason, as `explain` tells a user who makes the same call."""
    plan = regard.explain(request.query, request.key, request.value, mask=request.mask, bias=request.bias)
    return plan.kernel, plan.reason


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


@pytest.mark.parametrize("case", ["static cache", "reentrant checkpointing"])
def test_each_call_runs_on_the_kernel_explained(case: str) -> None:
    model = model_of("llama")
    run_on(model, "regard")
    calls = []

    def hook(request: Request, run: Callable[[Request], Result]) -> Result:
        result = run(request)
        assert result.selection is not None
        calls.append((*explained(request), result.selection.kernel.name))
        return result

    with intercept(hook):
        if case == "static cache":
            model.generate(
                IDS,
                attention_mask=PADDED,
                max_new_tokens=3,
                do_sample=False,
                pad_token_id=0,
                cache_implementation="static",
                disable_compile=True,
            )
        else:
            model.train().enable_input_require_grads()
            model.gradient_checkpointing_enable({"use_reentrant": True})
            model(IDS, attention_mask=PADDED, labels=IDS, use_cache=False).loss.backward()
    assert len(calls) == (6 if case == "static cache" else 4)  # 2 layers × 3 tokens, or × forward and recomputed forward
    assert {(kernel, ran) for kernel, _, ran in calls} == {("native", "native")}
    assert all(reason.startswith("float32 on CPU, spans mask") for _, reason, _ in calls)


@pytest.mark.slow
def test_a_compiled_step_is_explained_while_it_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []

    def record(request: Request) -> Result:
        plans.append(explained(request))
        return execute(request)

    monkeypatch.setattr(transformers_calls, "run", record)
    model = model_of("llama")
    run_on(model, "regard")
    torch._dynamo.reset()
    compiled = torch.compile(model.forward, fullgraph=True, backend="aot_eager")
    cache = transformers.StaticCache(config=model.config, max_cache_len=16)
    compiled(IDS, attention_mask=PADDED, past_key_values=cache)
    compiled(IDS[:, :1], attention_mask=torch.cat([PADDED, PADDED[:, -1:]], 1), past_key_values=cache)
    assert len(plans) >= 4  # 2 layers × prefill and step
    assert {kernel for kernel, _ in plans} == {"native"}
    assert all(reason.startswith("float32 on CPU, ") and reason.endswith("(compiled)") for _, reason in plans)


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
