"""Scores, masks, choices, readings and kernels as a user writes them (CONTRIBUTING.md), against dense formulas of their own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.choices import Choice, Row, logsumexp
from regard.kernels import KERNELS, Request, Result
from regard.kernels.reference import Reference
from regard.kernels.tiles import Tiles
from regard.masks import Mask, from_spans, ranges
from regard.readings import Reading, Shape


def inputs(L: int = 60, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    g = torch.Generator().manual_seed(L)
    return [torch.randn(2, 3, L, 8, generator=g, dtype=dtype).requires_grad_() for _ in range(3)]


def same_with_gradients(got: Tensor, want: Tensor, tensors: list[Tensor], tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    gradients = [torch.autograd.grad(y.sin().sum(), tensors) for y in (got, want)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


class Manhattan(regard.Score):
    """−w · Σ |q − k|."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def tile(self, query: Tensor, key: Tensor) -> Tensor:
        return -self.w.to(query.dtype) * torch.cdist(query, key, p=1)


@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_a_score_with_tile_alone(kernel: str) -> None:
    q, k, v = inputs()
    score = Manhattan()
    want = (-score.w * (q.unsqueeze(-2) - k.unsqueeze(-3)).abs().sum(-1)).softmax(-1) @ v
    same_with_gradients(regard.attend(q, k, v, score=score, kernel=kernel), want, [q, k, v, score.w])
    layer = regard.MultiHeadAttention(16, 4, score=Manhattan())
    layer(torch.randn(2, 5, 16)).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


class EveryNth(Mask):
    """Keys whose distance to the query is a multiple of n."""

    def __init__(self, n: int) -> None:
        self.n = n

    def fill(self, r0: int, r1: int, c0: int, c1: int, L: int, S: int, device: torch.device | None) -> Tensor:
        rows, cols = torch.arange(r0, r1, device=device) + S - L, torch.arange(c0, c1, device=device)
        return ((rows[:, None] - cols) % self.n == 0)[None, None]


class EveryNthByRanges(EveryNth):
    def key_ranges(self, L: int, S: int, device: torch.device | None) -> Tensor | None:
        return ranges.runs(self.fill(0, L, 0, S, L, S, device))


@pytest.mark.parametrize(("kind", "kernel"), [(EveryNth, "streamed"), (EveryNthByRanges, "native")])
def test_a_mask_with_fill_alone_and_with_ranges(kind: type[EveryNth], kernel: str) -> None:
    q, k, v = inputs(dtype=torch.float32)
    at = torch.arange(60)
    nth, before = (at[:, None] - at) % 3 == 0, at[:, None] >= at
    mask = kind(3)
    cases = [(mask, nth), (mask & regard.causal(), nth & before), (mask | regard.causal(), nth | before), (~mask, ~nth)]
    for combined, pattern in cases:
        want = (q @ k.mT / math.sqrt(8)).masked_fill(~pattern, -math.inf).softmax(-1) @ v
        same_with_gradients(regard.attend(q, k, v, mask=combined), want, [q, k, v], 1e-4)
        assert regard.explain(q, k, v, mask=combined).kernel == kernel
        part = combined.part(range(20, 50), range(10, 57), 60, 60)
        assert torch.equal(part.dense(30, 47)[0, 0], pattern[20:50, 10:57])
        if (spans := part.spans(30, 47)) is not None:
            assert torch.equal(from_spans(spans).dense(30, 47)[0, 0], pattern[20:50, 10:57])


def test_a_mask_that_only_python_knows_says_so_and_must_be_boolean() -> None:
    q, k, v = inputs(dtype=torch.float32)
    assert "has no key ranges (none defined, or over 64 per row)" in regard.explain(q, k, v, mask=EveryNth(3)).rejected["native"]

    class Numbers(EveryNth):
        def fill(self, *place: Any) -> Tensor:
            return super().fill(*place).float()

    with pytest.raises(TypeError, match=r"Numbers.fill returned torch.float32; expected torch.bool"):
        regard.attend(q, k, v, mask=Numbers(3))


@dataclass(frozen=True, eq=False)
class TopRow(Row):
    kth: Tensor  # the smallest score that counts


