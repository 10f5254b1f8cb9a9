import pytest

from regard.training.loop.schedules import rate_at


def test_warm_up_is_a_line_to_the_peak():
    assert [rate_at(s, peak=2.0, warmup=4, schedule="constant") for s in (1, 2, 3, 4, 5)] == [0.5, 1.0, 1.5, 2.0, 2.0]


def test_inverse_square_root_halves_when_the_step_quadruples():
    assert rate_at(400, peak=1.0, warmup=100, schedule="inverse-sqrt") == pytest.approx(0.5)


def test_cosine_ends_at_the_floor():
    assert rate_at(100, peak=1.0, warmup=10, schedule="cosine", total=100, floor=0.1) == pytest.approx(0.1)
    assert rate_at(55, peak=1.0, warmup=10, schedule="cosine", total=100, floor=0.1) == pytest.approx(0.55)
    rates = [rate_at(s, peak=1.0, warmup=10, schedule="cosine", total=100) for s in range(10, 101)]
    assert rates == sorted(rates, reverse=True)
