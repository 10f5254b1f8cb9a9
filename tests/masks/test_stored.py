"""Masks that hold a tensor: padding, dense, block_sparse, from_spans."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from mask_cases import check_literal, check_misfit, check_tile_verdicts
from regard.masks import MAX_SPANS, Mask, block_sparse, causal, dense, documents, from_spans, padding, prefix


@pytest.mark.parametrize(
    ("mask", "L", "S", "pattern"),
    [
        (padding([2]), 2, 4, "##../##.."),
        (padding([3], side="left"), 2, 4, ".###/.###"),
        (padding(torch.tensor([[True, False, True]])), 2, 3, "#.#/#.#"),
        (dense(torch.tensor([[True, False], [False, True]])), 2, 2, "#./.#"),
        (block_sparse(torch.tensor([[True, False], [True, True]]), 2), 3, 4, "##../##../####"),
        (from_spans(torch.tensor([[[3, 4], [0, 2], [1, 2]], [[2, 2], [5, 1], [0, 0]]])), 2, 4, "##.#/...."),
    ],
    ids=repr,
)
def test_literal_patterns(mask: Mask, L: int, S: int, pattern: str) -> None:
    check_literal(mask, L, S, pattern)


@pytest.mark.parametrize(
    ("mask", "verdicts"),
    [
        (padding([20, 20]), "##.../##.../##.../##.../##..."),
        (padding([30, 30], side="left"), "..###/..###/..###/..###/..###"),
        (padding((torch.arange(50) // 10 % 2 == 0)[None]), "#.#.#/#.#.#/#.#.#/#.#.#/#.#.#"),
        (block_sparse(torch.eye(5, dtype=torch.bool), 10), "#..../.#.../..#../...#./....#"),
        (dense(torch.ones(50, 50, dtype=torch.bool)), "#####/#####/#####/#####/#####"),
    ],
    ids=repr,
)
def test_verdicts_of_whole_tiles(mask: Mask, verdicts: str) -> None:
    check_tile_verdicts(mask, verdicts)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: padding([-1]), r"padding lengths must be at least 0, but the smallest is -1"),
        (lambda: padding(torch.tensor([0.5])), r"padding lengths must be whole numbers, but got torch.float32"),
        (lambda: padding([[1, 1]]), r"padding lengths must be \(B,\), but got shape \(1, 2\); .* from_hf"),
        (lambda: padding(torch.tensor([True])), r"\(B, S\), but got shape \(1,\); add the missing axis"),
        (lambda: padding([1], side="top"), r"side is 'top'; pass 'right' or 'left'"),
        (lambda: dense(torch.ones(2, 2)), r"must be bool with True = visible, but got torch.float32; .* from_sdpa"),
        (lambda: dense(torch.ones(2, dtype=torch.bool)), r"but got shape \(2,\)"),
        (lambda: block_sparse(torch.ones(2, 2, dtype=torch.bool), 0), r"block is 0; pass the side of a block"),
        (lambda: block_sparse(torch.ones(2, dtype=torch.bool), 1), r"must be \(block rows, block columns\).* but got \(2,\)"),
        (lambda: from_spans(torch.zeros(2, 1, 3).long()), r"must end in an axis of 2.* got shape \(2, 1, 3\)"),
        (lambda: from_spans(torch.zeros(2, 2).long()), r"spans must be 3-D or 5-D"),
        (lambda: from_spans(torch.tensor([[[-1, 2]]])), r"spans must be at least 0"),
    ],
)
def test_invalid_arguments(build: Callable[[], Mask], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("mask", "size", "message"),
    [
        (padding([1, 2]), (3, 1, 4, 4), r"made for 2 sequences but the inputs have a batch of 3; build it for 3, or for 1"),
        (dense(torch.ones(1, 2, 4, 4, dtype=torch.bool)), (1, 3, 4, 4), r"made for 2 heads but the inputs have 3"),
        (dense(torch.ones(3, 4, dtype=torch.bool)), (1, 1, 4, 4), r"is 3 queries × 4 keys but the inputs are 4 × 4; slice or rebuild"),
        (padding([5]), (1, 1, 4, 4), r"length of 5 but there are only 4 keys"),
        (padding(torch.ones(1, 3, dtype=torch.bool)), (1, 1, 4, 4), r"covers 3 keys but there are 4"),
        (
            block_sparse(torch.ones(2, 2, dtype=torch.bool), 2),
            (1, 1, 5, 4),
            r"has 2 × 2 blocks but 5 queries × 4 keys in blocks of 2 need 3 × 2",
        ),
        (from_spans(torch.tensor([[[0, 5]]])), (1, 1, 1, 4), r"reaches key 4 but there are only 4 keys"),
        (from_spans(torch.tensor([[[0, 5]]])), (1, 1, 2, 5), r"describes 1 queries but there are 2"),
    ],
    ids=repr,
)
def test_sizes_that_do_not_fit(mask: Mask, size: tuple[int, int, int, int], message: str) -> None:
    check_misfit(mask, size, message)


def test_spans_give_up_beyond_the_limit_and_not_before() -> None:
    stripes = torch.zeros(1, 2 * MAX_SPANS + 2, dtype=torch.bool)
    stripes[0, 1 : 2 * MAX_SPANS + 1 : 2] = True  # MAX_SPANS ranges, gaps on both sides
    mask, S = dense(stripes), stripes.shape[1]
    assert mask.spans(1, S).shape[-2] == MAX_SPANS  # type: ignore[union-attr]
    assert (~mask).spans(1, S) is None  # one more gap than ranges
    cut = ~mask & prefix(MAX_SPANS)
    assert cut.spans(1, S).shape[-2] == MAX_SPANS // 2  # type: ignore[union-attr]
    many = torch.arange(2000) % 2 == 0
    assert padding(many[None]).spans(1, 2000) is None
    assert (padding(many[None]) & prefix(8)).tile(range(1), range(8), 1, 2000).tolist() == [[[[True, False] * 4]]]  # type: ignore[union-attr]


def test_stored_masks_move_to_the_device_asked_for_once() -> None:
    for mask in (
        dense(torch.eye(3, dtype=torch.bool)),
        padding(torch.tensor([[True, False, True]])),
        documents([0, 1, 0]),
        block_sparse(torch.eye(3, dtype=torch.bool), 1),
        from_spans(torch.tensor([[[0, 1]], [[1, 2]], [[2, 3]]])),
    ):
        both = mask & causal()
        assert both.device == torch.device("cpu")
        assert both.dense(3, 3, device="meta").device.type == "meta"
        assert mask.tile(range(3), range(3), 3, 3, device="meta").device.type == "meta"  # type: ignore[union-attr]
        assert len([key for key in mask.__dict__["_memo"] if key[0] == "moved"]) == 1
