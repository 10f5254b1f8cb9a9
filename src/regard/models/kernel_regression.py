"""Attention pooling as regression: a prediction is a weighted mean of the training targets, near points having larger weights.

    f(z) = Σ_i K((z − x_i) w) / Σ_j K((z − x_j) w) · y_i           (Nadaraya 1964, Watson 1964)

Queries are the new points z, keys the points x_i, values the targets y_i. With the Gaussian kernel the weights are
softmax(−½ ‖(z − x_i) w‖²): attention with `regard.Gaussian`. The width w is one over the bandwidth: the larger w, the fewer points matter.

Axes: L queries, N points, d features, t targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from ..attention import attend
from ..choices import Argmax
from ..masks import Mask, from_spans
from ..scores import Gaussian

Kernel = Literal["gaussian", "box", "epanechnikov", "triangular"]
Array = NDArray[Any]

MAX_BLOCK, MIN_BLOCK = 1024, 32  # most and fewest queries computed at once
NEGLIGIBLE = 50.0  # keys whose Gaussian weight is below exp(−50) of the largest are left out: less than float64 resolves
GRID = 25  # number of widths tried before the best is refined
MAX_WEIGHTS = 10**8

# K(u) of a squared scaled distance u² ≤ 1; all are zero beyond.
_COMPACT: dict[str, Callable[[Tensor], Tensor]] = {
    "box": torch.ones_like,
    "epanechnikov": lambda square: 1 - square,
    "triangular": lambda square: 1 - square.clamp(min=0).sqrt(),
}


class NadarayaWatson(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Nadaraya–Watson kernel regression as a scikit-learn estimator; memory grows linearly with the number of points.

    width          w, the inverse bandwidth: a number, one per feature, or "learn": the w with the least leave-one-out error
    kernel         "gaussian", "box" (1 where ‖(z − x)w‖ ≤ 1), "epanechnikov" (1 − u²), "triangular" (1 − u)
    per_dimension  learn one width per feature instead of one for all
    bandwidth      instead of width: a number or one per feature; the width is its inverse
    max_queries    the leave-one-out error is computed at no more than this many points, drawn with it
    random_state   seed of that draw

    Where a kernel of finite support covers no point, the target of the nearest point is predicted: the limit of a wider kernel.
    A sample weight multiplies a point's kernel, and its error where a width is learned.

    Attributes after fit: `width_` and `bandwidth_` (a number or (d,)) and, if the width was learned, `loo_error_` (the mean squared
    leave-one-out error).

    >>> X, y = textbook_data()
    >>> model = NadarayaWatson(width="learn").fit(X, y)
    >>> model.predict([[2.5]]).shape, model.width_ > 1
    ((1,), True)
    >>> NadarayaWatson(bandwidth=0.5).fit(X, y).width_
    2.0
    """

    def __init__(
        self,
        width: float | ArrayLike | Literal["learn"] = 1.0,
        kernel: Kernel = "gaussian",
        *,
        per_dimension: bool = False,
        bandwidth: float | ArrayLike | None = None,
        max_queries: int = 10_000,
        random_state: int = 0,
    ) -> None:
        self.width = width
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.per_dimension = per_dimension
        self.max_queries = max_queries
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> NadarayaWatson:
        """Store X (N, d) and y (N,) or (N, t), and learn the width if width="learn".

        sample_weight: multiplies each point's kernel, (N,).
        """
        if self.kernel not in get_args(Kernel):
            raise ValueError(f"kernel is {self.kernel!r}; expected one of {', '.join(get_args(Kernel))}")
        points, targets = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=[np.float64, np.float32])
        targets = targets.astype(points.dtype)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, points, dtype=points.dtype, ensure_non_negative=True)
            points, targets, weight = points[weight > 0], targets[weight > 0], weight[weight > 0]
        self.X_, self.y_, self.weight_ = points, targets, weight
        memory = SortedPoints(points, targets.reshape(len(points), -1), weight, self.kernel)
        if self.bandwidth is not None:
            width = self._inverse_bandwidth(points)
        elif isinstance(self.width, str):
            if self.width != "learn":
                raise ValueError(f"width is {self.width!r}; expected a number, one per feature, or 'learn'")
            if len(points) < 2:
                raise ValueError(
                    f"learning the width leaves one point out, but there is 1 sample (n_samples={len(points)}); give at least 2"
                )
            width, self.loo_error_ = _learn(memory, self.per_dimension, self.max_queries, self.random_state)
        else:
            width = np.asarray(self.width, dtype=points.dtype)
            if width.shape not in ((), (points.shape[1],)) or not (np.isfinite(width).all() and (width >= 0).all()):
                raise ValueError(
                    f"width is {self.width!r}; expected 'learn', one finite number ≥ 0, or {points.shape[1]} of them, one per feature"
                )
        self.width_ = float(width) if width.ndim == 0 else width
        with np.errstate(divide="ignore"):  # width 0 is an infinite bandwidth
            bandwidth = 1 / np.asarray(width, dtype=np.float64)
        self.bandwidth_ = float(bandwidth) if bandwidth.ndim == 0 else bandwidth
        return self

    def _inverse_bandwidth(self, points: Array) -> Array:
        """Return the width of a given bandwidth, checked."""
        if isinstance(self.width, str) or np.ndim(self.width) or self.width != 1.0:
            raise ValueError(f"width is {self.width!r} and bandwidth is {self.bandwidth!r}; give one of them (width = 1/bandwidth)")
        try:
            bandwidth = np.asarray(self.bandwidth, dtype=points.dtype)
        except ValueError:
            bandwidth = np.zeros(())
        if bandwidth.shape not in ((), (points.shape[1],)) or not (bandwidth > 0).all():
            raise ValueError(
                f"bandwidth is {self.bandwidth!r}; expected one number > 0, or {points.shape[1]} of them, one per feature "
                '(to learn it: width="learn")'
            )
        return np.asarray(1 / bandwidth, dtype=points.dtype)

    def predict(self, X: ArrayLike) -> Array:
        """Predict the target of every row of X: (L,) or (L, t)."""
        check_is_fitted(self)
        queries = validate_data(self, X, reset=False, dtype=[np.float64, np.float32]).astype(self.X_.dtype)
        memory = SortedPoints(self.X_, self.y_.reshape(len(self.X_), -1), self.weight_, self.kernel)
        pooled = memory.pool(queries, torch.as_tensor(self.width_, dtype=memory.points.dtype))
        return pooled.numpy().reshape(len(queries), *self.y_.shape[1:])

    def leave_one_out_error(self) -> float:
        """Return the mean squared error at the training points, each predicted from the others; at no more than `max_queries` of them.

        With sample weights it is the weighted mean.
        Where no other point has any weight, the target of the nearest other point is predicted, as `predict` does. After fitting with
        width="learn" it equals `loo_error_`.
        """
        check_is_fitted(self)
        if len(self.X_) < 2:
            raise ValueError("the leave-one-out error of 1 point is undefined; fit at least 2 points")
        memory = SortedPoints(self.X_, self.y_.reshape(len(self.X_), -1), self.weight_, self.kernel)
        rows = torch.from_numpy(_subsample(len(self.X_), self.max_queries, self.random_state))
        with torch.no_grad():
            return float(memory.error(rows, torch.as_tensor(self.width_, dtype=memory.points.dtype)))

    def weights(self, X: ArrayLike) -> Array:
        """Return the weight matrix (L, N), whose rows sum to 1; for small inputs, since all of it is held in memory."""
        check_is_fitted(self)
        queries = validate_data(self, X, reset=False, dtype=[np.float64, np.float32]).astype(self.X_.dtype)
        if len(queries) * len(self.X_) > MAX_WEIGHTS:
            raise ValueError(
                f"{len(queries):,} × {len(self.X_):,} weights are more than {MAX_WEIGHTS:,}; pass fewer rows, "
                "or use predict, which does not build the matrix"
            )
        w = torch.as_tensor(self.width_, dtype=torch.tensor(self.X_[:1]).dtype)
        score = Gaussian(w)(torch.tensor(queries), torch.tensor(self.X_))  # −½ ‖(z − x) w‖², (L, N)
        if self.kernel == "gaussian":
            bias = 0.0 if self.weight_ is None else torch.tensor(self.weight_).log()
            gaussian: Array = (score + bias).softmax(-1).numpy()
            return gaussian
        k = _compact_kernel(self.kernel, -2 * score) * (1.0 if self.weight_ is None else torch.tensor(self.weight_))
        k = torch.where(k.sum(-1, keepdim=True) > 0, k, Argmax()(score))
        compact: Array = (k / k.sum(-1, keepdim=True)).numpy()
        return compact

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = not isinstance(self.width, str) and not np.any(self.width)  # width 0 predicts the mean
        return tags


