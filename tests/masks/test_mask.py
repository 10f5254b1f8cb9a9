"""Mask algebra, equality, repr, caching and devices."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch import Tensor

from mask_cases import check_literal, check_misfit, nothing
from regard.masks import Mask, causal, dense, documents, everything, global_tokens, padding, per_head, prefix, window


@pytest.mark.parametrize(
    ("mask", "L", "S", "pattern"),
    [
        (everything(), 2, 3, "###/###"),
        (nothing, 2, 3, ".../..."),
        (causal() & window(1, 0) | global_tokens([0]), 4, 4, "####/##../###./#.##"),
        (causal() & documents([0, 0, 1, 1]), 4, 4, "#.../##../..#./..##"),
        (causal() | prefix(2), 3, 3, "##./##./###"),
        (~causal(), 3, 3, ".##/..#/..."),
        (~(causal() & ~prefix(1)), 3, 3, "###/#.#/#.."),
    ],
    ids=repr,
)
def test_literal_patterns(mask: Mask, L: int, S: int, pattern: str) -> None:
    check_literal(mask, L, S, pattern)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: padding([1, 2]) & padding([1, 2, 3]), r"different numbers of sequences .*\(2 sequences\) and .*\(3 sequences\)"),
    ],
)
def test_invalid_arguments(build: Callable[[], Mask], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("mask", "size", "message"),
    [
        (~per_head([causal()]), (1, 3, 4, 4), r"has 1 masks but the inputs have 3 heads"),
        (causal() & (dense(torch.ones(3, 4, dtype=torch.bool)) | prefix(1)), (1, 1, 4, 4), r"is 3 queries × 4 keys"),
    ],
    ids=repr,
)
def test_sizes_that_do_not_fit(mask: Mask, size: tuple[int, int, int, int], message: str) -> None:
    check_misfit(mask, size, message)


def test_spans_are_written_as_promised() -> None:
    spans = (causal() & window(2, 0) | global_tokens([0])).spans(5, 5)
    assert spans is not None
    assert spans.dtype == torch.int32
    assert spans.tolist() == [[[[[0, 5], [5, 5]], [[0, 2], [5, 5]], [[0, 3], [5, 5]], [[0, 4], [5, 5]], [[0, 1], [2, 5]]]]]
    assert padding([0]).spans(1, 3).tolist() == [[[[[3, 3]]]]]  # type: ignore[union-attr]


def test_trivial_combinations_simplify() -> None:
    a, b, c = causal(), window(3, 3), padding(torch.tensor([[True]]))
    assert a & everything() is a
    assert everything() & a is a
    assert a | nothing is a
    assert a & nothing == nothing
    assert a | everything() == everything()
    assert a & a == a == a | a
    assert ~~a is a
    assert c & c is c
    assert a & ~a == nothing
    assert a | ~a == everything()
    assert (a & b) & ~a == nothing
    assert repr(a & (b & c)) == repr((a & b) & c) == "causal() & window(3, 3) & padding(<bool 1×1>)"


def test_equality_is_by_rule_for_numbers_and_by_identity_for_tensors() -> None:
    assert causal() == causal() != causal(align="start")
    assert window(None, 0) == causal()
    assert causal() & window(2, 0) == window(2, 0) & causal() != causal() | window(2, 0)
    assert ~causal() == ~causal() != causal()
    assert padding([1, 2]) == padding(torch.tensor([1, 2])) != padding([1, 2], side="left")
    assert global_tokens([1, 0, 1]) == global_tokens([0, 1])
    assert per_head([causal(), prefix(1)]) == per_head([causal(), prefix(1)]) != per_head([prefix(1), causal()])
    assert len({causal(), causal(), window(2, 0) & causal(), causal() & window(2, 0)}) == 2
    grid = torch.ones(2, 2, dtype=torch.bool)
    one = dense(grid)
    assert one == one != dense(grid)
    assert documents([0, 1]) != documents([0, 1])
    assert causal() & one == one & causal()


def test_the_repr_reads_like_code() -> None:
    assert repr(causal() & window(256, 0) | global_tokens([0])) == "causal() & window(256, 0) | global_tokens([0])"
    assert repr(causal() & (window(2, 0) | prefix(1))) == "causal() & (window(2, 0) | prefix(1))"
    assert repr(~(causal() & prefix(1)) | ~causal("start")) == "~(causal() & prefix(1)) | ~causal(align='start')"
    assert repr(window(None, 3, align="start")) == "window(None, 3, align='start')"
    assert repr(padding([1, 2], side="left")) == "padding([1, 2], side='left')"
    assert repr(documents([[0, 1]])) == "documents([[0, 1]])"
    assert repr(documents([0], [1, 0])) == "documents([0], [1, 0])"
    assert repr(documents(torch.arange(100))) == "documents(<100 ids>)"
    assert repr(dense(torch.ones(2, 3, dtype=torch.bool))) == "dense(<bool 1×1×2×3>)"


def test_masks_never_change_and_have_no_truth_value() -> None:
    for mask in (causal(), causal() & prefix(1), dense(torch.ones(1, 1, dtype=torch.bool))):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            mask.parts = ()  # type: ignore[attr-defined]
        with pytest.raises(TypeError, match=r"combine masks with & \| ~"):
            bool(mask)
    with pytest.raises(TypeError):
        causal() & torch.ones(1)  # type: ignore[operator]


def test_masks_copy_and_pickle_without_what_they_remember() -> None:
    mask = causal() & padding([2, 3]) | ~global_tokens([1])
    before = mask.spans(3, 3)
    for again in (copy.deepcopy(mask), pickle.loads(pickle.dumps(mask))):
        assert again == mask
        assert "_memo" not in again.__dict__
        assert torch.equal(again.spans(3, 3), before)


def test_what_is_remembered_in_inference_mode_still_trains() -> None:
    with torch.inference_mode():
        causal().tile(range(13), range(11), 13, 13)
    band = causal().tile(range(13), range(11), 13, 13)
    assert isinstance(band, Tensor)
    assert not band.is_inference()
    masked = [causal() & padding([3, 4]), padding([3, 4]) & window(1, 1), global_tokens([0]), documents([0, 0, 1, 1])]
    with torch.inference_mode():
        for mask in masked:
            mask.tile(range(4), range(4), 4, 4)
            mask.spans(4, 4)
    for mask in masked:
        scores = torch.randn(2, 1, 4, 4, requires_grad=True)
        tile = mask.tile(range(4), range(4), 4, 4)
        assert isinstance(tile, Tensor)
        torch.where(tile, scores, 0.0).square().sum().backward()
        assert scores.grad is not None
        spans = mask.spans(4, 4)
        assert spans is not None
        assert not spans.is_inference()


def test_the_memory_of_a_mask_is_bounded() -> None:
    mask = causal()
    for n in range(1, 40):
        mask.spans(n, n)
    assert len(mask.__dict__["_memo"]) <= 8
    assert mask.spans(39, 39) is mask.spans(39, 39)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run on a machine that has one")
def test_masks_on_cuda() -> None:
    mask = causal() & padding(torch.tensor([[True, False, True]], device="cuda")) | documents(torch.tensor([0, 1, 0], device="cuda"))
    assert mask.spans(3, 3).is_cuda  # type: ignore[union-attr]
    assert mask.spans(3, 3, device="cpu").tolist() == mask.spans(3, 3).tolist()  # type: ignore[union-attr]


def test_a_hundred_thousand_tokens_stay_small() -> None:
    N = 100_000
    mask = causal() & window(256, 0) | global_tokens([0])
    spans = mask.spans(N, N)
    assert spans is not None
    assert spans.shape == (1, 1, N, 2, 2)
    assert spans.untyped_storage().nbytes() <= N * 2 * 2 * 4
    assert spans[0, 0, 50_000].tolist() == [[0, 1], [50_000 - 256, 50_001]]
    assert mask.verdict(range(N), range(N), N, N) is None  # asked of the whole pattern, never built
    assert mask.tile(range(50_000, 50_128), range(10_000, 10_128), N, N) == "none"
    tile = mask.tile(range(50_000, 50_128), range(49_900, 50_028), N, N)
    assert isinstance(tile, Tensor)
    assert tile.shape == (1, 1, 128, 128)
    assert tile.untyped_storage().nbytes() <= 128 * 128
    kept = [t for m in (mask, *mask.parts) for t in m.__dict__.get("_memo", {}).values()]  # type: ignore[attr-defined]
    held = sum(t.untyped_storage().nbytes() for result in kept for t in (result if isinstance(result, tuple) else (result,)))
    assert held <= 20 * N


def test_a_tile_outside_the_pattern_is_refused() -> None:
    for a, b in (
        (range(5), range(4)),
        (range(4), range(2, 5)),
        (range(0, 4, 2), range(4)),
        (range(-1, 2), range(4)),
        (range(3, 1), range(4)),
    ):
        with pytest.raises(ValueError, match="does not lie inside 4 queries × 4 keys"):
            causal().tile(a, b, 4, 4)
    assert causal().tile(range(2, 2), range(4), 4, 4) == "none"
