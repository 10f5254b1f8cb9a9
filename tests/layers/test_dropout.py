"""Dropout: its share, its scale, its gradient, and what it refuses."""

import pytest
import torch

from regard.layers.dropout import dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("shape", [(1000, 301), (7,), (3, 5, 20000)])
def test_share_scale_and_gradient(p: float, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.ones(shape, requires_grad=True)
    y = dropout(x, p, True)
    y.sum().backward()
    kept = y != 0
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 1 / (1 - p)), atol=1e-4, rtol=0)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, y)
    n = x.numel()
    assert abs(float((~kept).sum()) - n * p) < 5 * (n * p * (1 - p)) ** 0.5 + 1


def test_neighbours_fall_independently() -> None:
    """Four elements share a draw of 64 bits: no two places may be tied."""
    torch.manual_seed(0)
    kept = (dropout(torch.ones(50_000, 8), 0.5, True) != 0).double()
    assert torch.corrcoef(kept.T).fill_diagonal_(0).abs().max() < 0.025


def test_the_seed_decides() -> None:
    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return dropout(torch.ones(1000), 0.5, True)

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_off_and_all() -> None:
    x = torch.randn(5, 4)
    assert torch.equal(dropout(x, 0.5, False), x)
    assert torch.equal(dropout(x, 0.0, True), x)
    assert torch.equal(dropout(x, 1.0, True), torch.zeros_like(x))
    with pytest.raises(ValueError, match=r"dropout is 1\.5"):
        dropout(x, 1.5, True)
