"""Hard attention of the translators: one source position a word, and the model as it was afterwards."""

import pytest
import torch

from regard.models import Bahdanau, FixedContext, Transformer, TransformerConfig

SOURCE, LENGTHS = torch.tensor([[5, 6, 7, 8], [9, 5, 0, 0]]), torch.tensor([4, 2])


def transformer():
    return Transformer(TransformerConfig(source_vocabulary=10, target_vocabulary=12, d_model=16, heads=1, encoder_layers=1))


@pytest.mark.parametrize("make", [lambda: Bahdanau(10, 12, embedding=8, state=8), transformer])
def test_the_position_with_most_weight_takes_all_of_it(make):
    torch.manual_seed(0)
    model = make().eval()
    first = torch.tensor([1, 1])
    with torch.no_grad():
        soft = model.step(model.start(model.encode(SOURCE, LENGTHS)), first)
        with model.hard_attention():
            hard = model.step(model.start(model.encode(SOURCE, LENGTHS)), first)
        again = model.step(model.start(model.encode(SOURCE, LENGTHS)), first)
    assert hard.alignment.amax(-1).tolist() == pytest.approx([1, 1], abs=1e-3)
    assert torch.equal(again.logits, soft.logits)
    if isinstance(model, Bahdanau):
        assert torch.equal(hard.alignment.argmax(-1), soft.alignment.argmax(-1))
    assert not torch.equal(hard.logits, soft.logits)


def test_a_model_without_attention_has_nothing_to_harden():
    model = FixedContext(10, 12, embedding=8, state=8).eval()
    with torch.no_grad(), model.hard_attention():
        assert model.step(model.start(model.encode(SOURCE, LENGTHS)), torch.tensor([1, 1])).alignment is None


def test_each_head_of_a_transformer_picks_one_position():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(source_vocabulary=10, target_vocabulary=12, d_model=16, heads=4, encoder_layers=1)).eval()
    with torch.no_grad(), model.hard_attention():
        alignment = model.step(model.start(model.encode(SOURCE, LENGTHS)), torch.tensor([1, 1])).alignment
    assert torch.equal(alignment * 4, (alignment * 4).round())  # the mean of four rows of one 1 and zeros
    assert torch.equal(alignment.sum(-1), torch.ones(2))
