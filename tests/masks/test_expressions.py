"""Random mask expressions against a predicate in plain Python."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mask_cases import check_everywhere, expression, pattern_of, sizes
from regard import masks
from regard.masks import block_sparse, dense, documents


@settings(max_examples=400, deadline=None)
@given(st.data(), sizes)
def test_any_expression_means_what_plain_python_says(data: st.DataObject, size: tuple[int, int, int, int]) -> None:
    mask, rule = data.draw(expression(*size))
    check_everywhere(mask, pattern_of(rule, *size), step=data.draw(st.integers(1, 4)))


@settings(max_examples=200, deadline=None)
@given(st.data(), sizes)
def test_small_expressions_always_have_spans(data: st.DataObject, size: tuple[int, int, int, int]) -> None:
    mask, _ = data.draw(expression(*size))  # 7 keys never need more than 4 ranges
    spans = mask.spans(*size[2:])
    assert spans is not None
    assert 1 <= spans.shape[-2] <= 4


@settings(max_examples=200, deadline=None)
@given(st.data(), sizes)
def test_the_repr_builds_an_equal_mask(data: st.DataObject, size: tuple[int, int, int, int]) -> None:
    mask, _ = data.draw(expression(*size, depth=3, only_symbolic=True))
    again = eval(repr(mask), vars(masks).copy())
    assert again == mask
    assert hash(again) == hash(mask)
    assert repr(again) == repr(mask)
    assert torch.equal(again.dense(*size[2:]), mask.dense(*size[2:]))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 90), st.integers(1, 90), st.integers(7, 40))
def test_summaries_of_large_patterns_are_truthful(data: st.DataObject, L: int, S: int, step: int) -> None:
    seed = data.draw(st.integers(0, 10**6))
    random = torch.Generator().manual_seed(seed)
    size = data.draw(st.integers(5, 40))
    layout = torch.rand(-(-L // size), -(-S // size), generator=random) < 0.5
    i, j = torch.arange(L)[:, None], torch.arange(S)
    expected = layout[i // size, j // size]
    check_everywhere(block_sparse(layout, size), expected[None, None], step=step)
    check_everywhere(dense(expected), expected[None, None], step=step)
    ids = torch.randint(0, 3, (2, S), generator=random).sort(-1).values
    check_everywhere(documents(ids), (ids[:, :, None] == ids[:, None])[:, None], step=step)


@settings(max_examples=60, deadline=None)
@given(st.data(), sizes)
def test_answers_come_on_the_device_asked_for(data: st.DataObject, size: tuple[int, int, int, int]) -> None:
    mask, _ = data.draw(expression(*size, only_symbolic=True))
    L, S = size[2:]
    assert mask.dense(L, S, device="meta").device.type == "meta"
    tile = mask.tile(range(L), range(S), L, S, device="meta")
    assert isinstance(tile, str) or tile.device.type == "meta"
