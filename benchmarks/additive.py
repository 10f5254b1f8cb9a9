"""How fast, and how small, is additive attention beside the form torch users write?

Memory is the high-water mark of a fresh process above what it held before the call.
    python benchmarks/additive.py
"""

from __future__ import annotations

import subprocess
import sys

import torch

import regard
from timing import Row, Table, alternate, extra_memory, main

SHAPE = (8, 512, 512, 128)


def torch_form(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, score: regard.Additive) -> torch.Tensor:
    """softmax(vᵀ tanh(Wk + Uq))·V with the hidden layer of every pair in one tensor."""
    hidden = torch.tanh((q @ score.U.mT).unsqueeze(-2) + (k @ score.W.mT).unsqueeze(-3))
    return torch.softmax(hidden @ score.v, -1) @ v


def inputs(B: int, L: int, S: int, width: int, grad: bool) -> tuple[list[torch.Tensor], regard.Additive]:
    torch.manual_seed(0)
    score = regard.Additive(width, width, hidden=width).requires_grad_(grad)
    return [torch.randn(B, n, width).requires_grad_(grad) for n in (L, S, S)], score


def step(run: object, leaves: list[torch.Tensor], score: regard.Additive) -> None:
    score.zero_grad()
    for x in leaves:
        x.grad = None
    run(leaves, score).sum().backward()  # type: ignore[operator]


def ours(leaves: list[torch.Tensor], score: regard.Additive) -> torch.Tensor:
    q, k, v = leaves
    return regard.attend(q, k, v, score=score)


def theirs(leaves: list[torch.Tensor], score: regard.Additive) -> torch.Tensor:
    q, k, v = leaves
    return torch_form(q, k, v, score)


def peak(implementation: str) -> float:
    """Peak memory of one forward and backward in MB, in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--memory", implementation], capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1]) / 1e6


def measure(implementation: str) -> None:
    run = ours if implementation == "ours" else theirs
    step(run, *inputs(1, 16, 16, SHAPE[3], True))
    leaves, score = inputs(*SHAPE, True)
    print(extra_memory(lambda: step(run, leaves, score)))


def additive() -> Table:
    table = Table("additive", "How fast, and how small, is additive attention?")
    for shape, name, targets in (
        (SHAPE, "additive 8×512×512×128", (20.0, 10.0)),
        ((64, 1, 20, 256), "one decoder step, B64 S20 hidden 256", (None, None)),
        ((64, 1, 20, 1024), "one decoder step, B64 S20 hidden 1024", (None, None)),
    ):
        plain, score = inputs(*shape, False)
        off = float((ours(plain, score) - theirs(plain, score)).abs().max())
        assert off < 1e-4, f"the two disagree by {off}"
        rounds = 3 if shape == SHAPE else 200
        pair = {"ours": lambda p=plain, s=score: ours(p, s), "torch form": lambda p=plain, s=score: theirs(p, s)}
        times = alternate(pair, rounds=rounds)
        table.compare(f"{name} forward", times, {"torch form": targets[0]})
        leaves, score = inputs(*shape, True)
        pair = {"ours": lambda x=leaves, s=score: step(ours, x, s), "torch form": lambda x=leaves, s=score: step(theirs, x, s)}
        times = alternate(pair, rounds=rounds)
        table.compare(f"{name} forward+backward", times, {"torch form": targets[1]})
    table.add(Row("additive 8×512×512×128 extra memory, forward+backward", "torch form", peak("ours"), peak("torch"), 50, "MB"))
    return table


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        measure(sys.argv[2])
    else:
        main(additive)
