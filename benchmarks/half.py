"""How fast is attention in float16, forward and backward?

python benchmarks/half.py
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard
from timing import Table, alternate, main

HEADS, WIDTH, N = 8, 64, 2048


def half() -> Table:
    table = Table("half", "How fast is attention in float16?")
    torch.manual_seed(0)
    leaves = [torch.randn(1, HEADS, N, WIDTH).half().requires_grad_() for _ in range(3)]
    grad, causal = torch.randn(1, HEADS, N, WIDTH).half(), regard.causal()

    def ours() -> Tensor:
        return regard.attend(*leaves, mask=causal)

    def theirs() -> Tensor:
        return sdpa(*leaves, is_causal=True)

    def both(run: object) -> None:
        for x in leaves:
            x.grad = None
        run().backward(grad)  # type: ignore[operator]

    work = f"float16, causal, h{HEADS} N{N} d{WIDTH}"
    once = {"ours": torch.no_grad()(ours), "SDPA float16": torch.no_grad()(theirs)}
    table.compare(f"{work} forward", alternate(once, rounds=6), {"SDPA float16": 2.0})
    steps = {"ours": lambda: both(ours), "SDPA float16": lambda: both(theirs)}
    table.compare(f"{work} forward+backward", alternate(steps, rounds=3), {"SDPA float16": 4.0})
    return table


if __name__ == "__main__":
    main(half)
