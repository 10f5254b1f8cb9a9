"""Memory traffic against hand counts, and which bound applies."""

import pytest

from regard.cost import Architecture, Machine, Workload, plan
from regard.cost.count.flops import Step
from regard.cost.count.roofline import traffic, training_traffic

_TINY = Architecture("tiny", layers=2, width=4, heads=2, kv_heads=1, vocabulary=5, mlp_width=8)


def test_the_traffic_of_a_decode_step_by_hand() -> None:
    moved = traffic(_TINY, Workload(batch=3, context=10, dtype="bf16"), Step(batch=3, new=1, context=10, logits=1))
    layer = 4 * 4 + 2 * 4 * 2 + 4 * 4 + 2 * 4 * 8  # query, key and value, output, MLP
    assert moved["weights"].value == 2 * (2 * layer + 5 * 4)  # and the embedding, read to make the logits
    assert moved["cache, read"].value == 2 * 3 * 9 * (2 * 2) * 2  # layers, batch, tokens, key and value of one head of 2, bytes
    assert moved["cache, written"].value == 2 * 3 * 1 * (2 * 2) * 2


def test_a_window_bounds_what_is_read() -> None:
    a = Architecture("tiny", layers=2, width=4, heads=2, vocabulary=5, windows=(4, None))
    moved = traffic(a, Workload(context=10, dtype="fp32"), Step(1, 1, 10, 1))
    assert moved["cache, read"].value == (3 + 9) * 8 * 4


def test_few_tokens_touch_few_experts() -> None:
    a = Architecture("mix", layers=1, width=4, heads=2, vocabulary=5, experts=8, active_experts=2, expert_width=6, head="none")
    one_token = traffic(a, Workload(context=9, dtype="fp32"), Step(1, 1, 9, 1))["weights"].value
    nine_tokens = traffic(a, Workload(context=9, dtype="fp32"), Step(1, 9, 9, 1))["weights"].value
    assert nine_tokens - one_token == 4 * (8 - 2) * 2 * 4 * 6  # six experts more, two matrices each, in bytes


def test_decoding_is_bound_by_memory_and_a_long_prompt_by_arithmetic() -> None:
    gpu = Machine("given", flops=312e12, bandwidth=2.0e12)
    costs = plan("llama-2-7b", Workload(context=4096), machine=gpu)
    prefill, decode = costs.steps["prefill"].roof, costs.steps["decode"].roof
    assert prefill is not None
    assert decode is not None
    assert (prefill.bound, decode.bound) == ("arithmetic", "memory")
    assert decode.seconds == pytest.approx(sum(part.value for part in costs.steps["decode"].moved.values()) / 2.0e12)
    assert decode.intensity.value < 2


def test_a_training_step_reads_and_writes_what_the_optimiser_needs() -> None:
    n = plan(_TINY).total.value
    moved = training_traffic(_TINY, Workload(mode="train", dtype="bf16"))
    assert sum(part.value for part in moved.values()) == n * (2 * 2 + 2 * 4 + 2 * 4 + 2 * 2 * 4)
