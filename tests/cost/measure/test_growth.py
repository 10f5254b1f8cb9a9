"""The formulas, the fit, and one small measurement."""

import pytest

from regard.cost.measure.growth import _memory_curves, exponent, fit, formulas, measure, time_curve
from regard.cost.measure.peak import measurable


def test_the_laws_with_numbers_put_in() -> None:
    law = formulas(4096, 8, 64)
    assert str(law["projections"]) == "8 · N · d_model · d_model = 8 · 4,096 · 512 · 512 = 8,589,934,592"
    assert str(law["scores and values"]) == "4 · N · N · d_model = 4 · 4,096 · 4,096 · 512 = 34,359,738,368"
    assert law["crossover at N"].value == 1024
    assert law["dense attention, elements stored"].value == 8 * 4096**2
    assert law["streamed attention, elements stored"].value == 4 * 4096 * 512 + 4096 * 8


@pytest.mark.parametrize(("heads", "head_dim"), [(1, 16), (8, 64), (96, 128)])
def test_projections_and_attention_meet_at_twice_the_width(heads: int, head_dim: int) -> None:
    law = formulas(2 * heads * head_dim, heads, head_dim)
    assert law["projections"].value == law["scores and values"].value


def test_a_fit_finds_the_curve_and_never_a_negative_cost() -> None:
    sizes = [100, 200, 400, 800]
    assert fit(sizes, [0.5 + 0.01 * n + 2e-4 * n * n for n in sizes], (0, 1, 2)) == pytest.approx((0.5, 0.01, 2e-4))
    falling = fit(sizes, [4.0, 3.0, 2.0, 1.5], (0, 1, 2))
    assert min(falling) >= 0


def test_the_last_point_is_predicted_not_fitted() -> None:
    sizes = [100, 200, 400, 800]
    curve = time_curve("x", "O(N²)", sizes, [n * n * 1e-6 for n in sizes[:-1]] + [1.0], 2)
    assert [point.held_out for point in curve.points] == [False, False, False, True]
    assert curve.points[-1].predicted == pytest.approx(0.64)
    assert curve.points[-1].ratio == pytest.approx(0.64)
    assert exponent(sizes, [3 * n**1.5 for n in sizes]) == pytest.approx(1.5)


def test_memory_that_takes_too_long_is_left_out() -> None:
    assert _memory_curves((16, 32, 64), 1, 8, timeout=1e-3) == ()


def test_a_real_measurement() -> None:
    growth = measure(sizes=(512, 1024, 2048), heads=2, head_dim=16, budget=1.0)
    assert [c.name for c in growth.times] == ["projections", "dense attention", "regard.attend"]
    assert all(point.measured > 0 for c in growth.times for point in c.points)
    assert growth.crossing["FLOPs of projections"] == growth.crossing["FLOPs of scores and values"]
    assert growth.crossing["tokens"] == 64
    assert growth.recurrence["times slower"] > 0
    if measurable():
        dense, ours = growth.bytes
        assert dense.exponent > 1.5
        assert dense.points[-1].ratio == pytest.approx(1, abs=0.1)
        assert ours.points[-1].measured > 0
