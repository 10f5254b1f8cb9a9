import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.text import bucketed, padded


@given(st.lists(st.integers(1, 30), max_size=80), st.integers(1, 100), st.integers(0, 5), st.integers(0, 5))
def test_every_item_is_in_exactly_one_batch_within_the_budget(lengths, tokens, seed, epoch):
    batches = bucketed(lengths, tokens=tokens, seed=seed, epoch=epoch)
    assert sorted(i for b in batches for i in b) == list(range(len(lengths)))
    for b in batches:
        assert len(b) == 1 or len(b) * max(lengths[i] for i in b) <= tokens


def test_the_order_is_a_function_of_seed_and_epoch():
    lengths = [i % 7 + 1 for i in range(200)]
    first = bucketed(lengths, tokens=30, seed=1, epoch=0)
    assert bucketed(lengths, tokens=30, seed=1, epoch=0) == first
    assert bucketed(lengths, tokens=30, seed=1, epoch=1) != first
    assert bucketed(lengths, tokens=30, seed=2, epoch=0) != first


def test_batches_hold_like_lengths():
    lengths = [2] * 50 + [20] * 50
    assert sum(len({lengths[i] for i in b}) > 1 for b in bucketed(lengths, tokens=100, seed=0, epoch=0)) <= 1


def test_limit_bounds_the_items():
    assert max(len(b) for b in bucketed([1] * 100, tokens=1000, seed=0, epoch=0, limit=7)) == 7
    with pytest.raises(ValueError, match="tokens is 0"):
        bucketed([1], tokens=0, seed=0, epoch=0)


def test_padded_fills_up_with_pad():
    grid, lengths = padded([[5], [6, 7, 8]])
    assert grid.tolist() == [[5, 0, 0], [6, 7, 8]]
    assert lengths.tolist() == [1, 3]
    assert padded([[]])[0].shape == torch.Size([1, 0])
