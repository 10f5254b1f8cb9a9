"""Measure the peak memory of a call above the memory in use before it, as the operating system reports it.

`peak_bytes` is exact in a process whose allocator returns freed memory at once; `peaks_in_new_process` starts such a process, which runs
this file. On a GPU torch's own statistics are used. Linux counts the pages of a process in batches, so a peak is known within about a
quarter of a megabyte (Linux 6.18, two processors: what is below a megabyte may be measured as nothing).
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

# Make glibc map large blocks separately and return them when they are freed.
ALLOCATOR_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def _status(field: str) -> int:
    """Return a field of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def measurable() -> bool:
    """Return whether this system reports a process's peak memory and allows to reset it (Linux)."""
    return sys.platform == "linux" and os.access("/proc/self/clear_refs", os.W_OK)


def no_huge_pages() -> None:
    """Disable huge pages for this process: they would round every tensor up to 2 MB."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE


def peak_bytes(run: Callable[[], object], device: str = "cpu") -> int:
    """Return the peak memory of one call above the memory in use before it."""
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


@dataclass(frozen=True)
class Call:
    """One attention call to measure. kernel: "dense" for plain PyTorch with N×N weights, or the name of a kernel of `attend`."""

    kernel: str
    batch: int
    heads: int
    tokens: int
    head_dim: int
    train: bool = False


def dense(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
    """Compute attention in plain PyTorch, with the N×N scores and weights in memory: (B, h, N, d) to (B, h, N, d)."""
    weights = query @ key.mT * query.shape[-1] ** -0.5
    weights = weights.masked_fill(~visible, -math.inf)  # rebinding the name frees the scores: at most two N×N tensors exist at once
    weights = torch.softmax(weights, -1)
    return weights @ value


def run_call(call: Call) -> Callable[[], object]:
    """Return the call as a function without arguments; inputs exist, and a first small call has loaded what it needs."""
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


def peaks_in_new_process(calls: Sequence[Call], *, timeout: float = 120.0) -> list[int]:
    """Return the peak bytes of each call beside its inputs, measured in a new process."""
    completed = subprocess.run(
        [sys.executable, "-m", "regard.cost.measure.peak"],
        input=json.dumps([asdict(call) for call in calls]),
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **ALLOCATOR_SETTINGS},
        check=False,
    )
    if completed.returncode:
        raise RuntimeError(f"the measuring process ended with code {completed.returncode}: {completed.stderr.strip().splitlines()[-1:]}")
    return [int(number) for number in json.loads(completed.stdout)]


def _main() -> None:
    no_huge_pages()
    calls = [Call(**fields) for fields in json.load(sys.stdin)]
    peaks = []
    for call in calls:
        run = run_call(call)
        run()  # the first run of a shape includes what torch and BLAS allocate once
        peaks.append(peak_bytes(run))
    json.dump(peaks, sys.stdout)


if __name__ == "__main__":
    _main()
