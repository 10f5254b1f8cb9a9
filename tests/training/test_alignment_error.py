"""The alignment error of a translator's attention: tokens become words, and the shipped translators beat a straight line."""

import pytest
import torch

from regard import zoo
from regard.text.links import diagonal, error_rate, read_alignments
from regard.training.tasks.translation.alignment_error import _cover, _joined, _word_weights, at_least_half, evaluate_alignment, largest


def test_weights_of_tokens_become_weights_of_words():
    opened = zoo.open("zh-en-bahdanau")
    pair = read_alignments()[0]
    ids = opened.target.encode(_joined(pair.target))
    cover = _cover(opened.target, ids, pair.target)
    assert torch.equal(cover.sum(1), torch.ones(len(ids)))  # every token belongs to words
    assert bool((cover.sum(0) > 0).all())  # every word has tokens
    source = opened.encode(["".join(pair.source)])[0]
    weights = torch.rand(len(ids), len(source)).softmax(-1)
    words = _word_weights(opened, pair, weights)
    torch.testing.assert_close(words.sum(1), torch.ones(len(pair.target)))


def test_a_sentence_is_joined_as_people_write_it():
    assert _joined(["I", "'", "m", "here", ",", "Anne", "-", "Marie", "!"]) == "I'm here, Anne-Marie!"


def test_links_from_weights():
    weights = torch.tensor([[0.6, 0.4, 0.0], [0.1, 0.2, 0.7]])
    assert largest(weights) == {(0, 0), (2, 1)}
    assert at_least_half(weights) == {(0, 0), (1, 0), (2, 1)}


def test_attention_aligns_better_than_a_straight_line():
    pairs = read_alignments()[:12]
    line = error_rate([diagonal(pair) for pair in pairs], pairs)
    rates = evaluate_alignment(zoo.open("zh-en-bahdanau"), pairs)
    assert rates["soft"] < line
    with pytest.raises(ValueError, match="has no attention"):
        evaluate_alignment(zoo.open("zh-en-fixed"), pairs[:1])
