"""How fast is dense exact attention beside torch's own, forward and backward?

python benchmarks/dense.py
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard
from limits import rate, tile_rate
from timing import Table, alternate, main


def textbook(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """softmax(QKᵀ/√d)·V, as written."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -torch.inf), -1) @ v


def dense(N: int = 4096, heads: int = 8, d: int = 64) -> Table:
    table = Table("dense", "How fast is dense exact attention, and how near the machine's limit?")
    q, k, v = (torch.randn(1, heads, N, d) for _ in range(3))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    grad = torch.randn(1, heads, N, d)
    peak = tile_rate()
    ceiling = 1 / (1 + peak / 4 / d / rate("exp", 20_000))  # a score: 4d operations of the products, one 2^x
    table.notes.append(f"One 2^x a score at its own rate, and nothing else beside the products, would be {ceiling:.3f} of the tile's rate.")
    for name, causal in (("full", False), ("causal", True)):
        mask = regard.causal() if causal else None
        visible = torch.ones(N, N, dtype=torch.bool).tril() if causal else None
        work = f"dense {name}, B1 h{heads} N{N} d{d}"

        def ours(mask: regard.Mask | None = mask) -> torch.Tensor:
            return regard.attend(q, k, v, mask=mask)

        def theirs(causal: bool = causal) -> torch.Tensor:
            return sdpa(q, k, v, is_causal=causal)

        with torch.no_grad():
            times = alternate({"ours": ours, "torch SDPA": theirs}, rounds=15)
            table.compare(f"{work} forward", times, {"torch SDPA": 1.15})
            # Measured separately: its matrices of half a gigabyte disturb memory and caches.
            table.compare(
                f"{work} forward", alternate({"ours": ours, "textbook": lambda visible=visible: textbook(q, k, v, visible)}, rounds=4), {}
            )
        flops = 4 * heads * d * (N * (N + 1) / 2 if causal else N * N)
        table.share(f"{work} forward", "tile's matrix product", flops / times["ours"] / 1e9, peak, 0.85 if causal else 0.93, "GFLOP/s")

        def step(run: object) -> None:
            for x in leaves:
                x.grad = None
            torch.autograd.backward(run(*leaves), grad)  # type: ignore[operator]

        def ours_step(mask: regard.Mask | None = mask) -> None:
            step(lambda *x: regard.attend(*x, mask=mask))

        def their_step(causal: bool = causal) -> None:
            step(lambda *x: sdpa(*x, is_causal=causal))

        table.compare(f"{work} forward+backward", alternate({"ours": ours_step, "torch SDPA": their_step}, rounds=6), {"torch SDPA": 1.25})
    return table


if __name__ == "__main__":
    main(dense)
