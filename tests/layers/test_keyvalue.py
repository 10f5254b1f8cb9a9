"""Key-value attention over every score, and hard attention's training path."""

import pytest
import torch

import regard
from regard.layers.hard import HardAttention, MovingBaseline
from regard.layers.keyvalue import KeyValueAttention


@pytest.mark.parametrize(
    "score",
    [
        regard.Dot(),
        regard.ScaledDot(),
        regard.Additive(4, 4, hidden=6),
        regard.Bilinear(4, 4),
        regard.Bilinear(4, 4, rank=2),
        regard.Gaussian(0.7),
    ],
    ids=repr,
)
def test_every_score(score: regard.Score) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
    layer = KeyValueAttention(score)
    weights = torch.softmax(score(query, key), -1)
    torch.testing.assert_close(layer(query, key, value), weights @ value)
    # With values left out the keys are the values: soft attention, bit for bit the same call.
    assert torch.equal(layer(query, key), layer(query, key, key))
    torch.testing.assert_close(layer(query, key), weights @ key)


def test_observe_gives_what_forward_gives_and_the_readings() -> None:
    torch.manual_seed(0)
    layer = KeyValueAttention(choice=regard.Entmax15(), dropout=0.5).eval()
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    mask = regard.padding(torch.tensor([5, 2]))
    seen = layer.observe(query, key, mask=mask, readings=[regard.Received()])
    torch.testing.assert_close(seen.output, layer(query, key, mask=mask))
    assert seen.readings["received"][1, 2:].abs().sum() == 0
    layer.train()
    g = torch.Generator().manual_seed(1)
    assert not torch.allclose(layer(query, key, generator=g), seen.output)


def test_hard_attention_draws_in_training_and_takes_the_best_in_testing() -> None:
    torch.manual_seed(0)
    key = torch.randn(4, 3)
    query = torch.randn(1, 3).expand(4000, 3)
    layer = HardAttention()
    seen = layer(query, key, generator=torch.Generator().manual_seed(0))
    assert seen.index is not None
    assert seen.log_prob is not None
    p = torch.softmax(query[0] @ key.mT / 3**0.5, -1)
    torch.testing.assert_close(torch.bincount(seen.index, minlength=4) / 4000, p, atol=0.03, rtol=0)
    torch.testing.assert_close(seen.log_prob, p[seen.index].log())
    assert torch.equal(seen.output, key[seen.index])
    best = layer.eval()(query, key)
    assert best.index is not None
    assert set(best.index.tolist()) == {int(p.argmax())}
    with pytest.raises(ValueError, match=r"call \.train\(\) before attending"):
        layer.loss(best, torch.ones(4000))


def test_the_loss_is_reinforce_with_the_mean_reward_so_far() -> None:
    layer = HardAttention(momentum=0.5)
    query = torch.randn(6, 3, requires_grad=True)
    key = torch.randn(4, 3)
    rewards = [torch.ones(6), torch.zeros(6)]
    seen = layer(query, key)
    assert seen.log_prob is not None
    assert layer.loss(seen, rewards[0]) == 0  # nothing to compare the first reward with but itself
    seen = layer(query, key)
    loss = layer.loss(seen, rewards[1])
    torch.testing.assert_close(loss, (1.0 * seen.log_prob).mean())  # −(0 − 1) · log p
    assert float(layer.baseline.mean) == 0.5


def test_baseline_momentum_is_checked() -> None:
    with pytest.raises(ValueError, match=r"momentum is 1\.0"):
        MovingBaseline(1.0)


def test_reinforce_learns_a_query_that_finds_the_prize() -> None:
    """Twenty keys, one prize; only the reward tells. Uniform guessing earns 0.05."""
    torch.manual_seed(0)
    key = torch.nn.functional.normalize(torch.randn(20, 8), dim=-1)
    query = torch.nn.Parameter(torch.zeros(1, 8))
    layer = HardAttention(regard.Dot())
    optimiser = torch.optim.Adam([query], lr=0.1)
    g = torch.Generator().manual_seed(0)
    for _ in range(150):
        seen = layer(query.expand(32, 8), key, generator=g)
        reward = (seen.index == 7).float()
        optimiser.zero_grad()
        layer.loss(seen, reward).backward()
        optimiser.step()
    assert float(layer.baseline.mean) > 0.8
    assert layer.eval()(query, key).index.tolist() == [7]
