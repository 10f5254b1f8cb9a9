"""How much overhead does `regard.attend` add to calling torch's SDPA directly?

Alternating, best of several; the ratio at N ≥ 1,024 and the overhead in microseconds on a tiny input.
    python benchmarks/call_overhead.py [--small]       --small: the tiny input alone
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard


def seconds(work: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - start) / count


def alternate(works: list[Callable[[], object]], count: int, rounds: int) -> list[float]:
    """The best time of each, measured in turns so that noise affects all alike."""
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        best = [min(b, seconds(work, count)) for b, work in zip(best, works, strict=True)]
    return best


def small_calls() -> None:
    """Calls whose arithmetic takes less than a microsecond."""
    tiny, leaf = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8, requires_grad=True)
    window = regard.window(2, 0)
    visible = window.dense(4, 4)
    gradient = torch.randn(1, 1, 4, 8)

    def with_gradient(output: torch.Tensor) -> object:
        return torch.autograd.grad(output, leaf, gradient)

    calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "plain": (lambda: regard.attend(tiny, tiny, tiny), lambda: sdpa(tiny, tiny, tiny)),
        "causal": (lambda: regard.attend(tiny, tiny, tiny, mask=regard.causal()), lambda: sdpa(tiny, tiny, tiny, is_causal=True)),
        "plain, forward and backward": (
            lambda: with_gradient(regard.attend(leaf, leaf, leaf)),
            lambda: with_gradient(sdpa(leaf, leaf, leaf)),
        ),
        "causal, forward and backward": (
            lambda: with_gradient(regard.attend(leaf, leaf, leaf, mask=regard.causal())),
            lambda: with_gradient(sdpa(leaf, leaf, leaf, is_causal=True)),
        ),
        "window, forward and backward": (
            lambda: with_gradient(regard.attend(leaf, leaf, leaf, mask=window)),
            lambda: with_gradient(sdpa(leaf, leaf, leaf, attn_mask=visible)),
        ),
    }
    for name, (ours, theirs) in calls.items():
        attend, direct = alternate([ours, theirs], 200, 50)
        print(f"tiny input (1, 1, 4, 8), {name}: attend {1e6 * attend:.1f} µs, SDPA {1e6 * direct:.1f} µs")


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    small_calls()
    if "--small" in sys.argv:
        return
    for N in (1024, 2048, 4096):
        q, k, v = (torch.randn(1, 8, N, 64) for _ in range(3))
        for name, mask in (("full", None), ("causal", regard.causal())):
            works = [
                lambda q=q, k=k, v=v, mask=mask: regard.attend(q, k, v, mask=mask),
                lambda q=q, k=k, v=v, mask=mask: regard.attend(q, k, v, mask=mask, kernel="fused"),
                lambda q=q, k=k, v=v, mask=mask: sdpa(q, k, v, is_causal=mask is not None),
            ]
            auto, fused, direct = alternate(works, 2, 8)
            kernel = regard.explain(q, k, v, mask=mask).kernel
            print(f"N {N:5} {name:6}  attend ({kernel}) {direct / auto:.2f}× SDPA, attend(kernel='fused') {direct / fused:.3f}×")


if __name__ == "__main__":
    main()
