"""Nadaraya–Watson regression with the points sharded over several ranks: each rank pools its own, and results are merged by lse.

Axes: L queries, N points of this rank, d features, t targets.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import ArrayLike
from torch import Tensor

from ..attention import observe
from ..models.kernel_regression import Array, NadarayaWatson, SortedPoints
from ..scores import Gaussian
from .attention import TIMEOUT
from .exchange import Exchange, RingError


class ShardedNadarayaWatson:
    """Kernel regression with the Gaussian kernel, the points distributed over the ranks of a group in any way.

    Call `fit` with each rank's own points, `predict` with the same queries on every rank; every rank gets the result of one process
    with all the points. Beside its own points a rank holds only a block of queries at a time.

    width   w = 1/bandwidth: a number or one per feature (learn it on a sample first: `NadarayaWatson(width="learn")`)

    >>> model = ShardedNadarayaWatson(width=2.0).fit([[0.0], [1.0]], [1.0, 3.0])  # without torch.distributed: a single rank
    >>> model.predict([[0.5]])
    array([2.])
    """

    def __init__(self, width: float | ArrayLike = 1.0, *, group: dist.ProcessGroup | None = None, timeout: float = TIMEOUT) -> None:
        if isinstance(width, str):
            raise ValueError(f"width is {width!r}; learn it on a sample with NadarayaWatson(width='learn') and pass its width_")
        self.width, self.group, self.timeout = width, group, timeout

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ShardedNadarayaWatson:
        """Keep this rank's points X (N, d) and targets y (N,) or (N, t), and check that all ranks' points have the same widths."""
        exchange = Exchange(self.group, self.timeout)
        model = NadarayaWatson(width=self.width).fit(X, y, sample_weight)
        self.shape_ = model.y_.shape[1:]
        self.width_ = model.width_
        self.memory_ = _Part(model.X_, model.y_.reshape(len(model.X_), -1), model.weight_, "gaussian")
        points, targets = self.memory_.points, self.memory_.targets
        numbers = torch.tensor([len(points), points.shape[1], targets.shape[1], points.element_size()], dtype=torch.int64)
        table = exchange.gather(numbers)
        for column, name in enumerate(("features", "targets", "bytes per number"), 1):
            if len(table[:, column].unique()) > 1:
                raise RingError(f"the ranks' points have {table[:, column].tolist()} {name}; pass the same kind of points on every rank")
        self.points_ = int(table[:, 0].sum())
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The pooled target of every row of X, the same on every rank: (L,) or (L, t)."""
        if not hasattr(self, "memory_"):
            raise ValueError("predict needs points; call fit first, on every rank")
        exchange, memory = Exchange(self.group, self.timeout), self.memory_
        queries = np.asarray(X, dtype=memory.points.numpy().dtype)
        if queries.ndim != 2 or queries.shape[1] != memory.points.shape[1]:
            raise ValueError(f"queries have shape {queries.shape}; expected (rows, {memory.points.shape[1]})")
        width = torch.as_tensor(self.width_, dtype=memory.points.dtype)
        pooled, lse = memory.pool_part(queries, width)
        # Sums relative to the largest lse of all ranks, to avoid overflow.
        top = exchange.max(lse.clone())
        mass = (lse - top.masked_fill(top == -math.inf, 0)).exp().unsqueeze(-1)
        totals = exchange.sum(torch.cat([pooled * mass, mass], -1))
        result: Array = (totals[:, :-1] / totals[:, -1:]).to(memory.targets.dtype).numpy()
        return result.reshape(len(queries), *self.shape_)


class _Part(SortedPoints):
    """The points of one rank."""

    def pool_part(self, queries: Array, width: Tensor) -> tuple[Tensor, Tensor]:
        """The pooled targets of these points alone (L, t) and the log of their summed kernels (L,), in float64."""
        order = np.argsort(queries[:, self.axis], kind="stable")
        ordered = torch.tensor(queries[order])
        pooled = torch.zeros(len(ordered), self.targets.shape[1], dtype=torch.float64)
        lse = torch.full((len(ordered),), -math.inf, dtype=torch.float64)
        with torch.no_grad():
            for block, start, stop in self._split(ordered, width):
                bias = None if self.log_weight is None else self.log_weight[start:stop].view(1, 1, 1, -1)
                attended = observe(ordered[block], self.points[start:stop], self.targets[start:stop], score=Gaussian(width), bias=bias)
                assert attended.lse is not None
                pooled[block], lse[block] = attended.output.double(), attended.lse.double()
        unsort = torch.from_numpy(np.argsort(order))
        return pooled[unsort], lse[unsort]


__all__ = ["ShardedNadarayaWatson"]
