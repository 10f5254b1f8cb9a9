"""Nadaraya–Watson over points that lie on several ranks: each pools its own, and the parts are merged by their lse.

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
    """Kernel regression with the Gaussian kernel, the points dealt out over the ranks of a group in any way.

    `fit` is given each rank's own points, `predict` the same queries on every rank; every rank gets the same answer, that of one process
    with all the points. A rank holds its own points and, for a few queries at a time, nothing larger.

    width   w = 1/bandwidth: a number or one per feature (learn it on a sample first: `NadarayaWatson(width="learn")`)

    >>> model = ShardedNadarayaWatson(width=2.0).fit([[0.0], [1.0]], [1.0, 3.0])  # without torch.distributed: one rank has all
    >>> model.predict([[0.5]])
    array([2.])
    """

    def __init__(self, width: float | ArrayLike = 1.0, *, group: dist.ProcessGroup | None = None, timeout: float = TIMEOUT) -> None:
        if isinstance(width, str):
            raise ValueError(f"width is {width!r}; learn it on a sample with NadarayaWatson(width='learn') and pass its width_")
        self.width, self.group, self.timeout = width, group, timeout

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ShardedNadarayaWatson:
        """Keep this rank's points X (N, d) and targets y (N,) or (N, t), and see that all ranks' fit together."""
        exchange = Exchange(self.group, self.timeout)
        model = NadarayaWatson(width=self.width).fit(X, y, sample_weight)
        self.shape_ = model.y_.shape[1:]
        self.width_ = model.width_
        self.memory_ = _Part(model.X_, model.y_.reshape(len(model.X_), -1), model.weight_, "gaussian")
        points, targets = self.memory_.points, self.memory_.targets
        numbers = torch.tensor([len(points), points.shape[1], targets.shape[1], points.element_size()], dtype=torch.int64)
        table = exchange.gather(numbers)
        for place, name in enumerate(("features", "targets", "bytes a number"), 1):
            if len(table[:, place].unique()) > 1:
                raise RingError(f"the ranks' points have {table[:, place].tolist()} {name}; give every rank the same kind of points")
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
        # The largest of all ranks, then sums relative to it: what one process does tile by tile.
        top = exchange.max(lse.clone())
        mass = (lse - top.masked_fill(top == -math.inf, 0)).exp().unsqueeze(-1)
        both = exchange.sum(torch.cat([pooled * mass, mass], -1))
        result: Array = (both[:, :-1] / both[:, -1:]).to(memory.targets.dtype).numpy()
        return result.reshape(len(queries), *self.shape_)


class _Part(SortedPoints):
    """A rank's points; pooled with how much they weigh."""

    def pool_part(self, queries: Array, width: Tensor) -> tuple[Tensor, Tensor]:
        """The pooled targets of these points alone (L, t) and the log of their summed kernels (L,), in float64."""
        order = np.argsort(queries[:, self.axis], kind="stable")
        asked = torch.tensor(queries[order])
        pooled = torch.zeros(len(asked), self.targets.shape[1], dtype=torch.float64)
        lse = torch.full((len(asked),), -math.inf, dtype=torch.float64)
        with torch.no_grad():
            for block, start, stop in self._split(asked, width):
                bias = None if self.log_weight is None else self.log_weight[start:stop].view(1, 1, 1, -1)
                found = observe(asked[block], self.points[start:stop], self.targets[start:stop], score=Gaussian(width), bias=bias)
                assert found.lse is not None
                pooled[block], lse[block] = found.output.double(), found.lse.double()
        back = torch.from_numpy(np.argsort(order))
        return pooled[back], lse[back]


__all__ = ["ShardedNadarayaWatson"]
