"""What do biases and learned temperatures cost, beside SDPA with a mask of floats?

The peer's mask (ALiBi's, or T5's from its table) and its causal half are made before the clock starts, except where a gradient has to
reach the table. Everything is causal, 8 heads of width 64.

python benchmarks/biases.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard
from timing import Table, alternate, main

HEADS, WIDTH = 8, 64


def inputs(N: int) -> tuple[list[Tensor], Tensor, Tensor]:
    """Query, key and value that take gradients; the causal mask of floats; dO."""
    torch.manual_seed(0)
    leaves = [torch.randn(1, HEADS, N, WIDTH, requires_grad=True) for _ in range(3)]
    hidden = torch.zeros(N, N).masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), -torch.inf)
    return leaves, hidden, torch.randn(1, HEADS, N, WIDTH)


def step(leaves: list[Tensor], grad: Tensor, run: Callable[[], Tensor]) -> Callable[[], None]:
    """Forward and backward."""

    def both() -> None:
        for x in leaves:
            x.grad = None
        run().backward(grad)

    return both


def still(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Forward alone."""
    return torch.no_grad()(run)


def alibi(table: Table) -> None:
    bias, causal = regard.Alibi(HEADS), regard.causal()
    for N in (2048, 4096):
        (q, k, v), hidden, grad = inputs(N)
        mask = bias.tile(range(N), range(N), N, N) + hidden
        work = f"ALiBi, h{HEADS} N{N} d{WIDTH}"

        def ours(q: Tensor = q, k: Tensor = k, v: Tensor = v) -> Tensor:
            return regard.attend(q, k, v, bias=bias, mask=causal)

        def theirs(q: Tensor = q, k: Tensor = k, v: Tensor = v, mask: Tensor = mask) -> Tensor:
            return sdpa(q, k, v, attn_mask=mask)

        peers = {"ours": still(ours), "SDPA with a ready mask": still(theirs)}
        peers["FlexAttention compiled"] = flex_alibi(N, q, k, v)
        table.compare(f"{work} forward", alternate(peers, rounds=6), {"SDPA with a ready mask": 1.5, "FlexAttention compiled": 1.2})
        both = {"ours": step([q, k, v], grad, ours), "SDPA with a ready mask": step([q, k, v], grad, theirs)}
        table.compare(f"{work} forward+backward", alternate(both, rounds=4), {"SDPA with a ready mask": 1.5})


def flex_alibi(N: int, q: Tensor, k: Tensor, v: Tensor) -> Callable[[], Tensor]:
    """FlexAttention with ALiBi and a causal block mask, compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    slopes = regard.Alibi(HEADS).slopes

    def score(value: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return value - slopes[h] * (i - j)

    blocks = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, N, N, device="cpu")
    compiled = torch.compile(flex_attention)
    q, k, v = q.detach(), k.detach(), v.detach()  # on the CPU it compiles no call whose inputs require a gradient
    return still(lambda: compiled(q, k, v, score_mod=score, block_mask=blocks))


def relative(table: Table, N: int = 2048) -> None:
    (q, k, v), hidden, grad = inputs(N)
    bias, causal = regard.RelativeBias(HEADS), regard.causal()
    nn.init.normal_(bias.table)
    buckets = bias.bucket(torch.arange(N) - torch.arange(N)[:, None])
    with torch.no_grad():
        mask = bias.table[buckets].permute(2, 0, 1) + hidden
    work = f"T5 relative bias, h{HEADS} N{N} d{WIDTH}"

    def ours() -> Tensor:
        return regard.attend(q, k, v, bias=bias, mask=causal)

    def theirs() -> Tensor:
        embedded = nn.functional.embedding(buckets, bias.table).permute(2, 0, 1)
        return sdpa(q, k, v, attn_mask=(embedded + hidden).unsqueeze(0))

    ready = {"ours": still(ours), "SDPA with a ready mask": still(lambda: sdpa(q, k, v, attn_mask=mask))}
    table.compare(f"{work} forward", alternate(ready, rounds=6), {"SDPA with a ready mask": 1.5})
    leaves = [q, k, v, bias.table]
    both = {"ours": step(leaves, grad, ours), "SDPA with the embedding": step(leaves, grad, theirs)}
    table.compare(f"{work} forward+backward, the table's too", alternate(both, rounds=3), {"SDPA with the embedding": 3.0})


def full(table: Table, N: int = 2048) -> None:
    (q, k, v), hidden, grad = inputs(N)
    bias, causal = torch.randn(1, HEADS, N, N, requires_grad=True), regard.causal()
    mask = (bias + hidden).detach()
    work = f"full tensor bias, h{HEADS} N{N} d{WIDTH}"

    def ours() -> Tensor:
        return regard.attend(q, k, v, bias=bias, mask=causal)

    ready = {"ours": still(ours), "SDPA with the same mask": still(lambda: sdpa(q, k, v, attn_mask=mask))}
    table.compare(f"{work} forward", alternate(ready, rounds=6), {"SDPA with the same mask": 1.2})
    leaves = [q, k, v, bias]
    both = {"ours": step(leaves, grad, ours), "SDPA with the same mask": step(leaves, grad, lambda: sdpa(q, k, v, attn_mask=bias + hidden))}
    table.compare(f"{work} forward+backward, the bias's too", alternate(both, rounds=3), {"SDPA with the same mask": 1.5})


def temperature(table: Table, N: int = 2048) -> None:
    (q, k, v), _, grad = inputs(N)
    tau, causal = nn.Parameter(torch.tensor(1.3)), regard.causal()
    choice = regard.Softmax(temperature=tau)
    work = f"learned temperature, h{HEADS} N{N} d{WIDTH}"

    def ours() -> Tensor:
        return regard.attend(q, k, v, choice=choice, mask=causal)

    def theirs() -> Tensor:
        return sdpa(q / tau, k, v, is_causal=True)

    table.compare(f"{work} forward", alternate({"ours": still(ours), "SDPA on q/τ": still(theirs)}, rounds=8), {"SDPA on q/τ": 1.2})
    leaves = [q, k, v, tau]
    both = {"ours": step(leaves, grad, ours), "SDPA on q/τ": step(leaves, grad, theirs)}
    table.compare(f"{work} forward+backward", alternate(both, rounds=6), {"SDPA on q/τ": 1.3})


def biases() -> Table:
    table = Table("biases", "What do biases and learned temperatures cost?")
    for part in (alibi, relative, full, temperature):
        part(table)
    return table


if __name__ == "__main__":
    main(biases)
