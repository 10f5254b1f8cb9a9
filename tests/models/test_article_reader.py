"""The picker and the span reader: padding changes nothing, samples are what they say, REINFORCE learns."""

import pytest
import torch

from regard.models.article_reader import ArticleReaderConfig, Passages, Picked, Picker, SpanReader, reinforce_loss


def test_heads_are_averaged_and_padding_has_no_weight():
    torch.manual_seed(0)
    picker = Picker(features=6, hidden=4, heads=3).eval()
    features = torch.randn(2, 5, 6)
    weights = picker.weights(features, torch.tensor([5, 3]))
    assert weights.sum(-1).tolist() == pytest.approx([1, 1])
    assert weights[1, 3:].tolist() == [0, 0]
    alone = picker.weights(features[1:, :3], torch.tensor([3]))
    assert torch.allclose(weights[1, :3], alone[0], atol=1e-6)


def test_samples_are_different_sentences_with_their_probabilities():
    scores = torch.tensor([[[1.0, 0.0, -1.0, 9.0]]])  # the last is padding
    right = torch.tensor([[False, True, False, False]])
    picker = Picker(features=2, hidden=2, heads=1)
    picked = picker.sample(scores, torch.tensor([3]), right, picks=3, samples=2000)
    assert picked.found[..., -1].min() == 1  # all three were picked
    p = torch.tensor([1.0, 0.0, -1.0]).softmax(-1)
    assert picked.found[..., 0].mean().item() == pytest.approx(p[1].item(), abs=0.04)
    first = picked.log_prob[0, 0, :, 0].exp()
    assert {round(value, 4) for value in first.tolist()} == {round(value, 4) for value in p.tolist()}
    # The last of three is certain: its log-probability is 0.
    assert picked.log_prob[..., 2].abs().max() < 1e-3


def test_reinforce_loss_by_hand():
    """Two samples of one pick: one finds the answer. Returns 0.4 and 0; each one's baseline is the other's return."""
    log_prob = torch.tensor([-1.0, -2.0]).view(1, 1, 2, 1)
    found = torch.tensor([1.0, 0.0]).view(1, 1, 2, 1)
    assert reinforce_loss(Picked(found, log_prob)).item() == pytest.approx(-((0.4 * -1.0) + (-0.4 * -2.0)) / 2)


def test_a_picker_learns_by_reward_alone():
    torch.manual_seed(0)
    picker = Picker(features=4, hidden=8, heads=2, dropout=0.0)
    optimiser = torch.optim.Adam(picker.parameters(), lr=0.02)
    counts = torch.full((32,), 8)
    for _ in range(60):
        features = torch.randn(32, 8, 4)
        right = torch.zeros(32, 8, dtype=torch.bool)
        right[torch.arange(32), (features[..., 1] - features[..., 2]).argmax(-1)] = True
        loss = reinforce_loss(picker.sample(picker.head_scores(features), counts, right, picks=2, samples=8))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    picker.eval()
    features = torch.randn(200, 8, 4)
    best = (features[..., 1] - features[..., 2]).argmax(-1)
    found = (picker.scores(features).argmax(-1) == best).float().mean().item()
    assert found > 0.85  # 0.125 by chance


def test_the_span_reader_ignores_padding():
    torch.manual_seed(0)
    reader = SpanReader(ArticleReaderConfig(units=20, features=1, width=8, state=6)).eval()
    units, features = torch.randint(1, 20, (2, 7)), torch.randn(2, 7, 18)
    question, known = torch.randint(1, 20, (1, 5)), torch.randn(1, 5, 2)
    both = Passages(question, known, torch.tensor([3]), units, features, torch.tensor([7, 4]), torch.tensor([0, 0]))
    alone = Passages(
        question[:, :3], known[:, :3], torch.tensor([3]), units[1:, :4], features[1:, :4], torch.tensor([4]), torch.tensor([0])
    )
    scores = reader(both)
    assert scores.shape == (2, 2, 7)
    assert torch.allclose(scores[:, 1, :4], reader(alone)[:, 0], atol=1e-5)
    assert scores[:, 1, 4:].max() == -1e9


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="heads is 0"):
        ArticleReaderConfig(units=5, features=3, heads=0)