class AveragePooling(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """The baseline with uniform weights: every prediction is the mean target. Equals `NadarayaWatson` with width 0.

    >>> AveragePooling().fit([[0.0], [1.0]], [1.0, 3.0]).predict([[5.0]])
    array([2.])
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> AveragePooling:
        """Store the mean of the targets y of the points X, weighted by `sample_weight`."""
        points, targets = validate_data(self, X, y, multi_output=True, y_numeric=True)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, points, ensure_non_negative=True)
        self.mean_ = np.average(targets, axis=0, weights=weight)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return that mean for each of the points X."""
        check_is_fitted(self)
        queries = validate_data(self, X, reset=False)
        return np.broadcast_to(self.mean_, (len(queries), *np.shape(self.mean_))).copy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def textbook_data(n: int = 50, *, noise: float = 0.5, seed: int = 0) -> tuple[Array, Array]:
    """Return n sorted points X (n, 1) on [0, 5) and targets y = 2 sin x + x^0.8 + noise, (n,).

    n: number of points.
    noise: standard deviation of the noise.
    seed: of the points and the noise.

    >>> X, y = textbook_data()
    >>> X.shape, y.shape
    ((50, 1), (50,))
    """
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 5, n))
    return x[:, None], 2 * np.sin(x) + x**0.8 + noise * rng.standard_normal(n)


