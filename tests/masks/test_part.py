"""`Mask.part` of every kind of mask, compared with slicing its dense pattern."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mask_cases import check_everywhere, expression, pattern_of, sizes
from regard.masks import (
    Mask,
    block_sparse,
    causal,
    dense,
    documents,
    everything,
    from_spans,
    global_tokens,
    padding,
    per_head,
    prefix,
    window,
)
from regard.masks.part import Part

L, S = 9, 11
RANDOM = torch.Generator().manual_seed(0)


class Checkers(Mask):
    """A mask of a user: `fill` alone, so that everything else is the default of `Mask`."""

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        return (torch.arange(r0, r1)[:, None] + torch.arange(c0, c1))[None, None] % 2 == 0


MASKS: dict[str, Mask] = {
    "everything": everything(),
    "causal": causal(),
    "causal from the start": causal(align="start"),
    "window": window(2, 1),
    "window from the start": window(1, 3, align="start"),
    "window open to the left": window(None, 2),
    "prefix": prefix(4),
    "prefix per sequence": prefix([0, 7]),
    "padding on the right": padding([5, 11]),
    "padding on the left": padding([3, 0], side="left"),
    "padding flags": padding(torch.rand(2, S, generator=RANDOM) < 0.5),
    "global tokens": global_tokens([0, 4, 10]),
    "global tokens per sequence": global_tokens([[0, -1], [5, 8]]),
    "documents": documents(torch.arange(S) // 4),
    "documents in pieces": documents(torch.arange(S) % 3),
    "documents per sequence": documents(torch.randint(0, 3, (2, S), generator=RANDOM).sort(-1).values),
    "documents of another sequence": documents(torch.arange(L) // 3, torch.arange(S) // 4),
    "dense": dense(torch.rand(2, 2, L, S, generator=RANDOM) < 0.5),
    "block sparse": block_sparse(torch.rand(2, 3, 3, generator=RANDOM) < 0.5, 4),
    "spans": from_spans(torch.randint(0, S, (2, 1, L, 3, 2), generator=RANDOM)),
    "and": causal() & window(3, 0) & padding([8, 11]),
    "or": causal() | prefix(3),
    "not": ~causal(),
    "per head": per_head([causal(), window(1, 1)]),
    "nested": ~(causal() & documents(torch.arange(S) // 4)) | global_tokens([2]),
    "a user's own": Checkers(),
}
RECTANGLES = [(range(L), range(S)), (range(2, 7), range(3, 8)), (range(4, 5), range(S)), (range(L), range(10, 11)), (range(8, 9), range(1))]


@pytest.mark.parametrize("rectangle", RECTANGLES, ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_a_part_is_a_slice_of_the_pattern(name: str, rectangle: tuple[range, range]) -> None:
    mask, (rows, cols) = MASKS[name], rectangle
    expected = mask.dense(L, S)[..., rows.start : rows.stop, cols.start : cols.stop].expand(2, 2, -1, -1)
    check_everywhere(mask.part(rows, cols, L, S), expected, step=3)


@pytest.mark.parametrize("name", MASKS)
def test_a_part_of_a_part(name: str) -> None:
    mask = MASKS[name]
    inner = mask.part(range(1, 8), range(2, 10), L, S).part(range(2, 5), range(1, 6), 7, 8)
    assert torch.equal(inner.dense(3, 5).expand(2, 2, -1, -1), mask.dense(L, S)[..., 3:6, 3:8].expand(2, 2, -1, -1))


@pytest.mark.parametrize("name", MASKS)
def test_the_default_part_agrees_with_the_own_one(name: str) -> None:
    mask, (rows, cols) = MASKS[name], RECTANGLES[1]
    default = Part(mask, rows, cols, L, S)
    expected = mask.dense(L, S)[..., rows.start : rows.stop, cols.start : cols.stop].expand(2, 2, -1, -1)
    check_everywhere(default, expected, step=2)


@settings(max_examples=150, deadline=None)
@given(st.data(), sizes)
def test_parts_of_any_expression(data: st.DataObject, size: tuple[int, int, int, int]) -> None:
    B, h, length, keys = size
    mask, rule = data.draw(expression(*size))
    if not (length and keys):
        return
    r0, c0 = data.draw(st.integers(0, length - 1)), data.draw(st.integers(0, keys - 1))
    rows, cols = range(r0, data.draw(st.integers(r0 + 1, length))), range(c0, data.draw(st.integers(c0 + 1, keys)))
    expected = pattern_of(rule, B, h, length, keys)[..., rows.start : rows.stop, cols.start : cols.stop]
    check_everywhere(mask.part(rows, cols, length, keys), expected, step=2)
