"""FLOPs against hand counts, masks evaluated pair by pair, and torch's FlopCounterMode where it is right."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from regard.cost import Architecture
from regard.cost.count.flops import Step, attention_flops, flops, pairs, training_flops
from regard.cost.count.memory import summed
from regard.cost.quantity import Quantity
from regard.models.published.families import architecture_from_config

_B, _N = 2, 12


def _sum(parts: dict[str, Quantity]) -> float:
    return summed(parts).value


def _counted(run: Callable[[], Any]) -> tuple[int, Any]:
    with FlopCounterMode(display=False) as counter:
        result = run()
    return counter.get_total_flops(), result


def test_a_tiny_model_by_hand() -> None:
    """1 layer, width 4, 2 heads of 2, MLP of 8, vocabulary 5; 2 sequences of 3 tokens, logits for all."""
    tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5, mlp_width=8)
    work = flops(tiny, Step(batch=2, new=3, context=3, logits=3))
    assert {part: count.value for part, count in work.items()} == {
        "query": 2 * 6 * 16,
        "key": 2 * 6 * 16,
        "value": 2 * 6 * 16,
        "output": 2 * 6 * 16,
        "mlp": 2 * 6 * (32 + 32),
        "unembedding": 2 * 6 * 20,
        "scores": 2 * 2 * 6 * 2 * 2,  # 1 + 2 + 3 pairs per head, heads 2, width 2, batch 2
        "weighted sum": 2 * 2 * 6 * 2 * 2,
    }
    dense = flops(tiny, Step(batch=2, new=3, context=3, logits=3), "dense")
    assert dense["scores"].value == 2 * 2 * 9 * 2 * 2
    last = flops(tiny, Step(batch=2, new=3, context=3, logits=1))
    assert last["unembedding"].value == 2 * 2 * 20


def test_training_is_three_forwards_and_the_streamed_scores_once_more() -> None:
    tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5)
    step = Step(batch=1, new=3, context=3, logits=3)
    forward, train = flops(tiny, step), training_flops(tiny, step)
    assert train["mlp"].value == 3 * forward["mlp"].value
    assert train["scores, recomputed"].value == forward["scores"].value
    assert "scores, recomputed" not in training_flops(tiny, step, "dense")
    assert train["query"].formula.startswith("6 · ")


@given(st.integers(1, 30), st.integers(0, 30), st.one_of(st.none(), st.integers(1, 40)), st.booleans())
def test_needed_pairs_are_those_of_the_mask(new: int, before: int, window: int | None, causal: bool) -> None:
    context = new + before
    tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5, causal=causal)
    rows = torch.arange(before, context)[:, None]
    columns = torch.arange(context)[None]
    if not causal:
        window = None
        visible = torch.ones(new, context, dtype=torch.bool)
    else:
        visible = columns <= rows
        if window is not None:
            visible &= columns > rows - window
    assert pairs(tiny, Step(1, new, context, 1), window, "needed").value == int(visible.sum())


def test_the_needed_pairs_of_our_own_masks() -> None:
    from regard import causal, window

    tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5)
    for size in (3, 17, 40):
        mask = causal() & window(size - 1, 0)
        assert pairs(tiny, Step(1, 20, 20, 1), size, "needed").value == int(mask.dense(20, 20).sum())


_FAMILIES = [
    "bloom",
    "cohere",
    "deepseek_v3",
    "falcon",
    "gemma2",
    "gemma3_text",
    "gpt2",
    "gpt_oss",
    "llama",
    "mistral",
    "mixtral",
    "olmo2",
    "opt",
    "phi",
    "qwen2_moe",
    "qwen3",
    "starcoder2",
]


@pytest.mark.parametrize("family", _FAMILIES)
def test_dense_flops_equal_torchs_counter(family: str, tiny_model: Callable[..., Any]) -> None:
    """Prompt, one token after it, a training step, and one with checkpointing, of real models on real tensors."""
    model = tiny_model(family)
    a = architecture_from_config({**model.config.to_dict(), "architectures": None})
    ids = torch.randint(0, 50, (_B, _N), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        prompt, out = _counted(lambda: model(ids, use_cache=True))
        decode, _ = _counted(lambda: model(ids[:, :1], past_key_values=out.past_key_values, use_cache=True))
    assert prompt == _sum(flops(a, Step(_B, _N, _N, _N), "dense"))
    assert decode == _sum(flops(a, Step(_B, 1, _N + 1, 1), "dense"))
    model.train()
    step = Step(_B, _N, _N, _N)
    trained, _ = _counted(lambda: model(ids, labels=ids, use_cache=False).loss.backward())
    assert trained == _sum(training_flops(a, step, "dense"))
    model.gradient_checkpointing_enable()
    checkpointed, _ = _counted(lambda: model(ids, labels=ids, use_cache=False).loss.backward())
    assert checkpointed == _sum(training_flops(a, step, "dense", checkpointing=True))


@pytest.mark.parametrize("family", ["bert", "albert", "electra", "distilbert"])
def test_encoders_equal_torchs_counter(family: str) -> None:
    from transformers import CONFIG_MAPPING, AutoModelForMaskedLM

    fields = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    fields |= {"hidden_dim": 40} if family == "distilbert" else {"intermediate_size": 40}
    fields |= {"embedding_size": 12} if family in ("albert", "electra") else {}
    model = AutoModelForMaskedLM.from_config(CONFIG_MAPPING[family](**fields), attn_implementation="eager").eval()
    a = architecture_from_config({**model.config.to_dict(), "architectures": ["XForMaskedLM"]})
    counted, _ = _counted(lambda: model(torch.ones(_B, _N, dtype=torch.int64)))
    assert counted == _sum(flops(a, Step(_B, _N, _N, _N), "dense"))


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_encoder_decoders_equal_torchs_counter(family: str) -> None:
    from transformers import CONFIG_MAPPING, AutoModelForSeq2SeqLM

    shapes = {
        "t5": {"d_kv": 8, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4},
        "bart": {"encoder_layers": 2, "decoder_layers": 3}
        | {f"{side}_{part}": size for side in ("encoder", "decoder") for part, size in (("ffn_dim", 40), ("attention_heads", 4))},
    }
    model = AutoModelForSeq2SeqLM.from_config(
        CONFIG_MAPPING[family](vocab_size=50, d_model=32, **shapes[family]), attn_implementation="eager"
    )
    model.eval()
    a = architecture_from_config({**model.config.to_dict(), "architectures": None})
    source, target = torch.ones(_B, 10, dtype=torch.int64), torch.ones(_B, 6, dtype=torch.int64)
    prompt, out = _counted(lambda: model(input_ids=source, decoder_input_ids=target, use_cache=True))
    assert prompt == _sum(flops(a, Step(_B, 6, 6, 6, 10, 10), "dense"))
    hidden = (out.encoder_last_hidden_state,)
    decode, _ = _counted(lambda: model(encoder_outputs=hidden, decoder_input_ids=target[:, :1], past_key_values=out.past_key_values))
    assert decode == _sum(flops(a, Step(_B, 1, 7, 1, 0, 10), "dense"))


def test_torch_counts_its_fused_kernel_as_nothing_here(tiny_model: Callable[..., Any]) -> None:
    """As documented: on a CPU, FlopCounterMode does not count SDPA."""
    model = tiny_model("llama", "sdpa")
    a = architecture_from_config({**model.config.to_dict(), "architectures": None})
    step = Step(_B, _N, _N, _N)
    with torch.no_grad():
        counted, _ = _counted(lambda: model(torch.ones(_B, _N, dtype=torch.int64), use_cache=False))
    assert counted == _sum(flops(a, step, "dense")) - _sum(attention_flops(a, step, "dense"))
