"""Copying source words: probabilities, gradients, and the same results in training and step by step."""

import pytest
import torch

from regard.masks import padding
from regard.models import Bahdanau
from regard.models.copying import Copying, attention_weights
from regard.models.transformer import Transformer, TransformerConfig
from regard.scores import Additive, ScaledDot

SOURCE, LENGTHS = torch.tensor([[5, 6, 7, 6], [8, 9, 0, 0]]), torch.tensor([4, 2])
TARGET = torch.tensor([[1, 5, 11], [1, 8, 3]])


def test_a_mixture_by_hand():
    copying = Copying(2)
    with torch.no_grad():
        copying.gate.weight.zero_()
        copying.gate.bias.fill_(torch.logit(torch.tensor(0.25)))
    logits, weights = torch.log(torch.tensor([[[0.5, 0.3, 0.2]]])), torch.tensor([[[0.6, 0.3, 0.1]]])
    p = copying(logits, torch.zeros(1, 1, 2), weights, torch.tensor([[2, 0, 2]])).exp()
    expected = [0.75 * 0.5 + 0.25 * 0.3, 0.75 * 0.3, 0.75 * 0.2 + 0.25 * 0.7]
    assert p.flatten().tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("score", [ScaledDot(), Additive(8, 8, hidden=6)])
def test_weights_are_those_of_softmax_and_have_gradients(score):
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 8, requires_grad=True), torch.randn(2, 4, 8)
    weights = attention_weights(q, k, score=score, mask=padding(LENGTHS))
    scores = score.tile(*score.prepare(q, k)) if isinstance(score, Additive) else q @ k.mT / 8**0.5
    hidden = torch.arange(4) >= LENGTHS[:, None, None]
    torch.testing.assert_close(weights, scores.masked_fill(hidden, -torch.inf).softmax(-1), rtol=1e-5, atol=1e-6)
    weights[0, 0, 0].backward()
    assert q.grad.abs().sum() > 0


def models():
    torch.manual_seed(0)
    sizes = {"embedding": 6, "state": 8, "alignment": 6}
    config = TransformerConfig(source_vocabulary=12, target_vocabulary=12, shared=True, copy=True, d_model=8, heads=2)
    return {
        "previous": Bahdanau(12, 12, **sizes, copy=True),
        "current": Bahdanau(12, 12, **sizes, query="current", copy=True),
        "transformer": Transformer(config),
    }


@pytest.mark.parametrize("name", ["previous", "current", "transformer"])
def test_training_and_steps_agree_and_sum_to_one(name):
    model = models()[name].eval()
    log_p = model(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(2, 3), rtol=1e-4, atol=1e-4)
    keep = torch.tensor([[True, False, True], [False, True, False]])
    torch.testing.assert_close(model(SOURCE, LENGTHS, TARGET, keep=keep), log_p[keep], rtol=1e-4, atol=1e-5)
    state = model.start(model.encode(SOURCE, LENGTHS)).select(torch.tensor([1, 0]))  # as beam search reorders it
    for t in range(3):
        step = model.step(state, TARGET[[1, 0], t])
        torch.testing.assert_close(step.logits, log_p[[1, 0], t], rtol=1e-4, atol=1e-5)
        state = step.state


def test_copying_needs_one_vocabulary():
    with pytest.raises(ValueError, match="one vocabulary of source and target, but they have 12 and 13"):
        Bahdanau(12, 13, copy=True)
    with pytest.raises(ValueError, match="use shared=True"):
        TransformerConfig(source_vocabulary=12, target_vocabulary=12, copy=True)
