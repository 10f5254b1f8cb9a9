"""How fast is a causal window over a long text, where most tiles are empty?

python benchmarks/window.py
"""

from __future__ import annotations

import warnings

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard
from timing import Row, Table, alternate, main


def window(N: int = 16_384, heads: int = 4, d: int = 64, width: int = 256) -> Table:
    table = Table("window", "How fast is a causal window over a long text?")
    q, k, v = (torch.randn(1, heads, N, d) for _ in range(3))
    mask = regard.causal() & regard.window(width, 0)
    dense = mask.dense(N, N)
    work = f"causal window {width}, N{N} h{heads} d{d} forward"
    with torch.no_grad():
        contestants = {"ours": lambda: regard.attend(q, k, v, mask=mask), "SDPA, dense mask": lambda: sdpa(q, k, v, attn_mask=dense)}
        table.compare(work, alternate(contestants, rounds=4), {"SDPA, dense mask": 20})
        try:
            flex = _flex(N, width)
            contestants = {"ours": lambda: regard.attend(q, k, v, mask=mask), "FlexAttention, compiled": lambda: flex(q, k, v)}
            off = float((flex(q, k, v) - regard.attend(q, k, v, mask=mask)).abs().max())
            assert off < 1e-4, f"the two disagree by {off}"
            table.compare(work, alternate(contestants, rounds=8), {"FlexAttention, compiled": 2})
        except Exception as error:  # a peer that cannot run is a result too
            why = f"failed here: {type(error).__name__}: {str(error)[:120]}"
            table.add(Row(work, "FlexAttention, compiled", table.rows[0].ours, None, 2, note=why))
    return table


def _flex(N: int, width: int):  # type: ignore[no-untyped-def]
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    blocks = create_block_mask(lambda b, h, i, j: (j <= i) & (i - j <= width), None, None, N, N, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(flex_attention)
        return lambda q, k, v: compiled(q, k, v, block_mask=blocks)


if __name__ == "__main__":
    main(window)
