"""Masks: literal patterns first, then random expressions against a predicate in plain Python, then agreement with torch."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from regard import masks
from regard.masks import (
    MAX_SPANS,
    Mask,
    block_sparse,
    causal,
    dense,
    documents,
    everything,
    from_additive,
    from_hf,
    from_sdpa,
    from_spans,
    from_torch_mha,
    global_tokens,
    padding,
    per_head,
    prefix,
    window,
)
from regard.masks.ranges import complement, intersection, merge, runs, union

nothing = ~everything()


def rows(text: str) -> list[list[bool]]:
    """A literal pattern: '#' may look, '.' may not, '/' ends a row."""
    return [[c == "#" for c in row] for row in text.split("/")]


# Literal patterns


@pytest.mark.parametrize(
    ("mask", "L", "S", "pattern"),
    [
        (everything(), 2, 3, "###/###"),
        (nothing, 2, 3, ".../..."),
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
        (padding([2]), 2, 4, "##../##.."),
        (padding([3], side="left"), 2, 4, ".###/.###"),
        (padding(torch.tensor([[True, False, True]])), 2, 3, "#.#/#.#"),
        (documents([5, 5, 2]), 3, 3, "##./##./..#"),
        (documents([0, 1, 0, 1]), 2, 4, "#.#./.#.#"),
        (documents([1, 2], key_ids=[2, 2, 1]), 2, 3, "..#/##."),
        (global_tokens([1]), 3, 3, ".#./###/.#."),
        (global_tokens([0, 3]), 2, 4, "#..#/####"),
        (global_tokens([0]), 4, 2, "#./#./##/#."),
        (global_tokens([]), 1, 2, ".."),
        (dense(torch.tensor([[True, False], [False, True]])), 2, 2, "#./.#"),
        (block_sparse(torch.tensor([[True, False], [True, True]]), 2), 3, 4, "##../##../####"),
        (from_spans(torch.tensor([[[3, 4], [0, 2], [1, 2]], [[2, 2], [5, 1], [0, 0]]])), 2, 4, "##.#/...."),
        (causal() & window(1, 0) | global_tokens([0]), 4, 4, "####/##../###./#.##"),
        (causal() & documents([0, 0, 1, 1]), 4, 4, "#.../##../..#./..##"),
        (causal() | prefix(2), 3, 3, "##./##./###"),
        (~causal(), 3, 3, ".##/..#/..."),
        (~(causal() & ~prefix(1)), 3, 3, "###/#.#/#.."),
    ],
    ids=repr,
)
def test_the_pattern_is_the_one_written_down(mask: Mask, L: int, S: int, pattern: str) -> None:
    assert mask.dense(L, S)[0, 0].tolist() == rows(pattern)
    spans = mask.spans(L, S)
    assert spans is not None
    assert expand(spans, S)[0, 0].tolist() == rows(pattern)


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
    three = torch.tensor([[[True]], [[False]]])  # (B, L, S)
    assert dense(three).dense(1, 1).shape == (2, 1, 1, 1)


def test_spans_are_written_as_promised() -> None:
    spans = (causal() & window(2, 0) | global_tokens([0])).spans(5, 5)
    assert spans is not None
    assert spans.dtype == torch.int32
    assert spans.tolist() == [[[[[0, 5], [5, 5]], [[0, 2], [5, 5]], [[0, 3], [5, 5]], [[0, 4], [5, 5]], [[0, 1], [2, 5]]]]]
    assert padding([0]).spans(1, 3).tolist() == [[[[[3, 3]]]]]  # type: ignore[union-attr]


def test_spans_that_do_not_depend_on_the_row_are_views() -> None:
    for mask in (everything(), prefix(3), padding([3, 5]), padding([3, 5]) & ~prefix(1)):
        spans = mask.spans(1000, 8)
        assert spans is not None
        assert spans.shape[2] == 1000
        assert spans.stride(2) == 0


# The arithmetic of ranges


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


# Random expressions against plain Python

Rule = Callable[[int, int, int, int], bool]  # (batch, head, row, column) → may look


def expand(spans: Tensor, S: int) -> Tensor:
    """Ranges → bool (B, h, L, S), after checking that they are sorted, disjoint, apart, and padded at the end."""
    for row in spans.reshape(-1, *spans.shape[3:]).tolist():
        used = [r for r in row if r[0] < r[1]]
        assert row == used + [[S, S]] * (len(row) - len(used))
        edges = [edge for r in used for edge in r]
        assert edges == sorted(set(edges))
        assert all(0 <= edge <= S for edge in edges)
    keys = torch.arange(S)
    return ((spans[..., :1] <= keys) & (keys < spans[..., 1:])).any(-2)


def bools(draw: st.DrawFn, *shape: int) -> Tensor:
    size = math.prod(shape)
    return torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=torch.bool).view(shape)


def numbers(draw: st.DrawFn, low: int, high: int, *shape: int) -> Tensor:
    size = math.prod(shape)
    return torch.tensor(draw(st.lists(st.integers(low, high), min_size=size, max_size=size)), dtype=torch.long).view(shape)


@st.composite
def symbolic(draw: st.DrawFn, B: int, h: int, L: int, S: int) -> tuple[Mask, Rule]:
    kind = draw(st.sampled_from(["everything", "causal", "window", "prefix", "prefixes", "lengths", "global", "globals"]))
    align = draw(st.sampled_from(["end", "start"]))
    off = S - L if align == "end" else 0
    if kind == "causal":
        return causal(align), lambda b, k, i, j: j <= i + off
    if kind == "window":
        left, right = (draw(st.none() | st.integers(0, 6)) for _ in range(2))
        return window(
            left, right, align
        ), lambda b, k, i, j: (left is None or j >= i + off - left) and (right is None or j <= i + off + right)
    if kind == "prefix":
        n = draw(st.integers(0, S + 2))
        return prefix(n), lambda b, k, i, j: j < n
    if kind == "prefixes":
        each = numbers(draw, 0, S + 1, B)
        return prefix(each), lambda b, k, i, j: j < int(each[b])
    if kind == "lengths":
        each, side = numbers(draw, 0, S, B), draw(st.sampled_from(["right", "left"]))
        return padding(each, side), lambda b, k, i, j: j < int(each[b]) if side == "right" else j >= S - int(each[b])
    if kind == "global" and S:
        ids = draw(st.lists(st.integers(0, S - 1), max_size=3))
        return global_tokens(ids), lambda b, k, i, j: j in ids or i + S - L in ids
    if kind == "globals" and S:
        table = numbers(draw, -1, S - 1, B, 2)
        return global_tokens(table), lambda b, k, i, j: j in table[b].tolist() or (i + S - L >= 0 and i + S - L in table[b].tolist())
    return everything(), lambda b, k, i, j: True


@st.composite
def stored(draw: st.DrawFn, B: int, h: int, L: int, S: int) -> tuple[Mask, Rule]:
    kind = draw(st.sampled_from(["keep", "documents", "flat documents", "cross", "dense", "dense 2-D", "dense 3-D", "blocks", "spans"]))
    if kind == "keep":
        keep = bools(draw, B, S)
        return padding(keep), lambda b, k, i, j: bool(keep[b, j])
    if kind == "documents" and L <= S:
        ids = numbers(draw, -1, 2, B, S)
        if draw(st.booleans()):
            ids = ids.sort(-1, descending=draw(st.booleans())).values
        return documents(ids), lambda b, k, i, j: bool(ids[b, i + S - L] == ids[b, j])
    if kind == "flat documents" and L <= S:
        line = numbers(draw, 0, 2, S)
        return documents(line), lambda b, k, i, j: bool(line[i + S - L] == line[j])
    if kind == "cross":
        asks, holds = numbers(draw, 0, 2, L), numbers(draw, 0, 2, B, S)
        return documents(asks, holds), lambda b, k, i, j: bool(asks[i] == holds[b, j])
    if kind == "dense 2-D":
        flat = bools(draw, L, S)
        return dense(flat), lambda b, k, i, j: bool(flat[i, j])
    if kind == "dense 3-D":
        cube = bools(draw, B, L, S)
        return dense(cube), lambda b, k, i, j: bool(cube[b, i, j])
    if kind == "blocks":
        size = draw(st.integers(1, 4))
        layout = bools(draw, h, -(-L // size), -(-S // size))
        return block_sparse(layout, size), lambda b, k, i, j: bool(layout[k, i // size, j // size])
    if kind == "spans":
        spans = numbers(draw, 0, S, B, 1, L, 3, 2)
        return from_spans(spans), lambda b, k, i, j: any(s <= j < e for s, e in spans[b, 0, i].tolist())
    full = bools(draw, 1, h, L, S)
    return dense(full), lambda b, k, i, j: bool(full[0, k, i, j])


@st.composite
def expression(draw: st.DrawFn, B: int, h: int, L: int, S: int, depth: int = 2, only_symbolic: bool = False) -> tuple[Mask, Rule]:
    kind = draw(st.sampled_from(["leaf", "and", "or", "not", "heads"])) if depth else "leaf"
    if kind == "leaf":
        return draw(symbolic(B, h, L, S) if only_symbolic else symbolic(B, h, L, S) | stored(B, h, L, S))
    if kind == "not":
        mask, rule = draw(expression(B, h, L, S, depth - 1, only_symbolic))
        return ~mask, lambda b, k, i, j: not rule(b, k, i, j)
    if kind == "heads":
        if only_symbolic:
            each = [draw(expression(B, 1, L, S, 0, True)) for _ in range(h)]
        else:
            each = [draw(expression(B, 1, L, S, 0)) for _ in range(h)]
        return per_head([m for m, _ in each]), lambda b, k, i, j: each[k][1](b, 0, i, j)
    (a, p), (b_, q) = (draw(expression(B, h, L, S, depth - 1, only_symbolic)) for _ in range(2))
    if kind == "and":
        return a & b_, lambda b, k, i, j: p(b, k, i, j) and q(b, k, i, j)
    return a | b_, lambda b, k, i, j: p(b, k, i, j) or q(b, k, i, j)


sizes = st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(0, 7), st.integers(0, 7))


def truth(rule: Rule, B: int, h: int, L: int, S: int) -> Tensor:
    return torch.tensor(
        [[[[rule(b, k, i, j) for j in range(S)] for i in range(L)] for k in range(h)] for b in range(B)], dtype=torch.bool
    ).view(B, h, L, S)


def check_everywhere(mask: Mask, expected: Tensor, *, step: int) -> None:
    """dense, spans and every tile of a few tilings say the same as the expected pattern."""
    B, h, L, S = expected.shape
    mask.check(B, h, L, S)
    written = mask.dense(L, S)
    assert written.shape == (*mask.lead, L, S)
    assert torch.equal(written.expand(B, h, L, S), expected)
    spans = mask.spans(L, S)
    if spans is not None:
        assert spans.shape[2] == L
        assert all(n in (1, most) for n, most in zip(spans.shape[:2], mask.lead, strict=True))
        assert spans.dtype == torch.int32
        assert torch.equal(expand(spans, S).expand(B, h, L, S), expected)
    for r in range(0, L, step):
        for c in range(0, S, step):
            for down, across in ((step, step), (1, step), (step, 1), (L, step)):
                a, b = range(r, min(r + down, L)), range(c, min(c + across, S))
                part = expected[:, :, a.start : a.stop, b.start : b.stop]
                found = mask.tile(a, b, L, S)
                assert mask.verdict(a, b, L, S) == (found if isinstance(found, str) else None)
                if isinstance(found, str):
                    assert found in ("all", "none")
                    assert bool(part.all()) if found == "all" else not part.any()
                else:
                    assert found.dtype == torch.bool
                    assert torch.equal(found.expand(part.shape), part)


@settings(max_examples=400, deadline=None)
@given(st.data(), sizes)
def test_any_expression_means_what_plain_python_says(data: st.DataObject, size: tuple[int, int, int, int]) -> None:
    mask, rule = data.draw(expression(*size))
    check_everywhere(mask, truth(rule, *size), step=data.draw(st.integers(1, 4)))


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


# What a tile must tell without a tensor


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        (causal(), "#..../##.../###../####./#####"),
        (window(19, 20), "##.../.##../..##./...##/....#"),
        (prefix(20), "##.../##.../##.../##.../##..."),
        (padding([20, 20]), "##.../##.../##.../##.../##..."),
        (padding([30, 30], side="left"), "..###/..###/..###/..###/..###"),
        (padding((torch.arange(50) // 10 % 2 == 0)[None]), "#.#.#/#.#.#/#.#.#/#.#.#/#.#.#"),
        (documents(torch.arange(50) // 20), "##.../##.../..##./..##./....#"),
        (documents(torch.arange(50) // 10 % 2), "#.#.#/.#.#./#.#.#/.#.#./#.#.#"),
        (documents(torch.arange(50) // 10, torch.arange(50) // 20), "##.../..##./....#/...../....."),
        (global_tokens(range(10, 20)), ".#.../#####/.#.../.#.../.#..."),
        (block_sparse(torch.eye(5, dtype=torch.bool), 10), "#..../.#.../..#../...#./....#"),
        (dense(torch.ones(50, 50, dtype=torch.bool)), "#####/#####/#####/#####/#####"),
    ],
    ids=repr,
)
def test_whole_and_empty_tiles_are_told(mask: Mask, told: str) -> None:
    tiles = [range(k, k + 10) for k in range(0, 50, 10)]
    wanted = [["all" if may else "none" for may in row] for row in rows(told)]
    mixed = {
        repr(causal()): [(k, k) for k in range(5)],
        repr(window(19, 20)): [(i, j) for i in range(5) for j in range(5) if i - 2 <= j <= i + 2],
    }
    for i, a in enumerate(tiles):
        for j, b in enumerate(tiles):
            if (i, j) in mixed.get(repr(mask), []):
                continue
            assert mask.tile(a, b, 50, 50) == wanted[i][j], (i, j)
            assert (~mask).tile(a, b, 50, 50) == ("none" if wanted[i][j] == "all" else "all")
            assert (mask & ~prefix(10)).tile(a, b, 50, 50) == (wanted[i][j] if j else "none")
            assert (mask | prefix(10)).tile(a, b, 50, 50) == (wanted[i][j] if j else "all")


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
    held = sum(t.untyped_storage().nbytes() for found in kept for t in (found if isinstance(found, tuple) else (found,)))
    assert held <= 20 * N


# Algebra


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


@settings(max_examples=60, deadline=None)
@given(st.data(), sizes)
def test_answers_come_on_the_device_asked_for(data: st.DataObject, size: tuple[int, int, int, int]) -> None:
    mask, _ = data.draw(expression(*size, only_symbolic=True))
    L, S = size[2:]
    assert mask.dense(L, S, device="meta").device.type == "meta"
    tile = mask.tile(range(L), range(S), L, S, device="meta")
    assert isinstance(tile, str) or tile.device.type == "meta"


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run on a machine that has one")
def test_masks_on_cuda() -> None:
    mask = causal() & padding(torch.tensor([[True, False, True]], device="cuda")) | documents(torch.tensor([0, 1, 0], device="cuda"))
    assert mask.spans(3, 3).is_cuda  # type: ignore[union-attr]
    assert mask.spans(3, 3, device="cpu").tolist() == mask.spans(3, 3).tolist()  # type: ignore[union-attr]


# Drawing


def test_drawings() -> None:
    assert causal().draw(2, 3) == "████··\n██████"
    assert causal().draw(2, 3, ascii=True) == "####..\n######"
    assert causal().draw(4, 4, width=4) == "▒▒··\n██▒▒"
    assert per_head([causal(), everything()]).draw(2, 2, head=1) == "████\n████"
    assert padding([1, 2]).draw(1, 2, batch=1) == "████"
    assert causal().draw(0, 3) == ""
    assert len(causal().draw(1_000_000, 1_000_000, width=8).splitlines()) == 4
    with pytest.raises(ValueError, match="head is 2 but"):
        per_head([causal(), causal()]).draw(2, 2, head=2)
    with pytest.raises(ValueError, match="width is 1"):
        causal().draw(2, 2, width=1)


def test_the_notebook_picture_is_whole_and_follows_the_scheme() -> None:
    from xml.etree import ElementTree

    for mask in (causal() & window(2, 0) | global_tokens([0]), dense(torch.eye(70, dtype=torch.bool)), padding([0]), documents([])):
        tree = ElementTree.fromstring(mask._repr_html_().replace("<br>", "<br/>"))
        assert tree.tag == "figure"
        code = tree.find(".//code")
        assert code is not None
        assert code.text == repr(mask)
        assert tree.find(".//pattern") is not None
    page = causal()._repr_html_()
    assert "prefers-color-scheme:dark" in page
    assert page.count('class="all"') == 12  # one run per row of the triangle
    assert len(dense(torch.rand(500, 500) < 0.5)._repr_html_()) < 60_000


# Importers, beside torch itself


def attention(scores: Tensor, value: Tensor, mask: Mask) -> Tensor:
    L, S = scores.shape[-2:]
    return scores.masked_fill(~mask.dense(L, S), -math.inf).softmax(-1) @ value


@pytest.mark.parametrize("shape", [(5, 6), (2, 1, 5, 6), (2, 3, 5, 6), (1, 3, 5, 6)])
@pytest.mark.parametrize("additive", [False, True])
def test_from_sdpa_means_what_sdpa_means(shape: tuple[int, ...], additive: bool) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
    pattern = torch.rand(shape) < 0.6
    pattern[..., 0] = True
    given_mask = torch.zeros(shape).masked_fill(~pattern, -math.inf) if additive else pattern
    ours = attention(query @ key.mT / 2, value, from_sdpa(given_mask))
    torch.testing.assert_close(ours, scaled_dot_product_attention(query, key, value, attn_mask=given_mask))


@pytest.mark.parametrize(("L", "S"), [(4, 4), (3, 5), (5, 3)])
def test_the_causal_flag_of_sdpa_is_aligned_to_the_start(L: int, S: int) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(1, 1, L, 4), torch.randn(1, 1, S, 4), torch.randn(1, 1, S, 4)
    ours = attention(query @ key.mT / 2, value, causal(align="start"))
    torch.testing.assert_close(ours, scaled_dot_product_attention(query, key, value, is_causal=True))


def test_from_additive_takes_mask_and_bias_apart() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
    given_mask = torch.randn(1, 3, 5, 6).masked_fill(torch.rand(1, 3, 5, 6) < 0.3, -math.inf)
    given_mask[..., 0] = 1.5
    mask, bias = from_additive(given_mask)
    assert bool(bias.isfinite().all())
    ours = attention(query @ key.mT / 2 + bias, value, mask)
    torch.testing.assert_close(ours, scaled_dot_product_attention(query, key, value, attn_mask=given_mask))
    learned = given_mask.clone().requires_grad_()
    from_additive(learned)[1].sum().backward()
    assert torch.equal(learned.grad, mask.dense(5, 6).float())  # type: ignore[arg-type]


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("shape", [None, (5, 6), (6, 5, 6)])
@pytest.mark.parametrize("padded", [False, True])
def test_from_torch_mha_means_what_the_layer_means(additive: bool, shape: tuple[int, ...] | None, padded: bool) -> None:
    torch.manual_seed(0)
    B, h, L, S, d = 2, 3, 5, 6, 12
    layer = torch.nn.MultiheadAttention(d, h, batch_first=True)
    query, key = torch.randn(B, L, d), torch.randn(B, S, d)

    def written(hidden: Tensor) -> Tensor:
        hidden[..., 0] = False
        return torch.zeros(hidden.shape).masked_fill(hidden, -math.inf) if additive else hidden

    attn_mask = None if shape is None else written(torch.rand(shape) < 0.4)
    key_padding_mask = written(torch.rand(B, S) < 0.4) if padded else None
    weights = layer(query, key, key, attn_mask=attn_mask, key_padding_mask=key_padding_mask, average_attn_weights=False)[1]
    mask = from_torch_mha(attn_mask, key_padding_mask, num_heads=h)
    mask.check(B, h, L, S)
    assert torch.equal(mask.dense(L, S).expand(B, h, L, S), weights > 0)


def test_from_torch_mha_of_one_sequence() -> None:
    mask = from_torch_mha(key_padding_mask=torch.tensor([False, True]))
    assert mask.dense(1, 2).tolist() == [[[[True, False]]]]
    assert from_torch_mha() == everything()


def test_from_hf_reads_every_form() -> None:
    lowest = torch.finfo(torch.float32).min
    two = torch.tensor([[1, 1, 0], [0, 1, 1]])
    expected = two.bool()[:, None, None].expand(2, 1, 2, 3)
    for form in (two, two.bool(), two.float()):
        assert torch.equal(from_hf(form).dense(2, 3).expand(2, 1, 2, 3), expected)
    for low in (-math.inf, lowest, -1e4):
        additive = torch.zeros(2, 1, 2, 3).masked_fill(~expected, low)
        assert torch.equal(from_hf(additive).dense(2, 3), expected)
    half = torch.zeros(2, 1, 2, 3, dtype=torch.float16).masked_fill(~expected, torch.finfo(torch.float16).min)
    assert torch.equal(from_hf(half).dense(2, 3), expected)
    assert torch.equal(from_hf(expected).dense(2, 3), expected)
    assert torch.equal(from_hf(expected.long()).dense(2, 3), expected)
    assert from_hf(None) == everything() == from_sdpa(None)


def test_from_hf_agrees_with_the_masks_that_transformers_builds() -> None:
    transformers = pytest.importorskip("transformers", reason="pip install -c constraints.txt transformers")
    from transformers.masking_utils import create_causal_mask

    keep = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    for kind, wanted in (("eager", torch.float32), ("sdpa", torch.bool)):
        config = transformers.LlamaConfig(
            hidden_size=8, num_attention_heads=1, num_hidden_layers=1, intermediate_size=8, attn_implementation=kind
        )
        built = create_causal_mask(config=config, inputs_embeds=torch.zeros(2, 4, 8), attention_mask=keep, past_key_values=None)
        assert built.dtype == wanted
        ours = (causal() & from_hf(keep)).dense(4, 4)
        theirs = from_hf(built).dense(4, 4)
        real = keep.bool()[:, None, :, None]  # what padded queries see is nobody's business
        assert torch.equal(theirs & real, ours & real)


# Errors say what was given, what was expected and what to do


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: window(-1, 0), r"window left is -1; pass a number of positions ≥ 0, or None"),
        (lambda: window(0, -2), r"window right is -2"),
        (lambda: window(1.5, 0), r"window left is 1.5; pass a whole number"),
        (lambda: window(True, 0), r"window left is True"),
        (lambda: causal(align="middle"), r"align is 'middle'; pass 'end'.* or 'start'"),
        (lambda: prefix(-1), r"prefix must be at least 0, but the smallest is -1"),
        (lambda: prefix(1.5), r"prefix must be whole numbers, but got torch.float"),
        (lambda: padding([-1]), r"padding lengths must be at least 0, but the smallest is -1"),
        (lambda: padding(torch.tensor([0.5])), r"padding lengths must be whole numbers, but got torch.float32"),
        (lambda: padding([[1, 1]]), r"padding lengths must be \(B,\), but got shape \(1, 2\); .* from_hf"),
        (lambda: padding(torch.tensor([True])), r"\(B, S\), but got shape \(1,\); add the missing axis"),
        (lambda: padding([1], side="top"), r"side is 'top'; pass 'right' or 'left'"),
        (lambda: documents(torch.zeros(1, 1, 1, dtype=torch.long)), r"document ids must be 1-D or 2-D"),
        (lambda: documents(torch.zeros(2, 1).long(), torch.zeros(3, 1).long()), r"ids for 2 sequences but key_ids for 3"),
        (lambda: global_tokens([-1]), r"global_tokens got position -1; positions count from 0"),
        (lambda: global_tokens([[-2]]), r"at least -1, but the smallest is -2"),
        (lambda: dense(torch.ones(2, 2)), r"must be bool with True = may look, but got torch.float32; .* from_sdpa"),
        (lambda: dense(torch.ones(2, dtype=torch.bool)), r"but got shape \(2,\)"),
        (lambda: block_sparse(torch.ones(2, 2, dtype=torch.bool), 0), r"block is 0; pass the side of a block"),
        (lambda: block_sparse(torch.ones(2, dtype=torch.bool), 1), r"must be \(block rows, block columns\).* but got \(2,\)"),
        (lambda: from_spans(torch.zeros(2, 1, 3).long()), r"must end in an axis of 2.* got shape \(2, 1, 3\)"),
        (lambda: from_spans(torch.zeros(2, 2).long()), r"spans must be 3-D or 5-D"),
        (lambda: from_spans(torch.tensor([[[-1, 2]]])), r"spans must be at least 0"),
        (lambda: per_head([]), r"one mask per head, at least one"),
        (lambda: per_head([per_head([causal(), causal()])]), r"masks of one head, but number 0.* has 2"),
        (lambda: padding([1, 2]) & padding([1, 2, 3]), r"different numbers of sequences .*\(2 sequences\) and .*\(3 sequences\)"),
        (lambda: from_sdpa(torch.ones(2, 2).long()), r"bool or floating point, but got torch.int64"),
        (lambda: from_sdpa([[True]]), r"must be a tensor, but got list"),
        (lambda: from_sdpa(torch.full((1, 1), 0.5)), r"adds numbers such as 0.5 .* from_additive"),
        (lambda: from_sdpa(torch.full((1, 1), math.nan)), r"adds numbers such as nan"),
        (lambda: from_additive(torch.ones(1, 1, dtype=torch.bool)), r"must be floating point, but got torch.bool"),
        (lambda: from_torch_mha(torch.ones(6, 2, 2, dtype=torch.bool)), r"B·h = 6, but num_heads is None; pass the layer's num_heads"),
        (lambda: from_torch_mha(torch.ones(6, 2, 2, dtype=torch.bool), num_heads=4), r"B·h = 6, but num_heads is 4"),
        (lambda: from_torch_mha(torch.ones(2, dtype=torch.bool)), r"attn_mask must be \(L, S\) or"),
        (lambda: from_torch_mha(key_padding_mask=torch.ones(1, 1, 1, dtype=torch.bool)), r"key_padding_mask must be \(B, S\)"),
        (lambda: from_torch_mha(torch.ones(2, 2).long()), r"True = may not look.* got torch.int64"),
        (lambda: from_hf(torch.tensor([[1, 2]])), r"other than 0 and 1; .* documents"),
        (lambda: from_hf(torch.ones(2)), r"\(B, S\) or \(B, heads, L, S\), but got shape \(2,\)"),
        (lambda: from_hf(torch.full((1, 1, 1, 1), -3.0)), r"adds numbers such as -3 "),
    ],
)
def test_bad_input_is_explained(build: Callable[[], Mask], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build()


@pytest.mark.parametrize(
    ("mask", "size", "said"),
    [
        (padding([1, 2]), (3, 1, 4, 4), r"made for 2 sequences but the inputs have a batch of 3; build it for 3, or for 1"),
        (per_head([causal(), causal()]), (1, 3, 4, 4), r"has 2 masks but the inputs have 3 heads"),
        (per_head([causal()]), (1, 3, 4, 4), r"has 1 masks but the inputs have 3 heads"),
        (~per_head([causal()]), (1, 3, 4, 4), r"has 1 masks but the inputs have 3 heads"),
        (dense(torch.ones(1, 2, 4, 4, dtype=torch.bool)), (1, 3, 4, 4), r"made for 2 heads but the inputs have 3"),
        (dense(torch.ones(3, 4, dtype=torch.bool)), (1, 1, 4, 4), r"is 3 queries × 4 keys but the inputs are 4 × 4; slice or rebuild"),
        (padding([5]), (1, 1, 4, 4), r"length of 5 but there are only 4 keys"),
        (padding(torch.ones(1, 3, dtype=torch.bool)), (1, 1, 4, 4), r"covers 3 keys but there are 4"),
        (documents([0, 1, 2]), (1, 1, 2, 4), r"numbers 3 keys but there are 4"),
        (documents([0, 1, 2, 3]), (1, 1, 5, 4), r"numbers 4 positions but there are 5 queries; pass key_ids"),
        (documents([0, 1, 2], [0, 1]), (1, 1, 2, 2), r"numbers 3 queries but there are 2"),
        (global_tokens([4]), (1, 1, 4, 4), r"names position 4 but there are only 4 keys"),
        (
            block_sparse(torch.ones(2, 2, dtype=torch.bool), 2),
            (1, 1, 5, 4),
            r"has 2 × 2 blocks but 5 queries × 4 keys in blocks of 2 need 3 × 2",
        ),
        (from_spans(torch.tensor([[[0, 5]]])), (1, 1, 1, 4), r"reaches key 4 but there are only 4 keys"),
        (from_spans(torch.tensor([[[0, 5]]])), (1, 1, 2, 5), r"describes 1 queries but there are 2"),
        (causal() & (dense(torch.ones(3, 4, dtype=torch.bool)) | prefix(1)), (1, 1, 4, 4), r"is 3 queries × 4 keys"),
    ],
    ids=repr,
)
def test_a_mask_that_does_not_fit_says_so(mask: Mask, size: tuple[int, int, int, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mask.check(*size)
    if mask.lead in ((1, 1), (1, 3)) and "masks" not in said:  # what is wrong is the length: nobody gets an answer for it
        L, S = size[2:]
        for ask in (lambda: mask.spans(L, S), lambda: mask.dense(L, S), lambda: mask.draw(L, S)):
            with pytest.raises(ValueError, match=said):
                ask()


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
