"""The picker and the span reader: padding changes nothing, samples are what they say, REINFORCE learns."""

from itertools import product

import pytest
import torch

from regard.models.article_reader import (
    CHINESE,
    ArticleReaderConfig,
    ArticleReaderModel,
    LanguagePickers,
    Passages,
    Picked,
    Picker,
    SpanReader,
    budget_loss,
    reinforce_loss,
)


def test_heads_are_averaged_and_padding_has_no_weight():
    torch.manual_seed(0)
    picker = Picker(features=6, hidden=4, heads=3).eval()
    features = torch.randn(2, 5, 6)
    weights = picker.weights(features, torch.tensor([5, 3]))
    assert weights.sum(-1).tolist() == pytest.approx([1, 1])
    assert weights[1, 3:].tolist() == [0, 0]
    alone = picker.weights(features[1:, :3], torch.tensor([3]))
    assert torch.allclose(weights[1, :3], alone[0], atol=1e-6)


def test_scores_are_the_products_of_queries_and_keys():
    torch.manual_seed(0)
    picker = Picker(features=6, hidden=4, heads=3).eval()
    torch.nn.init.normal_(picker.query)
    features = torch.randn(2, 5, 6)
    products = (picker.keys(features) * picker.query).sum(-1)
    assert torch.allclose(picker.head_scores(features), products, atol=1e-5)


def test_dropout_leaves_out_a_feature_for_a_whole_batch():
    torch.manual_seed(0)
    picker = Picker(features=1, hidden=2, heads=1, dropout=0.9)
    torch.nn.init.ones_(picker.query[..., 2:])
    torch.nn.init.zeros_(picker.query[..., :2])
    scores = torch.stack([picker.head_scores(torch.ones(3, 4, 1)) for _ in range(60)])
    assert (scores == scores[:, :1, :, :1]).all()
    assert sorted({round(value, 3) for value in scores.flatten().tolist()}) == [0, round(1 / 0.55, 3)]


def test_squares_by_hand():
    picker = Picker(features=1, hidden=1, heads=2)
    torch.nn.init.constant_(picker.hidden, 2.0)
    torch.nn.init.constant_(picker.query, 3.0)
    assert picker.squares().item() == 2**2 + 2 * 3**2


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


def test_more_than_five_picks_earn_in_proportion_to_one_over_their_number():
    """Six picks, the answer with the sixth or the fifth: until then the returns differ by 1/5 out of 1 + 1/2 + … + 1/6 = 2.45."""
    found = torch.zeros(1, 1, 2, 6)
    found[..., 5] = 1
    found[0, 0, 1, 4] = 1
    log_prob = torch.zeros(1, 1, 2, 6, requires_grad=True)
    reinforce_loss(Picked(found, log_prob)).backward()
    advantage = 1 / 5 / 2.45
    expected = torch.tensor([[1.0] * 5 + [0.0], [-1.0] * 5 + [0.0]]) * advantage / 2
    assert torch.allclose(log_prob.grad.view(2, 6), expected, atol=1e-6)


def test_budget_loss_by_hand():
    """Four samples, one right: its advantage is 4 − 1, that of the others −1. Without a right sample nothing is learned."""
    log_prob = torch.tensor([-1.0, -2.0, -3.0, -4.0]).view(1, 1, 4, 1)
    found = torch.tensor([0.0, 1.0, 0.0, 0.0]).view(1, 1, 4, 1)
    assert budget_loss(Picked(found, log_prob)).item() == pytest.approx(-(3 * -2.0 + 1.0 + 3.0 + 4.0) / 4)
    assert budget_loss(Picked(torch.zeros_like(found), log_prob)).item() == 0


