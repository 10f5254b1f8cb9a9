"""How much overhead does `regard.attend` add to calling torch's SDPA directly?

Alternating, best of several; the ratio at N ≥ 1,024 and the overhead in microseconds on a tiny input.
    python benchmarks/call_overhead.py
"""

from __future__ import annotations

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


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    tiny = torch.randn(1, 1, 4, 8)
    ours, theirs = alternate([lambda: regard.attend(tiny, tiny, tiny), lambda: sdpa(tiny, tiny, tiny)], 500, 20)
    print(f"tiny input (1, 1, 4, 8): attend adds {1e6 * (ours - theirs):.1f} µs to SDPA's {1e6 * theirs:.1f} µs")
    masked, plain = alternate(
        [lambda: regard.attend(tiny, tiny, tiny, mask=regard.causal()), lambda: sdpa(tiny, tiny, tiny, is_causal=True)], 500, 20
    )
    print(f"the same, causal: {1e6 * masked:.1f} µs in all, SDPA {1e6 * plain:.1f} µs")
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
