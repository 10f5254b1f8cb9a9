"""The Regression page: Nadaraya–Watson regression with its weight matrix and leave-one-out error, for any width.

Axes: N points, L queries.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from ...page import Endpoint, Number, Page, RequestBody
from ...request_error import RequestError

MAX_POINTS = 2000
MATRIX_SIZE = 80  # rows and columns of the weight matrix in a response
Kernel = Literal["gaussian", "box", "epanechnikov", "triangular"]
Numbers = Annotated[list[Number], Field(min_length=2, max_length=MAX_POINTS)]


class PointsRequest(RequestBody):
    """Points (x and y, equally many), or the textbook example y = 2 sin x + x^0.8 + noise on [0, 5)."""

    x: Numbers | None = None
    y: Numbers | None = None
    count: Annotated[int, Field(ge=5, le=500)] = 50
    noise: Annotated[float, Field(ge=0, le=5)] = 0.5
    seed: Annotated[int, Field(ge=0, le=10_000)] = 0
    kernel: Kernel = "gaussian"

    @model_validator(mode="after")
    def _check(self) -> PointsRequest:
        if (self.x is None) != (self.y is None) or (self.x is not None and self.y is not None and len(self.x) != len(self.y)):
            raise ValueError("give as many x as y, or neither of them")
        return self

    def arrays(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """x (N,) in rising order, and y (N,)."""
        from ....models.kernel_regression import textbook_data

        if self.x is None or self.y is None:
            X, y = textbook_data(self.count, noise=self.noise, seed=self.seed)
            return X[:, 0], y
        order = np.argsort(self.x, kind="stable")
        return np.asarray(self.x, dtype=np.float64)[order], np.asarray(self.y, dtype=np.float64)[order]


class FitRequest(PointsRequest):
    """Points and the width w = 1/bandwidth."""

    width: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 1.0


def fit(request: FitRequest) -> dict[str, Any]:
    """The fitted curve over the range of the data, a part of the weight matrix, and the leave-one-out error."""
    from ....models.kernel_regression import NadarayaWatson

    x, y = request.arrays()
    model = NadarayaWatson(width=request.width, kernel=request.kernel).fit(x[:, None], y)
    grid = _grid(x)
    curve = model.predict(grid[:, None])
    rows, columns = grid[_evenly(len(grid), MATRIX_SIZE)], _evenly(len(x), MATRIX_SIZE)
    weights = model.weights(rows[:, None])
    average = NadarayaWatson(width=0.0).fit(x[:, None], y)  # all weights are equal
    return {
        "x": _floats(x), "y": _floats(y), "grid": _floats(grid), "curve": _floats(curve), "average": float(average.predict([[0.0]])[0]),
        "rows": _floats(rows), "columns": [int(i) for i in columns], "weights": [_floats(row[columns]) for row in weights],
        "error": model.leave_one_out_error(), "average_error": average.leave_one_out_error(),
        "truth": None if request.x is not None else _floats(2 * np.sin(grid) + grid**0.8),
    }  # fmt: skip


def learn(request: PointsRequest) -> dict[str, Any]:
    """The width with the least leave-one-out error, its curve, and the error over a range of widths."""
    from ....models.kernel_regression import NadarayaWatson

    x, y = request.arrays()
    if float(np.ptp(x)) == 0:
        raise RequestError("invalid", "all x are equal; give points with different x to learn a width")
    learned = NadarayaWatson(width="learn", kernel=request.kernel, max_queries=MAX_POINTS).fit(x[:, None], y)
    grid, spread = _grid(x), float(np.std(x))
    widths = np.geomspace(0.1, 40 * len(x) / 50 if len(x) > 50 else 40, 33 if len(x) <= 500 else 13) / spread
    sample = _evenly(len(x), 500)  # 500 points are enough for the drawn error curve
    errors = [NadarayaWatson(width=float(w), kernel=request.kernel).fit(x[sample, None], y[sample]).leave_one_out_error() for w in widths]
    return {
        "width": float(learned.width_), "error": float(learned.loo_error_), "curve": _floats(learned.predict(grid[:, None])),
        "grid": _floats(grid), "widths": _floats(widths), "errors": errors,
    }  # fmt: skip


def _grid(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    low, high = float(x.min()), float(x.max())
    return np.linspace(low, high if high > low else low + 1.0, 161)


def _evenly(count: int, most: int) -> np.ndarray[Any, Any]:
    """At most `most` evenly spaced indices."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _floats(values: np.ndarray[Any, Any]) -> list[float]:
    return [float(f"{v:.7g}") for v in values]


def initial_results() -> dict[str, Any]:
    """The textbook example with the page's default settings."""
    return {"fit": fit(FitRequest()), "learn": learn(PointsRequest())}


PAGE = Page(
    name="regression",
    order=7,
    endpoints=(
        Endpoint("/fit", fit, "Fit with a given width", FitRequest),
        Endpoint("/learn", learn, "Learn the width from the data", PointsRequest),
    ),
    initial_results=initial_results,
)