def test_the_mean_of_budget_losses_has_the_gradient_of_all_budgets():
    """Over all possible samples: that of the reward of k picks, 1 − (1 − p)^k, with weight 1/k, for k = 1 … K − 1."""
    K, right = 4, torch.tensor([[False, True, False]])
    scores = torch.tensor([0.3, -1.2, 0.8], dtype=torch.float64, requires_grad=True)
    log_weights = scores.log_softmax(0)
    expected = torch.zeros((), dtype=torch.float64)
    for index in product(range(3), repeat=K):
        chosen = torch.tensor(index)
        picked = Picked(right[0, chosen].double().view(1, 1, K, 1), log_weights[chosen].view(1, 1, K, 1))
        expected = expected + log_weights[chosen].sum().exp().detach() * K * budget_loss(picked)
    (estimated,) = torch.autograd.grad(expected, scores, retain_graph=True)
    p = log_weights[1].exp()
    (exact,) = torch.autograd.grad(-sum((1 - (1 - p) ** k) / k for k in range(1, K)), scores)
    assert torch.allclose(estimated, K * exact, atol=1e-12)


def test_independent_samples_are_as_frequent_as_their_weights():
    torch.manual_seed(0)
    log_weights = torch.tensor([[[0.5, 0.3, 0.2, 0.0]]]).log().clamp(min=-1e9)
    picked = Picker(features=2, hidden=2, heads=1).sample_independently(
        log_weights, torch.tensor([[False, True, False, False]]), samples=4000
    )
    assert picked.found.mean().item() == pytest.approx(0.3, abs=0.03)
    assert picked.log_prob[picked.found == 1].exp().unique().tolist() == pytest.approx([0.3])


def test_each_language_has_its_picker():
    torch.manual_seed(0)
    pickers = LanguagePickers(features=CHINESE + 2, hidden=3, heads=2).eval()
    features = torch.randn(4, 5, CHINESE + 2)
    features[..., CHINESE] = torch.tensor([1.0, 0.0, 0.0, 1.0]).unsqueeze(-1)
    pickers.normalise_by(features.flatten(0, 1))
    assert pickers.zh.mean[CHINESE] == 1
    assert pickers.en.mean[CHINESE] == 0
    scores = pickers.head_scores(features)
    for n, picker in enumerate([pickers.zh, pickers.en, pickers.en, pickers.zh]):
        assert torch.allclose(scores[n : n + 1], picker.head_scores(features[n : n + 1]), atol=1e-6)
        assert pickers.of(features[n : n + 1]) is picker
    pickers.head_scores(features[1:3]).square().sum().backward()
    assert pickers.en.query.grad is not None
    assert pickers.zh.query.grad is None


def test_a_kept_picker_is_copied_and_not_trained():
    config = ArticleReaderConfig(units=10, features=CHINESE + 1, hidden=4, by_language=True)
    old, new = ArticleReaderModel(config), ArticleReaderModel(config)
    new.keep_picker("zh", old)
    assert torch.equal(new.picker.zh.hidden, old.picker.zh.hidden)
    assert not new.picker.zh.query.requires_grad
    assert new.picker.en.query.requires_grad
    assert new.picker.squares() == new.picker.en.squares()  # only what is trained is penalised
    new.keep_picker("en", None)
    assert new.picker.weights(torch.randn(1, 4, CHINESE + 1).abs() * 0, torch.tensor([4])).tolist() == [[0.25] * 4]
    small = ArticleReaderModel(ArticleReaderConfig(units=10, features=CHINESE + 1, hidden=2, by_language=True))
    with pytest.raises(ValueError, match="set hidden and heads to the same"):
        small.keep_picker("zh", old)
    with pytest.raises(ValueError, match="features is 5"):
        ArticleReaderConfig(units=10, features=5, by_language=True)


@pytest.mark.parametrize("budgets", [False, True])
def test_a_picker_learns_by_reward_alone(budgets):
    torch.manual_seed(0)
    picker = Picker(features=4, hidden=8, heads=2, dropout=0.0)
    optimiser = torch.optim.Adam(picker.parameters(), lr=0.02)
    counts = torch.full((32,), 8)
    for _ in range(60):
        features = torch.randn(32, 8, 4)
        right = torch.zeros(32, 8, dtype=torch.bool)
        right[torch.arange(32), (features[..., 1] - features[..., 2]).argmax(-1)] = True
        scores = picker.head_scores(features)
        if budgets:
            loss = budget_loss(picker.sample_independently(scores.log_softmax(-1), right, samples=16))
        else:
            loss = reinforce_loss(picker.sample(scores, counts, right, picks=2, samples=8))
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