class SortedPoints:
    """Points and targets sorted along one feature, so that a block of queries is compared only with the points within reach of it."""

    def __init__(self, points: Array, targets: Array, weight: Array | None, kernel: str) -> None:
        self.axis = int(np.argmax(np.ptp(points, axis=0))) if len(points) else 0
        self.order = np.argsort(points[:, self.axis], kind="stable")
        self.points, self.targets = torch.tensor(points[self.order]), torch.tensor(targets[self.order])
        self.along = self.points[:, self.axis].contiguous()
        self.log_weight = None if weight is None else torch.tensor(np.log(weight[self.order]))
        self.kernel = kernel

    def pool(self, queries: Array, width: Tensor) -> Tensor:
        """Compute predictions (L, t) for queries (L, d)."""
        order = np.argsort(queries[:, self.axis], kind="stable")
        ordered = torch.tensor(queries[order])
        result = torch.empty(len(ordered), self.targets.shape[1], dtype=self.targets.dtype)
        with torch.no_grad():
            for block, start, stop in self._split(ordered, width):
                result[block] = self._block(ordered[block], width, None, start, stop)
        unordered = torch.empty_like(result)
        unordered[torch.from_numpy(order)] = result
        return unordered

    def error(self, rows: Tensor, width: Tensor) -> Tensor:
        """Compute the mean squared error at the points `rows` (ascending, in sorted order), each predicted from the others.

        A point's error counts as often as its weight says. Differentiable in the width.
        """
        total, counted = width.new_zeros(()), width.new_tensor(float(len(rows)))
        if self.log_weight is not None:
            counted = self.log_weight[rows].exp().sum()
        for block, start, stop in self._split(self.points[rows], width.detach(), rows):
            own = rows[block]
            square = (self._block(self.points[own], width, own, start, stop) - self.targets[own]).square().sum(-1)
            total = total + (square if self.log_weight is None else square * self.log_weight[own].exp()).sum()
        return total / (counted * self.targets.shape[1])

    def _block(self, queries: Tensor, width: Tensor, own: Tensor | None, start: int, stop: int) -> Tensor:
        """Pool the points [start, stop) for one block of queries; `own` (L,) is each query's own point, which gets no weight."""
        points, targets = self.points[start:stop], self.targets[start:stop]
        bias = None if self.log_weight is None else self.log_weight[start:stop].view(1, 1, 1, -1)
        own_in_block = None if own is None else own - start
        if self.kernel == "gaussian":
            return attend(queries, points, targets, score=Gaussian(width), mask=_all_but(own_in_block, len(points)), bias=bias)
        pooled, covered = self._compact(queries, points, targets, width, None if bias is None else bias.flatten().exp(), own_in_block)
        if not bool(covered.all()):
            # No point within the kernel's support: the nearest of all points, which is hard attention.
            uncovered = ~covered
            score, mask = Gaussian(width.detach()), _all_but(None if own is None else own[uncovered], len(self.points))
            nearest = attend(queries[uncovered], self.points, self.targets, score=score, mask=mask, choice=Argmax())
            pooled = pooled.masked_scatter(uncovered.unsqueeze(-1), nearest)
        return pooled

    def _compact(
        self, queries: Tensor, points: Tensor, targets: Tensor, width: Tensor, weight: Tensor | None, own: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Pool with a kernel of finite support, tile by tile: targets (L, t), and whether any point has weight for each query (L,)."""
        total = queries.new_zeros(len(queries), 1)
        summed = queries.new_zeros(len(queries), targets.shape[1])
        for tile in _blocks(len(points), 4 * MAX_BLOCK):
            square = -2 * Gaussian(width).tile(queries * width, points[tile] * width)  # ‖(z − x) w‖², (L, s)
            k = _compact_kernel(self.kernel, square)
            if weight is not None:
                k = k * weight[tile]
            if own is not None:
                k = k.masked_fill(torch.arange(tile.start, tile.stop, device=own.device) == own.unsqueeze(-1), 0)
            total, summed = total + k.sum(-1, keepdim=True), summed + k @ targets[tile]
        covered = total > 0
        return summed / total.masked_fill(~covered, 1), covered.squeeze(-1)

    def _split(self, queries: Tensor, width: Tensor, own: Tensor | None = None) -> Iterator[tuple[slice, int, int]]:
        """Split queries, sorted along the axis, into blocks; yield each with the range of points that can have weight for it."""
        z = queries[:, self.axis].contiguous()
        reach = self._reach(queries, width, own)
        low, high = z - reach, z + reach
        i = 0
        while i < len(z):
            # Queries within one reach share most of their points; blocks below MIN_BLOCK would cost more than they save.
            j = min(max(int(torch.searchsorted(z, high[i])), i + MIN_BLOCK), i + MAX_BLOCK, len(z))
            start = int(torch.searchsorted(self.along, low[i:j].min()))
            stop = int(torch.searchsorted(self.along, high[i:j].max(), right=True))
            if own is not None:  # a query's own point must be in the range to be masked out
                start, stop = min(start, int(own[i])), max(stop, int(own[j - 1]) + 1)
            yield slice(i, j), start, stop
            i = j

    def _reach(self, queries: Tensor, width: Tensor, own: Tensor | None) -> Tensor:
        """Return the distance along the axis within which points can have weight for each query: (L,)."""
        w = width if width.dim() == 0 else width[self.axis]
        if self.kernel == "gaussian":
            # The largest weight is at least that of the neighbours along the axis; weights far below it are negligible.
            at = torch.searchsorted(self.along, queries[:, self.axis].contiguous()) if own is None else own
            nearest = queries.new_full((len(queries),), math.inf)
            for side in (at - 1, at if own is None else at + 1):
                inside = (side >= 0) & (side < len(self.points))
                square = ((queries - self.points[side.clamp(0, len(self.points) - 1)]) * width).square().sum(-1)
                nearest = torch.minimum(nearest, square.masked_fill(~inside, math.inf))
            spread = 0.0 if self.log_weight is None else float(self.log_weight.max() - self.log_weight.min())
            reach = (nearest + 2 * (NEGLIGIBLE + spread)).sqrt()
        else:
            reach = torch.ones_like(queries[:, 0])
        # Slightly enlarged, so that rounding never excludes a point on the edge. With width 0 every point is within reach.
        return reach / w * (1 + 1e-5) + 1e-5 * queries[:, self.axis].abs()


def _compact_kernel(kernel: str, square: Tensor) -> Tensor:
    """Compute K(u) from u²; zero beyond 1."""
    return torch.where(square <= 1, _COMPACT[kernel](square), 0.0)


def _blocks(count: int, size: int = MAX_BLOCK) -> Iterator[slice]:
    return (slice(i, min(i + size, count)) for i in range(0, count, size))


def _all_but(own: Tensor | None, count: int) -> Mask | None:
    """Return the mask in which each query sees every key but its own, as two ranges per row."""
    if own is None:
        return None
    ends = torch.stack([torch.zeros_like(own), own, own + 1, torch.full_like(own, count)], -1)
    return from_spans(ends.view(1, 1, -1, 2, 2).to(torch.int32))


def _subsample(count: int, most: int, seed: int) -> NDArray[np.int64]:
    """Return the indices, ascending, of the points in the leave-one-out error: all, or `most` of them drawn with `seed`."""
    return np.arange(count) if most >= count else np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def _learn(memory: SortedPoints, per_dimension: bool, max_queries: int, seed: int) -> tuple[Array, float]:
    """Return the width of least leave-one-out error and that error: the best of a grid, then refined; deterministic."""
    from scipy import optimize

    N, d = memory.points.shape
    indices = _subsample(N, max_queries, seed)
    rows, coarse_rows = torch.from_numpy(indices), torch.from_numpy(indices[:: max(1, len(indices) // 1000)])
    spread = memory.points.double().std(0, correction=0)
    spread[spread == 0] = 1.0
    unit = (1 / spread) if per_dimension else (1 / spread.square().mean().sqrt())  # w = exp(θ) · unit

    def error(theta: Array, at: Tensor) -> tuple[float, Array]:
        parameter = torch.tensor(theta, dtype=torch.float64, requires_grad=memory.kernel == "gaussian")
        width = (parameter.exp() * unit).to(memory.points.dtype)
        value = memory.error(at, width if per_dimension else width.reshape(()))
        if not value.requires_grad:
            return float(value), np.zeros_like(theta)
        (slope,) = torch.autograd.grad(value, parameter)
        return float(value.detach()), slope.numpy()

    size = d if per_dimension else 1
    grid = np.linspace(np.log(0.05), np.log(20.0 * max(N, 2) ** (1 / d)), GRID)
    bounds = (grid[0] - 1, grid[-1] + 1)
    with torch.no_grad():
        grid_errors = [error(np.full(size, theta), coarse_rows)[0] for theta in grid]
    best = np.full(size, grid[int(np.argmin(grid_errors))])
    if memory.kernel == "gaussian":
        optimum = optimize.minimize(
            lambda t: error(t, rows), best, jac=True, method="L-BFGS-B", bounds=[bounds] * size, options={"maxiter": 50}
        )
        theta, lowest = optimum.x, float(optimum.fun)
    else:  # with finite support the error has steps or kinks in w: search by coordinates
        theta, lowest, step = best, error(best, rows)[0], float(grid[1] - grid[0])
        for scale, i in [(scale, i) for scale in (2, 1, 0.25, 0.06) for i in range(size)]:
            centre = theta
            for shift in np.linspace(-scale * step, scale * step, 13):
                trial = centre.copy()
                trial[i] = np.clip(trial[i] + shift, *bounds)
                if (value := error(trial, rows)[0]) < lowest:
                    theta, lowest = trial, value
    width = (np.exp(theta) * unit.numpy()).astype(memory.points.numpy().dtype)
    return (width if per_dimension else width.reshape(())), lowest


__all__ = ["AveragePooling", "Kernel", "NadarayaWatson", "textbook_data"]
