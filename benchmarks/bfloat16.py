"""How fast is dense attention in bfloat16, and how exact?

python benchmarks/bfloat16.py
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard
from regard.kernels.native import instruction_set
from timing import Table, alternate, main


@torch.no_grad()
def bfloat16(N: int = 4096, heads: int = 8, d: int = 64) -> Table:
    table = Table("bfloat16", "How fast is dense attention in bfloat16?")
    q, k, v = (torch.randn(1, heads, N, d, dtype=torch.bfloat16) for _ in range(3))
    has_bf16 = instruction_set() == "avx512_bf16"
    for name, mask in (("full", None), ("causal", regard.causal())):
        contestants = {
            "ours": lambda m=mask: regard.attend(q, k, v, mask=m),
            "torch SDPA": lambda m=mask: sdpa(q, k, v, is_causal=m is not None),
        }
        times = alternate(contestants, rounds=8)
        table.compare(f"bfloat16 dense {name} forward, B1 h{heads} N{N} d{d}", times, {"torch SDPA": 1.3 if has_bf16 else None})
        # The last 64 rows in float64: a causal mask is aligned at the end, so it fits them unchanged.
        truth = regard.attend(q[:, :, -64:].double(), k.double(), v.double(), mask=mask, kernel="reference")
        for contestant, run in contestants.items():
            off = float((run()[:, :, -64:].double() - truth).abs().max())
            table.notes.append(f"{name}: largest error of {contestant} on the last 64 rows against float64, {off:.2g}")
    if not has_bf16:
        table.notes.append("this machine has no VDPBF16PS: bfloat16 is widened, no target")
    return table


if __name__ == "__main__":
    main(bfloat16)
