"""How much memory does exact attention need, forward and backward, beside its inputs?

Each row runs in a fresh process; the peak is the process's own high-water mark above what it held before the call.
    python benchmarks/memory.py
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys


def peak() -> int:
    """The process's resident high-water mark in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(work: str, kernel: str, N: int) -> None:
    import torch

    import regard

    torch.manual_seed(0)
    heads, d = (4, 64) if work == "causal" else (1, 128)
    score: regard.Score = regard.ScaledDot() if work == "causal" else regard.Additive(d, d, hidden=128)
    mask = regard.causal() if work == "causal" else None
    small = torch.randn(1, heads, 64, d, requires_grad=True)
    regard.attend(small, small, small, score=score, mask=mask, kernel=kernel).sum().backward()  # warm up threads and allocator
    q, k, v = (torch.randn(1, heads, N, d, requires_grad=True) for _ in range(3))
    before = peak()
    regard.attend(q, k, v, score=score, mask=mask, kernel=kernel).sum().backward()
    predicted = regard.explain(q, k, v, score=score, mask=mask, kernel=kernel).bytes
    print(json.dumps({"extra": peak() - before, "predicted": predicted}))


def measure(work: str, kernel: str, N: int) -> dict[str, int]:
    done = subprocess.run([sys.executable, __file__, "--run", work, kernel, str(N)], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", nargs=3, metavar=("WORK", "KERNEL", "N"))
    arguments = parser.parse_args().run
    if arguments:
        run(arguments[0], arguments[1], int(arguments[2]))
        return
    print(f"{'forward + backward':44} {'kernel':10} {'extra MB':>9} {'predicted':>9} {'dense form':>11}")
    for work, N, name in (
        ("causal", 16_384, "causal, 4 heads, L=S=16,384, d=64"),
        ("causal", 4_096, "causal, 4 heads, L=S=4,096, d=64"),
        ("additive", 2_048, "additive, L=S=2,048, hidden 128"),
    ):
        dense = {"causal": 4 * N * N * 4 * 2, "additive": N * N * 128 * 4 * 2}[work]  # scores and weights; the tanh and its gradient
        for kernel in ("streamed", "reference") if N <= 4_096 and work == "causal" else ("streamed",):
            got = measure(work, kernel, N)
            print(f"{name:44} {kernel:10} {got['extra'] / 1e6:9.0f} {got['predicted'] / 1e6:9.0f} {dense / 1e6:11,.0f}")


if __name__ == "__main__":
    main()
