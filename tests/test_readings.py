"""Every reading, tile by tile, against the same number taken from the dense weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import regard
from regard.kernels import tiles

L, S, B, H = 37, 53, 2, 3


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 16 × 16, so that every reading has to put several together."""
    monkeypatch.setattr(tiles.Tiles.__init__, "__defaults__", (B * H * 256,))


def problem(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, regard.Mask]:
    g = torch.Generator().manual_seed(0)
    q = torch.randn(B, H, L, 8, generator=g, dtype=torch.float64).to(dtype) * 2
    k = torch.randn(B, H, S, 8, generator=g, dtype=torch.float64).to(dtype)
    v = torch.randn(B, H, S, 5, generator=g, dtype=torch.float64).to(dtype)
    return q, k, v, regard.causal() & regard.padding([S, 40]) | regard.global_tokens([3])


def weights(choice: regard.Choice | None = None) -> tuple[Tensor, Tensor]:
    q, k, _, mask = problem()
    z = (q @ k.mT / math.sqrt(8)).masked_fill(~mask.dense(L, S), -math.inf)
    return (choice or regard.Softmax()).dense(z), z


def read(
    *readings: regard.Reading, kernel: str = "streamed", choice: regard.Choice | None = None, dtype: torch.dtype = torch.float64
) -> dict:
    q, k, v, mask = problem(dtype)
    return regard.observe(q, k, v, mask=mask, choice=choice or regard.Softmax(), readings=readings, kernel=kernel).readings


CHOICES = [regard.Softmax(), regard.Sparsemax(), regard.Entmax15(), regard.Argmax()]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda c: type(c).__name__)
def test_entropy_received_and_largest_logit(choice: regard.Choice) -> None:
    p, z = weights(choice)
    got = read(regard.Entropy(), regard.Received(), regard.MaxLogit(), choice=choice)
    torch.testing.assert_close(got["entropy"], -torch.special.xlogy(p, p).sum(-1))
    torch.testing.assert_close(got["received"], p.sum(-2))
    torch.testing.assert_close(got["max_logit"], z.amax(-1))


def test_top() -> None:
    p, _ = weights()
    got = read(regard.TopK(4))["top"]
    want, _ = p.topk(4, -1)
    torch.testing.assert_close(got.weights, want)
    torch.testing.assert_close(p.gather(-1, got.keys), want)
    with pytest.raises(ValueError, match="at least one key"):
        regard.TopK(0)


def test_top_of_a_row_that_sees_fewer() -> None:
    q = torch.randn(1, 1, 2, 4)
    top = regard.observe(q, q, q, mask=regard.causal(), readings=[regard.TopK(3)]).readings["top"]
    assert top.keys[0, 0, 0].tolist() == [0, -1, -1]
    assert top.weights[0, 0, 0].tolist() == pytest.approx([1, 0, 0], abs=1e-6)


def test_distance() -> None:
    p, _ = weights()
    got = read(regard.Distance())["distance"]
    offset = torch.arange(S) - (torch.arange(L) + S - L)[:, None]
    seen = (p.sum(-1) > 0).sum(-1)
    for number, (first, last) in enumerate(got.offsets):
        inside = (offset >= first) & (offset <= last)
        torch.testing.assert_close(got.mass[..., number], (p * inside).sum((-1, -2)) / seen)
    assert [edge for edge in got.offsets if -9 < edge[0] < 9] == [
        (-8, -5),
        (-4, -3),
        (-2, -2),
        (-1, -1),
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 4),
        (5, 8),
    ]
    torch.testing.assert_close(got.mass.sum(-1), torch.ones(B, H, dtype=torch.float64))


def test_at_same_and_sink() -> None:
    p, _ = weights()
    g = torch.Generator().manual_seed(1)
    keys = torch.randint(-1, S, (B, L), generator=g)
    ids = torch.randint(0, 4, (B, S), generator=g)
    got = read(regard.At(keys), regard.Same(ids), regard.Sink(5))
    want = torch.where(keys[:, None] >= 0, p.gather(-1, keys.clamp(min=0)[:, None, :, None].expand(B, H, L, 1)).squeeze(-1), 0.0)
    torch.testing.assert_close(got["at"], want)
    same = ids[:, S - L :, None] == ids[:, None, :]
    own = torch.arange(S) == (torch.arange(L) + S - L)[:, None]
    torch.testing.assert_close(got["same"], (p * (same & ~own)[:, None]).sum(-1))
    torch.testing.assert_close(read(regard.Same(ids, itself=True))["same"], (p * same[:, None]).sum(-1))
    torch.testing.assert_close(got["sink"], p[..., :5].sum(-1))


