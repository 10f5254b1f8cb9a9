"""`regard plan --ranks`: the predicted cost of a step over ranks."""

import pytest

from regard.cost import ConfigError, Machine, Workload
from regard.cost.count.ranks import ring_seconds, spread
from regard.models.published.architecture import Architecture

TINY = Architecture("tiny", layers=3, width=64, heads=4, kv_heads=2, vocabulary=100)
FAST = Machine("given", flops=1e12, bandwidth=1e11)


def test_a_ring_waits_only_if_sending_takes_longer_than_computing():
    assert ring_seconds(1, 2.0, 9.0) == (2.0, 0.0)
    assert ring_seconds(3, 2.0, 1.5) == (6.0, 0.0)
    assert ring_seconds(3, 2.0, 5.0) == (12.0, 6.0)


def test_forward_sends_each_block_to_every_other_rank():
    predicted = spread(TINY, Workload(batch=2, context=4096, dtype="fp32"), machine=FAST, ranks=4, link=1e9)
    block = 2 * 1024 * (2 * 16 * 2) * 4  # batch · tokens of a rank · keys and values · bytes
    assert predicted.bytes_sent.value == 3 * 3 * block  # layers · other ranks
    assert predicted.tokens == 1024


def test_training_sends_blocks_twice_their_gradients_and_the_weights():
    work = Workload(batch=1, context=4096, dtype="bf16", mode="train")
    replicated, sharded = (spread(TINY, work, machine=FAST, ranks=4, link=1e9, fully_sharded=f) for f in (False, True))
    block = 1024 * (2 * 16 * 2) * 2
    for predicted in (replicated, sharded):
        sent = predicted.sent
        assert sent["keys and values, forward"].value == sent["keys and values, backward"].value == 3 * 3 * block
        assert sent["gradients of keys and values"].value == 3 * 3 * block * 2  # float32
    weights = replicated.memory["weights"].value
    assert replicated.sent["gradients of the parameters"].value == pytest.approx(2 * 3 / 4 * weights)
    assert sharded.sent["parameters and their gradients"].value == pytest.approx(3 * 3 / 4 * weights)
    assert sharded.memory["weights, sharded"].value == weights / 4


def test_a_window_is_sent_to_its_neighbours_only():
    windowed = Architecture("near", layers=3, width=64, heads=4, vocabulary=100, windows=(200, 200, 200))
    work = Workload(context=4096, dtype="fp32")
    full_attention = spread(TINY, work, machine=FAST, ranks=8, link=1e9)
    predicted = spread(windowed, work, machine=FAST, ranks=8, link=1e9)
    assert predicted.bytes_sent.value == 3 * 1 * 512 * (2 * 16 * 4) * 4  # one neighbour
    assert predicted.bytes_sent.value < full_attention.bytes_sent.value


def test_activations_fall_with_the_ranks_and_a_slow_link_takes_longer():
    work = Workload(context=65_536, dtype="bf16", mode="train")
    one, many = (spread(TINY, work, machine=FAST, ranks=p, link=1e12) for p in (1, 16))
    kept = next(name for name in one.memory if "kept" in name)
    assert many.memory[kept].value == pytest.approx(one.memory[kept].value / 16, rel=0.01)
    assert one.overlap == 1.0
    slow = spread(TINY, work, machine=FAST, ranks=16, link=1e6)
    assert slow.overlap < many.overlap
    assert slow.seconds > many.seconds


def test_what_cannot_be_sharded_is_refused():
    with pytest.raises(ConfigError, match="one stack only"):
        spread("t5-small", machine=FAST, ranks=2, link=1e9)
    with pytest.raises(ConfigError, match="a rate above 0"):
        spread(TINY, machine=FAST, ranks=2, link=0.0)
