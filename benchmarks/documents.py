"""How fast does a batch of packed documents train, each seeing only itself?

python benchmarks/documents.py
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard
from timing import Table, alternate, main


def documents(N: int = 16_384, heads: int = 4, d: int = 64, count: int = 64) -> Table:
    table = Table("documents", "How fast does a batch of packed documents train?")
    g = torch.Generator().manual_seed(0)
    cuts = torch.randperm(N - 1, generator=g)[: count - 1].sort().values + 1
    ids = torch.bucketize(torch.arange(N), cuts, right=True)
    mask = regard.documents(ids)
    dense = mask.dense(N, N)
    leaves = [torch.randn(1, heads, N, d, generator=g).requires_grad_() for _ in range(3)]
    grad = torch.randn(1, heads, N, d, generator=g)

    def step(out: torch.Tensor) -> None:
        for x in leaves:
            x.grad = None
        out.backward(grad)

    contestants = {
        "ours": lambda: step(regard.attend(*leaves, mask=mask)),
        "SDPA, dense mask": lambda: step(sdpa(*leaves, attn_mask=dense)),
    }
    work = f"{count} packed documents, N{N} h{heads} d{d} forward+backward"
    table.compare(work, alternate(contestants, rounds=3), {"SDPA, dense mask": 8})
    return table


if __name__ == "__main__":
    main(documents)
