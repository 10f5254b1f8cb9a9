"""Literal mask patterns, random mask expressions with the rule they stand for, and a check of one against the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

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

nothing = ~everything()


def rows(text: str) -> list[list[bool]]:
    """A literal pattern: '#' visible, '.' hidden, '/' ends a row."""
    return [[c == "#" for c in row] for row in text.split("/")]


Rule = Callable[[int, int, int, int], bool]  # (batch, head, row, column) → visible


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
    kind = draw(
        st.sampled_from(
            ["keep", "documents", "flat documents", "cross", "dense", "dense 2-D", "dense 3-D", "one row", "one column", "blocks", "spans"]
        )
    )
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
        cube = bools(draw, h, L, S)
        return dense(cube), lambda b, k, i, j: bool(cube[k, i, j])
    if kind == "one row":
        row = bools(draw, B, 1, 1, S)
        return dense(row), lambda b, k, i, j: bool(row[b, 0, 0, j])
    if kind == "one column":
        column = bools(draw, L, 1)
        return dense(column), lambda b, k, i, j: bool(column[i, 0])
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


def pattern_of(rule: Rule, B: int, h: int, L: int, S: int) -> Tensor:
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
                result = mask.tile(a, b, L, S)
                assert mask.verdict(a, b, L, S) == (result if isinstance(result, str) else None)
                if isinstance(result, str):
                    assert result in ("all", "none")
                    assert bool(part.all()) if result == "all" else not part.any()
                else:
                    assert result.dtype == torch.bool
                    assert torch.equal(result.expand(part.shape), part)


def check_literal(mask: Mask, L: int, S: int, pattern: str) -> None:
    """dense and spans are the literal pattern."""
    assert mask.dense(L, S)[0, 0].tolist() == rows(pattern)
    spans = mask.spans(L, S)
    assert spans is not None
    assert expand(spans, S)[0, 0].tolist() == rows(pattern)


def check_tile_verdicts(mask: Mask, verdicts: str, mixed: Sequence[tuple[int, int]] = ()) -> None:
    """The 5 × 5 tiles of the 50 × 50 pattern are "all" or "none" as the literal says, also inside &, | and ~; `mixed` ones are left out."""
    tiles = [range(k, k + 10) for k in range(0, 50, 10)]
    expected = [["all" if visible else "none" for visible in row] for row in rows(verdicts)]
    for i, a in enumerate(tiles):
        for j, b in enumerate(tiles):
            if (i, j) in mixed:
                continue
            assert mask.tile(a, b, 50, 50) == expected[i][j], (i, j)
            assert (~mask).tile(a, b, 50, 50) == ("none" if expected[i][j] == "all" else "all")
            assert (mask & ~prefix(10)).tile(a, b, 50, 50) == (expected[i][j] if j else "none")
            assert (mask | prefix(10)).tile(a, b, 50, 50) == (expected[i][j] if j else "all")


def check_misfit(mask: Mask, size: tuple[int, int, int, int], message: str) -> None:
    """`check` raises the message for inputs (B, h, L, S); where the length is at fault, spans, dense and draw raise it too."""
    with pytest.raises(ValueError, match=message):
        mask.check(*size)
    if mask.lead in ((1, 1), (1, 3)) and "masks" not in message:
        L, S = size[2:]
        for compute in (lambda: mask.spans(L, S), lambda: mask.dense(L, S), lambda: mask.draw(L, S)):
            with pytest.raises(ValueError, match=message):
                compute()