def test_induction_is_same_with_keys_moved_by_one() -> None:
    p, _ = weights()
    ids = torch.arange(S) % 7
    before = torch.cat([torch.tensor([-1]), ids[:-1]])
    got = read(regard.Same(ids, before, name="induction"))["induction"]
    want = ids[S - L :, None] == before[None, :]
    own = torch.arange(S) == (torch.arange(L) + S - L)[:, None]
    torch.testing.assert_close(got, (p * (want & ~own)).sum(-1))


@pytest.mark.parametrize("shape", [(4, 7), (37, 53), (100, 100), (1, 1)])
def test_pooled(shape: tuple[int, int]) -> None:
    p, _ = weights()
    got = read(regard.Pooled(*shape))["pooled"]
    R, C = min(shape[0], L), min(shape[1], S)
    down, across = torch.arange(L) * R // L, torch.arange(S) * C // S
    want = torch.zeros(B, H, R, C, dtype=torch.float64)
    for r in range(R):
        for c in range(C):
            want[:, :, r, c] = p[:, :, down == r][..., across == c].sum((-1, -2)) / (down == r).sum()
    torch.testing.assert_close(got, want)


def test_rows_and_value_norm() -> None:
    p, _ = weights()
    v = problem()[2]
    got = read(regard.Rows([5, 0, -1]), regard.ValueNorm())
    torch.testing.assert_close(got["rows"], p[:, :, [5, 0, -1]])
    norms = p * v.norm(dim=-1).unsqueeze(-2)
    torch.testing.assert_close(got["value_norm"].by_query, norms.sum(-1))
    torch.testing.assert_close(got["value_norm"].by_key, norms.sum(-2))
    with pytest.raises(ValueError, match="only 37"):
        read(regard.Rows([37]))


def everything() -> list[regard.Reading]:
    ids = torch.arange(S) % 5
    keys = (torch.arange(L) + S - L - 1).clamp(min=0)
    plain = [regard.Entropy(), regard.Received(), regard.TopK(3), regard.Distance(), regard.Pooled(5, 6), regard.Rows([0, 9])]
    return [*plain, regard.At(keys), regard.Same(ids), regard.MaxLogit(), regard.Sink(2), regard.ValueNorm()]


def flat(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [x for x in value if isinstance(x, Tensor)] if isinstance(value, tuple) else []


@pytest.mark.parametrize("kernel", ["streamed", "reference", "auto"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_together_in_every_kernel(kernel: str, dtype: torch.dtype) -> None:
    want = read(*everything(), kernel="reference")
    got = read(*everything(), kernel=kernel, dtype=dtype)
    assert sorted(want) == sorted(got)
    for name in want:
        for mine, true in zip(flat(got[name]), flat(want[name]), strict=True):
            torch.testing.assert_close(mine.to(true.dtype), true, rtol=1e-4, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")


def test_readings_are_taken_before_dropout_and_carry_no_gradient() -> None:
    q, k, v, mask = problem()
    q.requires_grad_()
    seen = regard.observe(q, k, v, mask=mask, dropout=0.5, readings=[regard.Received()])
    torch.testing.assert_close(seen.readings["received"], weights()[0].sum(-2))
    assert not seen.readings["received"].requires_grad
    assert seen.output.requires_grad


@pytest.mark.parametrize("reading", everything(), ids=lambda r: r.name)
def test_merge_of_two_halves_is_the_whole(reading: regard.Reading) -> None:
    """What two machines saw of different columns, joined, is what one would have seen."""
    from regard.readings import Shape

    p, z = weights()
    v = problem()[2]
    shape = Shape(B, H, L, S, p.device, p.dtype, v.norm(dim=-1))
    states = []
    for cols in (range(20), range(20, S)):
        state = reading.start(shape)
        reading.add(state, p[..., cols.start : cols.stop], z[..., cols.start : cols.stop], range(L), cols)
        states.append(state)
    merged = reading.finish(reading.merge(*states))
    for got, want in zip(flat(merged), flat(read(reading)[reading.name]), strict=True):
        torch.testing.assert_close(got, want)
