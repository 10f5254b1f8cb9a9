"""The compiled readings pass against readings off the dense float64 weights, on every instruction set."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import compiled_kernels  # noqa: F401  (skips this file where there are none)
from regard import (
    Additive,
    Alibi,
    Argmax,
    Choice,
    Entmax15,
    Gaussian,
    Score,
    Softmax,
    Sparsemax,
    causal,
    global_tokens,
    observe,
    window,
)
from regard.kernels import KERNELS
from regard.kernels.native.readings import read
from regard.kernels.request import Request
from regard.masks import Mask
from regard.readings import At, Distance, Entropy, MaxLogit, Pooled, Reading, Received, Rows, Same, Sink, TopK, ValueNorm


def everything(B: int, h: int, L: int, S: int) -> list[Reading]:
    g = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 9, (B, max(L, S)), generator=g)
    far = ids[:, :S] + 2**40 * (ids[:, :S] > 4)  # ids that do not fit 32 bits
    return [
        Entropy(),
        Received(),
        TopK(5),
        Distance(),
        At(torch.randint(-1, S, (B, h, L), generator=g)),
        Same(ids, ids[:, :S]),
        Same(ids, far, itself=True, name="same_far"),
        Pooled(7, 11),
        Rows([0, 3, -1]),
        MaxLogit(),
        Sink(3),
        ValueNorm(),
    ]


def compare(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert list(got) == list(want)
    for name, wanted in want.items():
        fields = zip(got[name], wanted, strict=True) if isinstance(wanted, tuple) else [(got[name], wanted)]
        for a, b in fields:
            if not isinstance(b, Tensor):
                assert a == b, name
            elif b.dtype == torch.int64:
                assert torch.equal(a, b), name
            else:
                torch.testing.assert_close(a.double(), b, rtol=2e-5, atol=5e-6, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize(
    ("B", "h", "k", "L", "S", "mask", "choice"),
    [
        (2, 4, 2, 70, 130, None, Softmax()),
        (1, 2, 2, 90, 90, causal(), Softmax()),
        (1, 2, 1, 600, 600, causal() & window(100, 0) | global_tokens([5]), Softmax()),
        (1, 2, 1, 50, 1200, causal(), Softmax(temperature=0.7, sinks=torch.tensor([0.5, 2.0]))),
        (1, 2, 2, 60, 20, causal(), Softmax()),
    ],
)
def test_every_reading(isa: str, B: int, h: int, k: int, L: int, S: int, mask: Mask | None, choice: Softmax) -> None:
    g = torch.Generator().manual_seed(0)
    q, key, v = torch.randn(B, h, L, 32, generator=g), torch.randn(B, k, S, 32, generator=g), torch.randn(B, k, S, 24, generator=g)
    want = observe(q.double(), key.double(), v.double(), mask=mask, choice=choice, readings=everything(B, h, L, S), kernel="reference")
    got = observe(q, key, v, mask=mask, choice=choice, readings=everything(B, h, L, S), kernel="native")
    compare(got.readings, want.readings)


@pytest.mark.parametrize("mask", [None, causal()])
@pytest.mark.parametrize(
    "part",
    [Sparsemax(), Entmax15(0.5), Argmax(), Alibi(4), Gaussian(0.8), Additive(32, 32, hidden=7), Softmax(torch.tensor([0.5, 1, 2, 3.0]))],
)
def test_every_reading_of_every_kind(isa: str, part: nn.Module, mask: Mask | None) -> None:
    """Other choices, scores, biases and temperatures, in the same pass."""
    name = "choice" if isinstance(part, Choice) else "score" if isinstance(part, Score) else "bias"
    g = torch.Generator().manual_seed(0)
    q, key, v = torch.randn(2, 4, 40, 32, generator=g), torch.randn(2, 2, 130, 32, generator=g), torch.randn(2, 2, 130, 24, generator=g)
    wide = {name: copy.deepcopy(part).double()}
    want = observe(q.double(), key.double(), v.double(), mask=mask, readings=everything(2, 4, 40, 130), kernel="reference", **wide)
    options: dict[str, Any] = {name: part}
    request = Request.of(q, key, v, mask=mask, readings=everything(2, 4, 40, 130), **options)
    assert KERNELS["native"].refuses(request) is None
    got = observe(q, key, v, mask=mask, readings=everything(2, 4, 40, 130), kernel="native", **options)
    for result in (got.readings, want.readings):
        result["top"] = result["top"].weights  # among equal weights of a sparse row, any key will do
    compare(got.readings, want.readings)


def test_threads_change_nothing() -> None:
    q, k, v = torch.randn(3, 1, 2, 200, 16).unbind()
    before = torch.get_num_threads()
    results = []
    try:
        for n in (1, 3):
            torch.set_num_threads(n)
            results.append(observe(q, k, v, mask=causal(), readings=[Received(), Distance(), Pooled(5, 5)], kernel="native").readings)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0]["received"], results[1]["received"])
    assert torch.equal(results[0]["distance"].mass, results[1]["distance"].mass)
    assert torch.equal(results[0]["pooled"], results[1]["pooled"])


def test_what_one_pass_cannot_read_is_left_over() -> None:
    class Mine(Entropy):
        name = "mine"

    class Squared(Entropy):
        name = "squared"

        def add(self, state: Tensor, p: Tensor, s: Tensor, rows: range, cols: range) -> None:
            state[:, :, rows.start : rows.stop] += p.square().sum(-1)

    q = torch.randn(1, 1, 9, 4)
    second = TopK(3)
    second.name = "top3"
    readings = (Entropy(), Mine(), TopK(2), second, Squared())
    request = Request.of(q, q, q, readings=readings)
    results, left = read(request, torch.logsumexp(q @ q.mT / 2, -1), None)
    assert results.keys() == {"entropy", "top"}
    assert left == (readings[1], readings[3], readings[4])  # a second of a kind, and one that computes something else
    got = observe(q, q, q, readings=[Entropy(), Mine()], kernel="native").readings
    torch.testing.assert_close(got["mine"], got["entropy"], rtol=1e-5, atol=1e-6)
