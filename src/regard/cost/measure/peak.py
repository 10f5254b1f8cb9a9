"""The most memory a call needs beside what was there before it, measured by the operating system.

`peak_bytes` works in any process whose allocator gives memory back at once; `fresh` starts such a process, runs this
file in it and reads the answers. On a GPU torch's own count is used.
"""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

# glibc keeps freed blocks for later unless told to map every large one and to give it back.
RETURNING = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def measurable() -> bool:
    """Whether this system tells a process its own peak and lets it be reset."""
    return sys.platform == "linux" and os.access("/proc/self/clear_refs", os.W_OK)


def no_huge_pages() -> None:
    """Ask Linux to back this process with small pages only: huge ones would round every tensor up to 2 MB."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE


def peak_bytes(run: Callable[[], object], device: str = "cpu") -> int:
    """The peak of one call over what is in memory before it."""
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


@dataclass(frozen=True)
class Call:
    """One attention call to measure: `kernel` is "dense", the textbook's form, or a name `attend` knows."""

    kernel: str
    batch: int
    heads: int
    tokens: int
    head_dim: int
    train: bool = False


def dense(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
    """Attention as the textbooks write it, the N×N scores and weights in memory. Shapes: (B, h, N, d) to (B, h, N, d)."""
    weights = query @ key.mT * query.shape[-1] ** -0.5
    weights = weights.masked_fill(~visible, -math.inf)  # under the same name, so that no more than two copies live at once
    weights = torch.softmax(weights, -1)
    return weights @ value


def run_call(call: Call) -> Callable[[], object]:
    """The call as a function without arguments, its inputs made and everything it loads loaded."""
    from regard import attend, causal

    generator = torch.Generator().manual_seed(0)
    shape = (call.batch, call.heads, call.tokens, call.head_dim)
    inputs = [torch.randn(shape, generator=generator).requires_grad_(call.train) for _ in range(3)]
    visible = torch.ones(call.tokens, call.tokens, dtype=torch.bool).tril() if call.kernel == "dense" else None

    def once(q: Tensor, k: Tensor, v: Tensor) -> None:
        if visible is not None:
            out = dense(q, k, v, visible[: q.shape[2], : q.shape[2]])
        else:
            out = attend(q, k, v, mask=causal(), kernel=call.kernel)
        if call.train:
            out.backward(torch.ones_like(out))
            for x in inputs:
                x.grad = None

    once(*(x[:, :, :16] for x in inputs))
    return lambda: once(*inputs)


def fresh(calls: Sequence[Call], *, timeout: float = 120.0) -> list[int]:
    """Peaks of the calls, in bytes, each over its own inputs, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "regard.cost.measure.peak"],
        input=json.dumps([asdict(call) for call in calls]),
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **RETURNING},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the measuring process ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return [int(number) for number in json.loads(done.stdout)]


def _main() -> None:
    no_huge_pages()
    calls = [Call(**given) for given in json.load(sys.stdin)]
    peaks = []
    for call in calls:
        run = run_call(call)
        run()  # the first run of a shape also pays for what torch and the BLAS set up once
        peaks.append(peak_bytes(run))
    json.dump(peaks, sys.stdout)


if __name__ == "__main__":
    _main()
