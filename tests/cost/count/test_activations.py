"""Predicted peak memory is within 10 % of the peak measured in a new process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import regard.kernels.tiles
from regard.cost import Architecture, Workload
from regard.cost.count.activations import TILE, attention_bytes, inference_activations, training_activations
from regard.cost.count.flops import Step
from regard.cost.measure.peak import ALLOCATOR_SETTINGS, Call, measurable, peaks_in_new_process

pytestmark = pytest.mark.skipif(not measurable(), reason="this system does not report a process's peak memory; run on Linux")

_CALLS = [
    Call(kernel, batch, heads, tokens, head_dim, train)
    for kernel in ("dense", "streamed")
    for batch, heads, tokens, head_dim in ((1, 8, 768, 64), (2, 4, 1024, 32))
    for train in (False, True)
]


def test_the_tile_is_the_kernels() -> None:
    assert regard.kernels.tiles.TILE == TILE


def test_one_attention_dense_and_streamed() -> None:
    for call, measured in zip(_CALLS, peaks_in_new_process(_CALLS), strict=True):
        step = Step(call.batch, call.tokens, call.tokens, 0)
        assert call.kernel in ("dense", "streamed")
        predicted = attention_bytes(call.kernel, step, call.heads, call.head_dim, train=call.train).value  # type: ignore[arg-type]
        assert predicted == pytest.approx(measured, rel=0.1), call


def test_a_failed_measurement_says_why() -> None:
    with pytest.raises(RuntimeError, match="kernel"):
        peaks_in_new_process([Call("no such kernel", 1, 1, 16, 8)])


def test_whole_models() -> None:
    """Training and inference on a prompt: GPT-2 and Llama of transformers, dense and fused, and our own, fused and streamed."""
    script = Path(__file__).with_name("measure_models.py")
    environment = {**os.environ, **ALLOCATOR_SETTINGS, "OMP_NUM_THREADS": "1"}
    completed = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert completed.returncode == 0, completed.stderr[-2000:]
    rows = json.loads(completed.stdout)
    assert len(rows) == 14
    for row in rows:
        assert row["predicted"] == pytest.approx(row["measured"], rel=0.1), row


def test_streamed_memory_is_linear_and_dense_is_quadratic() -> None:
    a = Architecture("m", layers=4, width=512, heads=8, vocabulary=1000, position="rotary")
    sizes = [Workload(context=n, dtype="fp32") for n in (65_536, 131_072)]
    dense = [inference_activations(a, work, "dense").value for work in sizes]
    streamed = [inference_activations(a, work, "streamed").value for work in sizes]
    assert dense[1] / dense[0] == pytest.approx(4, rel=0.02)
    assert streamed[1] / streamed[0] == pytest.approx(2, rel=0.05)


def test_checkpointing_keeps_only_what_goes_into_each_layer() -> None:
    a = Architecture("m", layers=24, width=64, heads=4, vocabulary=10, position="rotary", head="none", final_norm=False)
    kept = training_activations(a, Workload(context=256, dtype="fp32", mode="train", checkpointing=True), "fused")
    assert kept["kept for the backward pass"].value == 24 * 256 * 64 * 4
