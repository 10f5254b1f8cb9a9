"""What can this machine do: the peak rates that other results are compared with.

The matrix product of the kernels' own register tile, their 2^x and tanh, and reading memory, on all threads used.
    python benchmarks/limits.py
"""

from __future__ import annotations

import time

import torch

from regard.kernels.native.extension import compiled
from timing import RESULTS, THREADS, machine


def rate(limit: str, repeats: int = 1, data: torch.Tensor | None = None, rounds: int = 12) -> float:
    """Billions of operations, numbers or bytes per second, the best of several rounds."""
    if compiled is None:
        raise RuntimeError("the limits are measured by the compiled kernels, and this installation has none; reinstall with a C++ compiler")
    best = 0.0
    for _ in range(rounds):
        start = time.perf_counter()
        address, floats = (0, 0) if data is None else (data.data_ptr(), data.numel())
        amount = compiled.limits(getattr(compiled.Limit, limit), repeats, THREADS, address, floats)
        best = max(best, amount / (time.perf_counter() - start) / 1e9)
    return best


def tile_rate() -> float:
    """GFLOP/s of the register tile with everything in the first-level cache."""
    return rate("product", 40_000)


def read_rate() -> float:
    """GB/s of reading far more memory than any cache holds."""
    return rate("read", data=torch.ones(128 * 2**20))


def limits() -> dict[str, str]:
    return {
        "matrix product of the tile": f"{tile_rate():.0f} GFLOP/s",
        "2^x": f"{rate('exp', 20_000):.2f} G/s",
        "tanh": f"{rate('tanh', 10_000):.2f} G/s",
        "reading memory": f"{read_rate():.1f} GB/s",
    }


def main() -> None:
    print(machine())
    rates = limits()
    for name, value in rates.items():
        print(f"{name:30} {value:>14}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows = [f"| {name} | {value} |" for name, value in rates.items()]
    lines = ["# What can this machine do?", "", machine(), "", "| limit | rate |", "|---|---:|", *rows]
    (RESULTS / "limits.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
