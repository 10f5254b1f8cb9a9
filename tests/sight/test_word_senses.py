"""Senses of a word: cosines within and between, compared at equal positions only."""

import pytest
import torch

from regard.models import Bert, BertConfig
from regard.sight.hidden_states import hidden_states
from regard.sight.word_senses import find_word, sense_separation
from regard.text import Vocabulary
from regard.training.encoder_text import VocabularyText
from regard.training.tasks.mlm import EncoderModel

SENTENCES = [
    ("animal", "the mole digs"),
    ("animal", "a mole digs"),
    ("amount", "one mole weighs"),
    ("amount", "two mole weighs"),
]


@pytest.fixture
def opened():
    vocabulary = Vocabulary.train([text for _, text in SENTENCES], kind="word")
    torch.manual_seed(0)
    bert = Bert(BertConfig(vocabulary=len(vocabulary), d_model=16, heads=2, layers=2, context=16)).eval()
    return EncoderModel(bert, VocabularyText(vocabulary), 16)


def test_cosines_are_means_over_pairs(opened):
    result = sense_separation(opened, "mole", SENTENCES, shuffles=20)
    assert (result.within_pairs, result.between_pairs) == (2, 4)
    assert [row.layer for row in result.layers] == [0, 1, 2]
    first = result.layers[0]  # the same word at the same position has the same embedding in every sentence
    assert first.within == pytest.approx(1, abs=1e-6)
    assert first.between == pytest.approx(1, abs=1e-6)
    inputs = [opened.inputs(text) for _, text in SENTENCES]
    states = [hidden_states(opened.model, lambda x=x: opened.model(x))[2][0, 2] for x in inputs]
    cosine = torch.nn.functional.cosine_similarity
    within = (cosine(states[0], states[1], dim=0) + cosine(states[2], states[3], dim=0)) / 2
    assert result.layers[2].within == pytest.approx(float(within), abs=1e-5)
    assert "gap" in result.table()


def test_pairs_at_other_positions_are_not_compared(opened):
    moved = [*SENTENCES, ("animal", "digs the mole")]
    assert sense_separation(opened, "mole", moved, shuffles=1).within_pairs == 2
    assert sense_separation(opened, "mole", moved, tolerance=1, shuffles=1).within_pairs == 4
    apart = [("x", "mole digs"), ("x", "the mole digs"), ("y", "mole weighs"), ("y", "one mole weighs")]
    with pytest.raises(ValueError, match="no two sentences of one sense have 'mole' at the same token position"):
        sense_separation(opened, "mole", apart, shuffles=1)


def test_bad_input(opened):
    with pytest.raises(ValueError, match="1 sense"):
        sense_separation(opened, "mole", SENTENCES[:2])
    with pytest.raises(ValueError, match="'cat' was not found"):
        find_word(["▁the", "▁mole"], "cat", "the mole")
