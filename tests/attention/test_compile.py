"""`attend` under `torch.compile`: one graph, the same output and gradients."""

from __future__ import annotations

import pytest
import torch

import regard


@pytest.mark.filterwarnings("ignore")
def test_a_masked_call_compiles_to_one_graph() -> None:
    def work(q: torch.Tensor) -> torch.Tensor:
        return regard.attend(q, q, q, mask=regard.causal() & regard.window(8, 0)).square()

    q = torch.randn(1, 4, 256, 64, requires_grad=True)
    compiled = torch.compile(work, fullgraph=True)
    torch.testing.assert_close(compiled(q), work(q))
    (mine,), (want,) = (torch.autograd.grad(f(q).sum(), q) for f in (compiled, work))
    torch.testing.assert_close(mine, want)
