"""Measure the peak rates of this machine: arithmetic and memory bandwidth."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable
from functools import cache

import torch

from regard.cost.count.roofline import Machine

__all__ = ["best_time", "this_machine"]


def best_time(run: Callable[[], object], budget: float) -> float:
    """Return the shortest time of the runs that fit the budget, in seconds; at least two, after one warm-up run."""
    run()
    best, spent, runs = math.inf, 0.0, 0
    while runs < 2 or (spent < budget and runs < 200):
        begin = time.perf_counter()
        run()
        taken = time.perf_counter() - begin
        best, spent, runs = min(best, taken), spent + taken, runs + 1
    return best


@cache
def this_machine(dtype: str = "fp32", seconds: float = 0.6, threads: int = 0) -> Machine:
    """Measure FLOP/s of matrix products and bytes/s of copying 192 MB; cached per dtype and thread count.

    dtype: of the matrix products: "fp64", "fp32", "bf16" or "fp16".
    seconds: about how long each of the two may take.
    threads: what the result reports; 0 for as many as torch uses.

    Returns a :class:`Machine`.

    >>> this_machine(seconds=0.01).flops > 0
    True
    """
    kinds = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    kind = kinds.get(dtype, torch.float32)
    flops = max(_matmul_rate(kind, n, seconds / 3) for n in (384, 768, 1536))
    source = torch.ones(48 << 20, dtype=torch.float32)  # 192 MB
    target = torch.empty_like(source)
    bandwidth = 2 * source.nbytes / best_time(lambda: target.copy_(source), seconds)
    return Machine(platform.processor() or platform.machine(), flops, bandwidth, threads or torch.get_num_threads())


def _matmul_rate(kind: torch.dtype, n: int, seconds: float) -> float:
    left, right = torch.ones(n, n, dtype=kind), torch.ones(n, n, dtype=kind)
    out = torch.empty(n, n, dtype=kind)
    return 2 * n**3 / best_time(lambda: torch.mm(left, right, out=out), seconds)
