"""One mask per head, and masks that differ by sequence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from mask_cases import check_misfit, rows
from regard.masks import Mask, block_sparse, causal, dense, documents, from_spans, global_tokens, padding, per_head, prefix


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: per_head([]), r"one mask per head, at least one"),
        (lambda: per_head([per_head([causal(), causal()])]), r"masks of one head, but number 0.* has 2"),
    ],
)
def test_invalid_arguments(build: Callable[[], Mask], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("mask", "size", "message"),
    [
        (per_head([causal(), causal()]), (1, 3, 4, 4), r"has 2 masks but the inputs have 3 heads"),
        (per_head([causal()]), (1, 3, 4, 4), r"has 1 masks but the inputs have 3 heads"),
    ],
    ids=repr,
)
def test_sizes_that_do_not_fit(mask: Mask, size: tuple[int, int, int, int], message: str) -> None:
    check_misfit(mask, size, message)


def test_masks_that_differ_by_sequence_and_head() -> None:
    assert padding([1, 3]).dense(1, 3).tolist() == [[[[True, False, False]]], [[[True, True, True]]]]
    assert prefix(torch.tensor([0, 2])).dense(1, 2).tolist() == [[[[False, False]]], [[[True, True]]]]
    assert global_tokens([[0, -1], [2, 1]]).dense(1, 3).tolist() == [[[[True, False, False]]], [[[True] * 3]]]
    assert documents([[0, 0], [0, 1]]).dense(2, 2)[1, 0].tolist() == rows("#./.#")
    both = per_head([causal(), ~causal()]).dense(2, 2)
    assert both.shape == (1, 2, 2, 2)
    assert both[0, 0].tolist() == rows("#./##")
    assert both[0, 1].tolist() == rows(".#/..")
    layout = torch.tensor([[[True]], [[False]]])
    assert block_sparse(layout, 4).dense(2, 2)[0, :, 0, 0].tolist() == [True, False]
    assert from_spans(torch.tensor([[[0, 2]]], dtype=torch.uint8)).dense(1, 300).sum() == 2
    three = torch.tensor([[[True]], [[False]]])  # (h, L, S)
    assert dense(three).dense(1, 1).shape == (1, 2, 1, 1)
