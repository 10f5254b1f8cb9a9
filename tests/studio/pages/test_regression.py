"""Regression: the page's fit, weights and errors are the estimator's."""

from typing import Any

import numpy as np
import pytest

from regard.models.kernel_regression import NadarayaWatson, textbook_data

KERNELS = ["gaussian", "box", "epanechnikov", "triangular"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_fit_is_the_estimator_s(studio: Any, kernel: str) -> None:
    data = studio.post("/api/regression/fit", json={"width": 2.5, "kernel": kernel}).json()
    X, y = textbook_data()
    model = NadarayaWatson(width=2.5, kernel=kernel).fit(X, y)  # type: ignore[arg-type]
    assert data["x"] == pytest.approx(X[:, 0], rel=1e-6)
    assert data["curve"] == pytest.approx(model.predict(np.array(data["grid"])[:, None]), rel=1e-5, abs=1e-6)
    assert data["weights"][7] == pytest.approx(model.weights([[data["rows"][7]]])[0], rel=1e-4, abs=1e-6)
    assert np.sum(data["weights"], axis=1) == pytest.approx(np.ones(len(data["rows"])), abs=1e-5)
    assert data["average"] == pytest.approx(y.mean())


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_learned_width_has_the_least_error_of_the_profile(studio: Any, kernel: str) -> None:
    data = studio.post("/api/regression/learn", json={"kernel": kernel}).json()
    X, y = textbook_data()
    own = NadarayaWatson(width=data["width"], kernel=kernel).fit(X, y).leave_one_out_error()  # type: ignore[arg-type]
    assert own == pytest.approx(data["error"], rel=1e-6)
    assert data["error"] <= min(data["errors"]) + 1e-9


def test_the_error_of_average_pooling_is_that_of_the_mean_of_the_others(studio: Any) -> None:
    data = studio.post("/api/regression/fit", json={"x": [1, 2, 3], "y": [10, 20, 60]}).json()
    assert data["average"] == pytest.approx(30)
    assert data["average_error"] == pytest.approx(((40 - 10) ** 2 + (35 - 20) ** 2 + (15 - 60) ** 2) / 3)


def test_points_of_one_s_own_are_sorted_and_fitted(studio: Any) -> None:
    data = studio.post("/api/regression/fit", json={"x": [3, 1, 2], "y": [30, 10, 20], "width": 50}).json()
    assert data["x"] == [1, 2, 3]
    assert data["y"] == [10, 20, 30]
    assert data["truth"] is None
    assert data["curve"][0] == pytest.approx(10)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({"x": [1, 2], "y": [1]}, "at least 2"),
        ({"x": [1, 2, 3], "y": [1, 2]}, "as many x as y"),
        ({"x": [1, 2]}, "as many x as y"),
        ({"x": [0] * 2001, "y": [0] * 2001}, "2000"),
        ({"width": -1}, "width"),
        ({"kernel": "cubic"}, "kernel"),
    ],
)
def test_bad_points_are_errors(studio: Any, points: dict[str, Any], message: str) -> None:
    answer = studio.post("/api/regression/fit", json=points)
    assert answer.status_code == 422
    assert message in answer.json()["message"]


def test_points_in_one_place_have_no_width(studio: Any) -> None:
    answer = studio.post("/api/regression/learn", json={"x": [1, 1, 1], "y": [1, 2, 3]})
    assert answer.status_code == 422
    assert "different x" in answer.json()["message"]
    assert studio.post("/api/regression/fit", json={"x": [1, 1, 1], "y": [1, 2, 3]}).json()["curve"][0] == pytest.approx(2)


def test_a_larger_w_narrows_the_kernel(studio: Any) -> None:
    narrow, wide = (np.array(studio.post("/api/regression/fit", json={"width": w}).json()["weights"]) for w in (5.0, 0.5))
    assert (narrow.max(axis=1) > wide.max(axis=1)).all()
