"""Document masks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from mask_cases import check_literal, check_misfit, check_tile_verdicts
from regard.masks import Mask, documents


@pytest.mark.parametrize(
    ("mask", "L", "S", "pattern"),
    [
        (documents([5, 5, 2]), 3, 3, "##./##./..#"),
        (documents([0, 1, 0, 1]), 2, 4, "#.#./.#.#"),
        (documents([1, 2], key_ids=[2, 2, 1]), 2, 3, "..#/##."),
    ],
    ids=repr,
)
def test_literal_patterns(mask: Mask, L: int, S: int, pattern: str) -> None:
    check_literal(mask, L, S, pattern)


@pytest.mark.parametrize(
    ("mask", "verdicts"),
    [
        (documents(torch.arange(50) // 20), "##.../##.../..##./..##./....#"),
        (documents(torch.arange(50) // 10 % 2), "#.#.#/.#.#./#.#.#/.#.#./#.#.#"),
        (documents(torch.arange(50) // 10, torch.arange(50) // 20), "##.../..##./....#/...../....."),
    ],
    ids=repr,
)
def test_verdicts_of_whole_tiles(mask: Mask, verdicts: str) -> None:
    check_tile_verdicts(mask, verdicts)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: documents(torch.zeros(1, 1, 1, dtype=torch.long)), r"document ids must be 1-D or 2-D"),
        (lambda: documents(torch.zeros(2, 1).long(), torch.zeros(3, 1).long()), r"ids for 2 sequences but key_ids for 3"),
    ],
)
def test_invalid_arguments(build: Callable[[], Mask], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("mask", "size", "message"),
    [
        (documents([0, 1, 2]), (1, 1, 2, 4), r"numbers 3 keys but there are 4"),
        (documents([0, 1, 2, 3]), (1, 1, 5, 4), r"numbers 4 positions but there are 5 queries; pass key_ids"),
        (documents([0, 1, 2], [0, 1]), (1, 1, 2, 2), r"numbers 3 queries but there are 2"),
    ],
    ids=repr,
)
def test_sizes_that_do_not_fit(mask: Mask, size: tuple[int, int, int, int], message: str) -> None:
    check_misfit(mask, size, message)
