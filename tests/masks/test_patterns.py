"""Masks defined by numbers: causal, window, prefix, global tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mask_cases import check_literal, check_misfit, check_tile_verdicts
from regard.masks import Mask, causal, everything, global_tokens, padding, prefix, window


@pytest.mark.parametrize(
    ("mask", "L", "S", "pattern"),
    [
        (causal(), 3, 3, "#../##./###"),
        (causal(), 2, 4, "###./####"),
        (causal(), 4, 2, "../../#./##"),
        (causal(align="start"), 2, 4, "#.../##.."),
        (causal(align="start"), 4, 2, "#./##/##/##"),
        (window(1, 0), 4, 4, "#.../##../.##./..##"),
        (window(0, 1), 3, 3, "##./.##/..#"),
        (window(1, 1), 2, 4, ".###/..##"),
        (window(1, 1, align="start"), 2, 4, "##../###."),
        (window(None, 1), 3, 4, "###./####/####"),
        (window(1, None), 3, 3, "###/###/.##"),
        (window(None, None), 2, 2, "##/##"),
        (window(10**15, 0), 3, 3, "#../##./###"),
        (prefix(2), 2, 4, "##../##.."),
        (prefix(9), 2, 3, "###/###"),
        (prefix(0), 1, 3, "..."),
        (global_tokens([1]), 3, 3, ".#./###/.#."),
        (global_tokens([0, 3]), 2, 4, "#..#/####"),
        (global_tokens([0]), 4, 2, "#./#./##/#."),
        (global_tokens([]), 1, 2, ".."),
    ],
    ids=repr,
)
def test_literal_patterns(mask: Mask, L: int, S: int, pattern: str) -> None:
    check_literal(mask, L, S, pattern)


@pytest.mark.parametrize(
    ("mask", "verdicts", "mixed"),
    [
        (causal(), "#..../##.../###../####./#####", [(k, k) for k in range(5)]),
        (window(19, 20), "##.../.##../..##./...##/....#", [(i, j) for i in range(5) for j in range(5) if i - 2 <= j <= i + 2]),
        (prefix(20), "##.../##.../##.../##.../##...", []),
        (global_tokens(range(10, 20)), ".#.../#####/.#.../.#.../.#...", []),
    ],
    ids=repr,
)
def test_verdicts_of_whole_tiles(mask: Mask, verdicts: str, mixed: list[tuple[int, int]]) -> None:
    check_tile_verdicts(mask, verdicts, mixed)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: window(-1, 0), r"window left is -1; pass a number of positions ≥ 0, or None"),
        (lambda: window(0, -2), r"window right is -2"),
        (lambda: window(1.5, 0), r"window left is 1.5; pass a whole number"),
        (lambda: window(True, 0), r"window left is True"),
        (lambda: causal(align="middle"), r"align is 'middle'; pass 'end'.* or 'start'"),
        (lambda: prefix(-1), r"prefix must be at least 0, but the smallest is -1"),
        (lambda: prefix(1.5), r"prefix must be whole numbers, but got torch.float"),
        (lambda: global_tokens([-1]), r"global_tokens got position -1; positions count from 0"),
        (lambda: global_tokens([[-2]]), r"at least -1, but the smallest is -2"),
    ],
)
def test_invalid_arguments(build: Callable[[], Mask], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("mask", "size", "message"),
    [
        (global_tokens([4]), (1, 1, 4, 4), r"names position 4 but there are only 4 keys"),
    ],
    ids=repr,
)
def test_sizes_that_do_not_fit(mask: Mask, size: tuple[int, int, int, int], message: str) -> None:
    check_misfit(mask, size, message)


def test_spans_that_do_not_depend_on_the_row_are_views() -> None:
    for mask in (everything(), prefix(3), padding([3, 5]), padding([3, 5]) & ~prefix(1)):
        spans = mask.spans(1000, 8)
        assert spans is not None
        assert spans.shape[2] == 1000
        assert spans.stride(2) == 0
