"""The compiled kernels for tests, and their comparison with the reference; where they were not built, the importing file is skipped."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import attend, observe
from regard.kernels.native.extension import compiled

if compiled is None:
    pytest.skip(
        "regard was built without its compiled kernels: install it with a C++ compiler and without REGARD_NO_NATIVE",
        allow_module_level=True,
    )

SETS: list[str] = compiled.instruction_sets()

EPS = torch.finfo(torch.float32).eps


def assert_native_agrees(q: Tensor, k: Tensor, v: Tensor, largest: float, reference: dict[str, Any] | None = None, **options: Any) -> None:
    """The compiled kernel against the dense reference in float64.

    Output within 8·eps·(1 + largest score) of Σ p|v|, lse within twice that, empty rows empty, and no effect of the number of threads.
    reference: the options that are other objects in float64.
    """
    got = observe(q, k, v, kernel="native", **options)
    assert got.plan is not None
    assert got.plan.kernel == "native"
    wide = {**options, **(reference or {})}
    q64, k64, v64 = q.double(), k.double(), v.double()
    want = observe(q64, k64, v64, kernel="reference", **wide)
    weight = attend(q64, k64, v64.abs(), kernel="reference", **wide)
    bound = 8 * EPS * (1 + largest)
    assert ((got.output - want.output).abs() <= bound * weight + 1e-30).all()
    assert got.lse is not None
    assert want.lse is not None
    empty = want.lse == -math.inf
    assert torch.equal(got.lse == -math.inf, empty)
    assert (got.output[empty] == 0).all()
    assert ((got.lse - want.lse)[~empty].abs() <= bound * 2).all()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3 if threads == 1 else 1)
        assert torch.equal(attend(q, k, v, kernel="native", **options), got.output)
    finally:
        torch.set_num_threads(threads)


def random_inputs(B: int, h: int, k: int, L: int, S: int, d: int, dv: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Query (B, h, L, d), key (B, k, S, d) and value (B, k, S, dv) of random numbers."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(B, h, L, d, generator=g), torch.randn(B, k, S, d, generator=g), torch.randn(B, k, S, dv, generator=g)


__all__ = ["EPS", "SETS", "assert_native_agrees", "compiled", "random_inputs"]
