"""What does looking cost: every reading of a long causal attention, beside SDPA that shows nothing?

Memory is the high-water mark of a fresh process above what it held before the call.
    python benchmarks/readings.py
"""

from __future__ import annotations

import subprocess
import sys

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard
from timing import Row, Table, alternate, extra_memory, main

N, HEADS, D = 16_384, 8, 64


def everything(n: int = N) -> list[regard.Reading]:
    """One of every reading the library has."""
    from regard import readings

    positions = torch.arange(n)
    return [
        readings.Entropy(),
        readings.Received(),
        readings.TopK(4),
        readings.Distance(),
        readings.At((positions - 1).clamp(min=0)),
        readings.Same(positions % 100),
        readings.Pooled(64, 64),
        readings.Rows([0, n // 2, n - 1]),
        readings.MaxLogit(),
        readings.Sink(),
        readings.ValueNorm(),
    ]


def inputs(n: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return tuple(torch.randn(1, HEADS, n, D) for _ in range(3))


def measure() -> None:
    regard.observe(*inputs(64), mask=regard.causal(), readings=everything(64))
    given = inputs(N)
    print(extra_memory(lambda: regard.observe(*given, mask=regard.causal(), readings=everything(N))))


@torch.no_grad()
def readings() -> Table:
    table = Table("readings", "What do readings cost: all of them, compared with torch SDPA without any?")
    q, k, v = inputs(N)
    mask, wanted = regard.causal(), everything(N)
    times = alternate(
        {"ours": lambda: regard.observe(q, k, v, mask=mask, readings=wanted), "torch SDPA": lambda: sdpa(q, k, v, is_causal=True)}, rounds=3
    )
    work = f"output and all readings, causal N{N} h{HEADS} d{D}"
    table.add(Row(work, "torch SDPA, output alone", times["ours"], times["torch SDPA"], 1.9, at_most=True))
    done = subprocess.run([sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True)
    table.add(Row(f"{work}, extra memory", "150 MB", float(done.stdout.splitlines()[-1]) / 1e6, 150.0, 1.0, "MB", at_most=True))
    table.notes.append("readings: " + ", ".join(type(reading).__name__ for reading in wanted))
    return table


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        measure()
    else:
        main(readings)