class TopKSoftmax(Choice):
    """Softmax over the k largest scores."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def dense(self, z: Tensor) -> Tensor:
        kth = z.topk(min(self.k, z.shape[-1]), -1).values[..., -1:]
        z = z.masked_fill(z < kth, -math.inf)
        return (z - logsumexp(z).nan_to_num(neginf=0.0).unsqueeze(-1)).exp()

    def fit(self, tiles: Callable[[], Iterable[Tensor]]) -> TopRow:
        best = torch.empty(0)
        for z in tiles():
            best = torch.cat([best, z], -1) if best.numel() else z
            best = best.topk(min(self.k, best.shape[-1]), -1).values
        kth = best[..., -1]
        lse = torch.full_like(kth, -math.inf)
        for z in tiles():  # once more: of equal scores all count, as in `dense`
            lse = torch.logaddexp(lse, logsumexp(z.masked_fill(z < kth.unsqueeze(-1), -math.inf)))
        return TopRow(lse.nan_to_num(neginf=0.0), (lse > -math.inf).to(lse.dtype), kth)

    def weights(self, z: Tensor, row: Row) -> Tensor:
        assert isinstance(row, TopRow)
        return (z - row.threshold.unsqueeze(-1)).exp() * (z >= row.kth.unsqueeze(-1))

    def slope(self, p: Tensor) -> Tensor:
        return p


@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_a_choice_of_the_k_largest(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tiles.__init__, "__defaults__", (3000,))  # many tiles a row
    q, k, v = inputs()
    hidden = torch.ones(60, 60, dtype=torch.bool).triu(1)
    z = (q @ k.mT / math.sqrt(8)).masked_fill(hidden, -math.inf)
    keep = torch.zeros_like(z, dtype=torch.bool).scatter(-1, z.topk(5, -1).indices, True)
    want = z.masked_fill(~keep, -math.inf).softmax(-1) @ v
    same_with_gradients(regard.attend(q, k, v, choice=TopKSoftmax(5), mask=regard.causal(), kernel=kernel), want, [q, k, v])


def test_equal_scores_count_alike_in_every_kernel() -> None:
    q, k, v = inputs()
    outputs = [regard.attend(q * 0, k, v, choice=TopKSoftmax(5), kernel=kernel) for kernel in ("streamed", "reference")]
    for output in outputs:
        torch.testing.assert_close(output, v.mean(-2, keepdim=True).expand_as(output))


def test_what_kernels_would_not_call_is_refused() -> None:
    q, k, v = inputs()
    with pytest.raises(TypeError, match=r"Sharper overrides Softmax.dense, which kernels do not call; subclass regard.Choice"):

        class Sharper(regard.Softmax):
            def dense(self, z: Tensor) -> Tensor:
                return z.square()

    class SecondBest(Choice):
        hard = True

    with pytest.raises(TypeError, match="SecondBest is a hard choice"):
        regard.attend(q, k, v, choice=SecondBest())

    class Learned(regard.Softmax):  # another way to make one is no other computation
        def __init__(self) -> None:
            super().__init__(temperature=nn.Parameter(torch.ones((), dtype=torch.float64)))

    torch.testing.assert_close(regard.attend(q, k, v, choice=Learned()), regard.attend(q, k, v))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": regard.Score()}, r"Score does not define tile\(query, key\)"),
        ({"choice": Choice()}, r"Choice does not define fit\(tiles\)"),
        ({"choice": Choice(), "kernel": "reference"}, r"Choice does not define dense\(z\)"),
    ],
)
def test_what_is_missing_is_named(options: dict[str, Any], message: str) -> None:
    q, k, v = inputs()
    with pytest.raises(NotImplementedError, match=message):
        regard.attend(q, k, v, **options)


class Cosine(regard.Score):
    """A score with only `lower`, with every field of what that returns."""

    def lower(self, query: Tensor, key: Tensor) -> regard.Lowered:
        q, k = nn.functional.normalize(query, dim=-1), nn.functional.normalize(key, dim=-1)
        return regard.Lowered(q, k, scale=3.0, key_bias=key.sum(-1), row_shift=query.sum(-1), cap=2.0)


def test_a_score_with_only_lower_computes_its_matrix() -> None:
    q, k, v = inputs()
    cosine = nn.functional.cosine_similarity(q.unsqueeze(-2), k.unsqueeze(-3), dim=-1)
    expected = 2 * torch.tanh((3 * cosine + k.sum(-1).unsqueeze(-2)) / 2) + q.sum(-1).unsqueeze(-1)
    torch.testing.assert_close(Cosine()(q, k), expected)
    torch.testing.assert_close(regard.attend(q, k, v, score=Cosine()), expected.softmax(-1) @ v)


class ValueSpread(Reading):
    """Σ p² ‖v‖ of each row: needs the norms of the values."""

    name = "value_spread"
    needs_value_norms = True

    def start(self, shape: Shape) -> dict[str, Tensor]:
        assert shape.value_norms is not None
        return {"total": shape.zeros(shape.L), "norms": shape.value_norms}

    def add(self, state: dict[str, Tensor], p: Tensor, s: Tensor, rows: range, cols: range) -> None:
        norms = state["norms"][:, :, cols.start : cols.stop]
        state["total"][:, :, rows.start : rows.stop] += (p.square() * norms.unsqueeze(-2)).sum(-1)

    def merge(self, a: dict[str, Tensor], b: dict[str, Tensor]) -> dict[str, Tensor]:
        return {**a, "total": a["total"] + b["total"]}

    def finish(self, state: dict[str, Tensor]) -> Tensor:
        return state["total"]


def test_a_reading_with_start_and_add() -> None:
    q, k, v = inputs(dtype=torch.float32)
    want = ((q @ k.mT / math.sqrt(8)).softmax(-1).square() * v.norm(dim=-1).unsqueeze(-2)).sum(-1)
    for kernel in ("native", "streamed", "reference"):
        got = regard.observe(q, k, v, readings=[regard.Entropy(), ValueSpread()], kernel=kernel).readings["value_spread"]
        torch.testing.assert_close(got, want.detach(), rtol=1e-4, atol=1e-5)
    got = regard.parallel.observe(q, k, v, readings=[ValueSpread()]).readings["value_spread"]
    torch.testing.assert_close(got, want.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("observe", [regard.observe, regard.parallel.observe])
def test_readings_that_cannot_be_returned_are_refused(observe: Any) -> None:
    q, k, v = inputs(5)
    with pytest.raises(ValueError, match=r"two readings have the same name \(top, top\)"):
        observe(q, k, v, readings=[regard.TopK(2), regard.TopK(3)])
    with pytest.raises(TypeError, match="readings are Entropy; expected a list"):
        observe(q, k, v, readings=regard.Entropy())
    with pytest.raises(TypeError, match="readings are str"):
        observe(q, k, v, readings=["entropy"])
    with pytest.raises(TypeError, match="Reading has no name"):
        observe(q, k, v, readings=[Reading()])


def test_a_reading_of_several_ranks_must_merge() -> None:
    class Alone(regard.Entropy):
        name = "alone"
        merge = Reading.merge

    q, k, v = inputs(5)
    with pytest.raises(TypeError, match=r"Alone does not define merge\(a, b\)"):
        regard.parallel.observe(q, k, v, readings=[Alone()])


class Chunked(Reference):
    """The reference, one sequence at a time."""

    name = "chunked"

    def refuses(self, request: Request) -> str | None:
        return "one sequence at a time: plain calls only" if request.readings or request.dropout or request.bias is not None else None

    def run(self, request: Request) -> Result:
        cut = [(request.query[i : i + 1], request.key[i : i + 1], request.value[i : i + 1]) for i in range(request.sizes[0])]
        parts = [super(Chunked, self).run(dataclasses.replace(request, query=q, key=k, value=v)) for q, k, v in cut]
        return Result(torch.cat([part.output for part in parts]))


def test_a_kernel_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KERNELS, "chunked", Chunked())
    q, k, v = inputs()
    want = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    same_with_gradients(regard.attend(q, k, v, mask=regard.causal(), kernel="chunked"), want, [q, k, v])
    assert regard.explain(q, k, v, kernel="chunked").kernel == "chunked"
    with pytest.raises(ValueError, match=r"chunked: one sequence at a time"):
        regard.attend(q, k, v, kernel="chunked", dropout=0.5)
    with pytest.raises(ValueError, match=r"'reference', 'chunked'"):
        regard.attend(q, k, v, kernel="chunk")
