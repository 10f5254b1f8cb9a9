"""How fast is one decoding step against a long cache, and how near the memory's bandwidth?

Several caches take turns, so that none stays in the processor's cache; before each turn other memory is read, so that no contestant
waits for the writes of the one before (SDPA repeats the keys of grouped heads: four times the cache).
    python benchmarks/decode.py
"""

from __future__ import annotations

import itertools

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard
from limits import read_rate
from timing import Table, alternate, main


@torch.no_grad()
def decode(cache: int = 32_768, heads: int = 8, kv: int = 2, d: int = 64, caches: int = 6) -> Table:
    table = Table("decode", "How fast is one decoding step against a long cache?")
    q = torch.randn(1, heads, 1, d)
    key_values = [(torch.randn(1, kv, cache, d), torch.randn(1, kv, cache, d)) for _ in range(caches)]
    turns = {name: itertools.cycle(key_values) for name in ("ours", "sdpa")}

    def ours() -> torch.Tensor:
        k, v = next(turns["ours"])
        return regard.attend(q, k, v)

    def theirs() -> torch.Tensor:
        k, v = next(turns["sdpa"])
        return sdpa(q, k, v, enable_gqa=True)

    elsewhere = torch.ones(16 << 20)
    times = alternate({"ours": ours, "torch SDPA": theirs}, rounds=60, between=elsewhere.sum)
    work = f"decode, 1 query, cache {cache:,}, h{heads} kv{kv} d{d}"
    table.compare(work, times, {"torch SDPA": 3})
    rate = 2 * 4 * kv * cache * d / times["ours"] / 1e9
    peak = read_rate()
    table.share(work, "memory bandwidth", rate, peak, 0.7, "GB/s")
    return table


if __name__ == "__main__":
    main(decode)
