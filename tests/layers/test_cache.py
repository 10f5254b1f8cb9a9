import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layers.cache import Cache, LayerCache


def tokens(start: int, count: int, rows: int = 2, heads: int = 3, width: int = 4) -> torch.Tensor:
    """Token t is filled with the number t, so that what a cache holds can be read off it."""
    return torch.arange(start, start + count, dtype=torch.float32).view(1, 1, count, 1).expand(rows, heads, count, width)


def held(views: tuple[torch.Tensor, torch.Tensor]) -> list[int]:
    key, value = views
    assert torch.equal(key, value)
    return [int(t) for t in key[0, 0, :, 0]]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.one_of(st.none(), st.integers(1, 12)), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_holds_every_token_in_order_or_the_windows(chunks, window, room):
    cache, seen = LayerCache(window=window, room=room), 0
    for count in chunks:
        views = cache.append(tokens(seen, count), tokens(seen, count))
        first = 0 if window is None else max(0, seen - (window - 1))
        seen += count
        assert held(views) == list(range(first, seen))
        assert cache.length == seen


def test_growing_copies_little():
    """Each token is written once and moved less than twice on average: room doubles."""
    cache, storages = LayerCache(), 0
    last = None
    for t in range(1000):
        cache.append(tokens(t, 1), tokens(t, 1))
        storages += cache._storage is not last
        last = cache._storage
    assert storages <= 8


def test_reserved_room_never_moves():
    cache = LayerCache(room=100)
    first, _ = cache.append(tokens(0, 1), tokens(0, 1))
    for t in range(1, 100):
        last, _ = cache.append(tokens(t, 1), tokens(t, 1))
    assert first.data_ptr() == last.data_ptr()


def test_a_window_bounds_the_memory():
    cache = LayerCache(window=8)
    cache.append(tokens(0, 500), tokens(0, 500))
    for t in range(500, 600):
        cache.append(tokens(t, 1), tokens(t, 1))
    assert cache.kept == 8
    assert cache.bytes == 2 * 2 * 3 * 16 * 4 * 4  # keys and values, B=2, h=3, room 16, d=4, float32


def test_forks_part_ways():
    cache = LayerCache(room=64)
    cache.append(tokens(0, 3), tokens(0, 3))
    left, right = cache.fork(), cache.fork()
    assert held(left.append(tokens(10, 2), tokens(10, 2))) == [0, 1, 2, 10, 11]
    assert held(right.append(tokens(20, 1), tokens(20, 1))) == [0, 1, 2, 20]
    assert held(cache.append(tokens(3, 1), tokens(3, 1))) == [0, 1, 2, 3]
    assert held(left.append(tokens(12, 1), tokens(12, 1))) == [0, 1, 2, 10, 11, 12]


def test_select_repeats_and_reorders_rows():
    key = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 2, 4, 5)
    cache = Cache(2)
    for layer in cache:
        layer.append(key, key)
    beam = cache.select(torch.tensor([2, 2, 0, 1]))
    new = torch.full((4, 2, 1, 5), 9.0)
    got, _ = beam[1].append(new, new)
    assert [int(row) for row in got[:, 0, 0, 0]] == [2, 2, 0, 1]
    assert beam.length == 4  # layer 0 has not seen the new token
    assert beam[1].length == 5
    assert cache[1].length == 4


def test_gradients_flow_through_it():
    cache = LayerCache()
    parts = [torch.randn(1, 1, 2, 3, requires_grad=True) for _ in range(3)]
    for part in parts:
        key, value = cache.append(part, 2 * part)
    (key.sum() + value.pow(2).sum()).backward()
    for part in parts:
        torch.testing.assert_close(part.grad, 1 + 8 * part.detach())


def test_filled_in_inference_mode_extended_outside():
    cache = LayerCache()
    with torch.inference_mode():
        cache.append(tokens(0, 2), tokens(0, 2))
        cache = cache.select(torch.tensor([1, 0]))
    with torch.no_grad():
        assert held(cache.append(tokens(2, 2), tokens(2, 2))) == [0, 1, 2, 3]


def test_bad_input_says_what_to_do():
    with pytest.raises(ValueError, match="window is 0; expected at least 1"):
        LayerCache(window=0)
    with pytest.raises(ValueError, match="2 windows given for 3 layers"):
        Cache(3, window=[4, None])
    cache = LayerCache()
    cache.append(tokens(0, 1), tokens(0, 1))
    with pytest.raises(ValueError, match=r"the cache has batch and heads \(2, 3\), the new keys have \(5, 3\)"):
        cache.append(tokens(0, 1, rows=5), tokens(0, 1, rows=5))
    with pytest.raises(ValueError, match="same B, h, L"):
        cache.append(tokens(0, 1), tokens(0, 2))
