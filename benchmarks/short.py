"""How fast do many short sequences train, as a translator's batches have them?

The tensors are (B, L, h, d) in memory, as a layer's projections are.
    python benchmarks/short.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import regard
from dense import textbook
from timing import Table, alternate, main


def short(shapes: tuple[tuple[int, int, int, int], ...] = ((200, 4, 14, 64), (100, 4, 30, 64), (12, 4, 64, 32), (30, 4, 128, 64))) -> Table:
    table = Table("short", "How fast do many short sequences train?")
    for dtype in (torch.float32, torch.bfloat16):
        for B, h, L, d in shapes:
            g = torch.Generator().manual_seed(0)
            leaves = [torch.randn(B, L, h, d, generator=g).to(dtype).transpose(1, 2).requires_grad_() for _ in range(3)]
            grad = torch.randn(B, L, h, d, generator=g).to(dtype).transpose(1, 2)
            lengths = torch.randint(L // 2, L + 1, (B,), generator=g)
            visible = (torch.arange(L) < lengths[:, None])[:, None, None]
            mask = regard.padding(lengths)

            def step(run: Callable[[], torch.Tensor], leaves: list[torch.Tensor] = leaves, grad: torch.Tensor = grad) -> None:
                for x in leaves:
                    x.grad = None
                run().backward(grad)

            contestants = {
                "ours": lambda step=step, x=leaves, m=mask: step(lambda: regard.attend(*x, mask=m)),
                "textbook": lambda step=step, x=leaves, m=visible: step(lambda: textbook(*x, m)),
            }
            name = str(dtype).removeprefix("torch.")
            table.compare(f"{name}, padded, B{B} h{h} L{L} d{d} forward+backward", alternate(contestants, rounds=60), {"textbook": 1})
    return table


if __name__ == "__main__":
    main(short)
