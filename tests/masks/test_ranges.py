"""Arithmetic on key ranges."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.masks.ranges import complement, intersection, merge, runs, union


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (merge(torch.tensor([[4, 6], [0, 2], [1, 3], [3, 3]]), 9), [[0, 3], [4, 6]]),
        (merge(torch.tensor([[0, 2], [2, 4]]), 9), [[0, 4]]),
        (merge(torch.tensor([[-3, 2], [7, 12]]), 9), [[0, 2], [7, 9]]),
        (merge(torch.tensor([[5, 5], [6, 2]]), 9), [[9, 9]]),
        (union(torch.tensor([[0, 1]]), torch.tensor([[3, 9]]), 9), [[0, 1], [3, 9]]),
        (complement(torch.tensor([[0, 9]]), 9), [[9, 9]]),
        (complement(torch.tensor([[9, 9]]), 9), [[0, 9]]),
        (complement(torch.tensor([[0, 1], [3, 9]]), 9), [[1, 3]]),
        (complement(torch.tensor([[0, 0]]), 0), [[0, 0]]),
        (intersection(torch.tensor([[0, 4], [6, 9]]), torch.tensor([[2, 7], [8, 9]]), 9), [[2, 4], [6, 7], [8, 9]]),
        (intersection(torch.tensor([[0, 4]]), torch.tensor([[4, 9]]), 9), [[9, 9]]),
        (runs(torch.tensor([False, False])), [[2, 2]]),
        (runs(torch.tensor([True, False, True, True])), [[0, 1], [2, 4]]),
        (runs(torch.zeros(0, dtype=torch.bool)), [[0, 0]]),
    ],
)
def test_range_arithmetic(found: Tensor, expected: list[list[int]]) -> None:
    assert found.tolist() == expected
