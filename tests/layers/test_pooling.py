"""Saliency and attention pooling: hand-computed cases, masks, empty rows, and what learns."""

import math

import pytest
import torch

import regard
from regard.layers.pooling import AttentionPooling, GatedPooling, MaxPooling, WinnerTakeAll

X = torch.tensor([[1.0, 5.0], [3.0, 2.0], [2.0, 4.0]])


def pools() -> list[torch.nn.Module]:
    torch.manual_seed(0)
    return [MaxPooling(), GatedPooling(2), AttentionPooling(2), WinnerTakeAll(2)]


def test_max_by_hand() -> None:
    assert MaxPooling()(X).tolist() == [3.0, 5.0]
    assert MaxPooling().weights(X).tolist() == [0.5, 0.5, 0.0]


def test_gates_by_hand() -> None:
    pool = GatedPooling(2)
    with torch.no_grad():
        pool.gate.weight.copy_(torch.tensor([[1.0, 0.0]]))
        pool.gate.bias.fill_(-2.0)
    gates = [1 / (1 + math.exp(-(x - 2))) for x in (1, 3, 2)]
    torch.testing.assert_close(pool.weights(X), torch.tensor(gates))
    torch.testing.assert_close(pool(X)[0], torch.tensor(gates[0] * 1 + gates[1] * 3 + gates[2] * 2))


def test_winner_takes_all() -> None:
    pool = WinnerTakeAll(2, saliency=torch.tensor([0.0, 1.0]))
    assert pool(X).tolist() == [1.0, 5.0]
    assert pool.weights(X).tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(ValueError, match=r"saliency has shape \(3,\); expected one direction, \(2,\)"):
        WinnerTakeAll(2, saliency=torch.zeros(3))


def test_attention_pooling_is_attention_with_a_learned_query() -> None:
    pool = AttentionPooling(2, queries=3)
    weights = torch.softmax(pool.query @ X.mT / math.sqrt(2), -1)
    torch.testing.assert_close(pool.weights(X), weights.detach())
    torch.testing.assert_close(pool(X), (weights @ X).flatten())


@pytest.mark.parametrize("which", range(4))
def test_masked_inputs_do_not_count(which: int) -> None:
    pool = pools()[which]
    x = torch.randn(3, 4, 2)
    kept = regard.padding(torch.tensor([4, 2, 0]))
    dirty = x.clone()
    dirty[1, 2:], dirty[2] = math.nan, math.nan
    out = pool(dirty, mask=kept)
    torch.testing.assert_close(out[0], pool(x[0]))
    torch.testing.assert_close(out[1], pool(x[1, :2]))
    assert out[2].tolist() == [0.0, 0.0]
    weights = pool.weights(x, mask=kept)  # type: ignore[operator]
    assert weights[1, 2:].tolist() == [0.0, 0.0]
    assert weights[2].sum() == 0


@pytest.mark.parametrize("which", range(4))
def test_any_leading_axes_and_no_inputs(which: int) -> None:
    pool = pools()[which]
    x = torch.randn(2, 3, 5, 2)
    torch.testing.assert_close(pool(x)[1, 2], pool(x[1, 2]))
    assert pool(torch.randn(2, 0, 2)).abs().sum() == 0


def test_saliency_ignores_the_question_and_focus_does_not() -> None:
    """The same inputs under two queries give two selections; the winner of winner-take-all stays."""
    keys = torch.eye(3)
    first = regard.observe(10 * keys[:1], keys, keys, choice=regard.Argmax()).index
    second = regard.observe(10 * keys[2:], keys, keys, choice=regard.Argmax()).index
    assert first is not None
    assert second is not None
    assert (int(first), int(second)) == (0, 2)


def test_attention_pooling_learns_where_to_look() -> None:
    """One input of six carries a mark; the answer is its other feature. Only a query that finds the mark can know it."""
    g = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    x = torch.randn(512, 6, 2, generator=g)
    at = torch.randint(6, (512,), generator=g)
    x[..., 0] = 0.0
    x[torch.arange(512), at, 0] = 4.0
    wanted = x[torch.arange(512), at, 1]
    pool = AttentionPooling(2)
    optimiser = torch.optim.Adam(pool.parameters(), lr=0.1)
    for _ in range(80):
        optimiser.zero_grad()
        (pool(x)[:, 1] - wanted).square().mean().backward()
        optimiser.step()
    result = pool.weights(x).argmax(-1)
    assert float((result == at).float().mean()) > 0.99
    assert (pool(x)[:, 1] - wanted).square().mean() < 0.02
