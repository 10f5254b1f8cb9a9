"""Masks from a rule: tiles, ranges, algebra and errors, against the rule itself."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from regard.masks import rule


@pytest.mark.parametrize(("step", "L", "S"), [(3, 40, 40), (4, 300, 300), (2, 5, 9)])
def test_a_rule_alone_and_combined_runs_compiled(step: int, L: int, S: int) -> None:
    q, k, v = torch.randn(2, 2, L, 8), torch.randn(2, 2, S, 8), torch.randn(2, 2, S, 8)
    i, j = torch.arange(L)[:, None] + S - L, torch.arange(S)
    every = (i - j) % step == 0
    mask = rule(lambda i, j: (i - j) % step == 0)
    for combined, pattern in (
        (mask, every),
        (mask & regard.causal(), every & (i >= j)),
        (~mask, ~every),
        (mask | regard.prefix(2), every | (j < 2)),
    ):
        assert torch.equal(combined.dense(L, S)[0, 0], pattern)
        want = (q @ k.mT / math.sqrt(8)).masked_fill(~pattern, -math.inf).softmax(-1) @ v
        torch.testing.assert_close(regard.attend(q, k, v, mask=combined, kernel="native"), want.nan_to_num(0), rtol=1e-4, atol=1e-5)
        part = combined.part(range(1, L - 1), range(2, S), L, S)
        assert torch.equal(part.dense(L - 2, S - 2)[0, 0], pattern[1:-1, 2:])


def test_a_rule_by_batch_and_head() -> None:
    lengths = torch.tensor([3, 6])
    mask = rule(lambda b, h, i, j: (j < lengths[b]) & ((i - j).abs() <= h + 1), batch=2, heads=3)
    dense = mask.dense(6, 6)
    assert dense.shape == (2, 3, 6, 6)
    assert bool(dense[1, 2, 5, 2])
    assert not bool(dense[0, 2, 4, 3])
    q = torch.randn(2, 3, 6, 4)
    torch.testing.assert_close(regard.attend(q, q, q, mask=mask), regard.attend(q, q, q, mask=regard.dense(dense)), rtol=1e-4, atol=1e-5)


def test_a_large_rule_is_computed_tile_by_tile() -> None:
    q = torch.randn(1, 1, 9000, 4)
    plan = regard.explain(q, q, q, mask=rule(lambda i, j: (i - j) % 2 == 0))
    assert plan.kernel == "streamed"
    assert plan.bytes < 9000 * 9000


def test_a_wrong_rule_is_told_what_was_expected() -> None:
    q = torch.randn(1, 2, 4, 4)
    with pytest.raises(TypeError, match=r"returned torch.int64; expected a bool tensor"):
        regard.attend(q, q, q, mask=rule(lambda i, j: i - j))
    with pytest.raises(TypeError, match=r"must take \(i, j\); for one by batch or head pass batch= or heads="):
        rule(lambda b, h, i, j: i >= j)
    with pytest.raises(TypeError, match=r"wrap a bool tensor in regard.dense"):
        rule(torch.ones(2, 2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected a regard mask: wrap it in regard.rule"):
        regard.attend(q, q, q, mask=lambda i, j: i >= j)  # type: ignore[arg-type]
