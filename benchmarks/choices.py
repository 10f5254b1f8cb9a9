"""How fast are sparsemax and 1.5-entmax, beside the `entmax` package on dense scores?

python benchmarks/choices.py
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import torch
from torch import Tensor

import regard
from timing import Row, Table, alternate, main

HEADS, WIDTH, N = 8, 64, 2048


def choices() -> Table:
    table = Table("choices", "How fast are the sparse choices?")
    torch.manual_seed(0)
    q, k, v = leaves = [torch.randn(1, HEADS, N, WIDTH, requires_grad=True) for _ in range(3)]
    grad = torch.randn(1, HEADS, N, WIDTH)
    hidden, causal = torch.ones(N, N, dtype=torch.bool).triu(1), regard.causal()
    try:
        package = importlib.import_module("entmax")
    except ImportError:
        table.add(Row("sparsemax and 1.5-entmax", "entmax package", 0.0, None, note="pip install 'regard[bench]'"))
        return table
    for name, choice, theirs in (
        ("sparsemax", regard.Sparsemax(), package.sparsemax),
        ("1.5-entmax", regard.Entmax15(), package.entmax15),
    ):

        def ours_once(choice: regard.Choice = choice) -> Tensor:
            return regard.attend(q, k, v, choice=choice, mask=causal)

        def theirs_once(theirs: Callable[..., Tensor] = theirs) -> Tensor:
            scores = (q @ k.mT * WIDTH**-0.5).masked_fill(hidden, -1e9)
            return theirs(scores, dim=-1) @ v

        def both(run: Callable[[], Tensor]) -> None:
            for x in leaves:
                x.grad = None
            run().backward(grad)

        work = f"{name}, causal, h{HEADS} N{N} d{WIDTH}"
        once = {"ours": torch.no_grad()(ours_once), "entmax package": torch.no_grad()(theirs_once)}
        table.compare(f"{work} forward", alternate(once, rounds=3), {"entmax package": 8.0})
        steps = {"ours": lambda run=ours_once: both(run), "entmax package": lambda run=theirs_once: both(run)}
        table.compare(f"{work} forward+backward", alternate(steps, rounds=2), {"entmax package": 5.0})
    return table


if __name__ == "__main__":
    main(choices)
