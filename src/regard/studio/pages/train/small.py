"""Two trainings that take a second: hard attention that learns where to look, and the inverse bandwidth of kernel regression.

Every few steps are kept, with the weights as they were. Axes: n queries, S keys.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from ...page import RequestBody
from ...worker_state import WorkerState

FRAMES = 40
POINTS = 24  # of the regression


class SmallRequest(RequestBody):
    """Which of the two, and what is changed to break it: no baseline for the rewards; the inverse bandwidth to begin with."""

    task: Literal["where", "kernel"] = "where"
    baseline: bool = True
    steps: Annotated[int, Field(ge=20, le=400)] = 160
    begin: Annotated[float, Field(ge=0.05, le=50)] = 0.3


def small(state: WorkerState, task: str, baseline: bool = True, steps: int = 160, begin: float = 0.3) -> dict[str, Any]:
    """The value that is learned or earned at every kept step, and the matrix of weights (n, S)."""
    state.set_threads(1)
    with torch.enable_grad():
        return _where(state, baseline, steps) if task == "where" else _kernel(state, steps, begin)


def _where(state: WorkerState, baseline: bool, steps: int) -> dict[str, Any]:
    """REINFORCE on the boxes of `regard demo hard_attention`: row i of the matrix is a request for box i."""
    from .... import Bilinear, Softmax, reinforce
    from ....demos.hard_attention import BOXES, WIDTH, Boxes, answer
    from ....layers.hard import HardAttention

    torch.manual_seed(1)
    layer, boxes = HardAttention(Bilinear(WIDTH, WIDTH)), Boxes(seed=2)
    labels = Boxes(seed=5).batch(1)[1][0]  # (S, d): eight labels the model never sees in training
    requests = labels @ boxes.rotation
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    frames, right = [], 0.0
    for step in range(steps + 1):
        attended, reward = answer(layer, boxes, 128)
        share = 1 + float(reward.mean())
        right = share if step == 0 else 0.8 * right + 0.2 * share
        if step % max(1, steps // FRAMES) == 0:
            with torch.no_grad():
                frames.append(_frame(step, right, Softmax()(layer.score(requests, labels))))
            state.progress.report(step / steps)
        assert attended.log_prob is not None
        optimiser.zero_grad()
        (layer.loss(attended, reward) if baseline else reinforce(attended.log_prob, reward)).backward()
        optimiser.step()
    names = [str(i + 1) for i in range(BOXES)]
    return {"task": "where", "rows": names, "columns": names, "frames": frames}


def _kernel(state: WorkerState, steps: int, begin: float) -> dict[str, Any]:
    """Gradient descent on the leave-one-out error of Nadaraya–Watson regression, over the logarithm of w."""
    from .... import Gaussian, Softmax
    from ....models.kernel_regression import textbook_data

    x, y = (torch.as_tensor(part, dtype=torch.float64) for part in textbook_data(POINTS, noise=0.3, seed=0))
    order = x[:, 0].argsort()
    x, y = x[order], y[order]
    log_w = torch.tensor(begin, dtype=torch.float64).log().requires_grad_()
    optimiser = torch.optim.Adam([log_w], lr=0.1)
    itself = torch.eye(len(x), dtype=torch.bool)
    frames = []
    for step in range(steps + 1):
        scores = Gaussian(1.0)(x * log_w.exp(), x * log_w.exp())  # (N, N)
        weights = Softmax()(scores.masked_fill(itself, -torch.inf))
        error = (weights @ y - y).square().mean()
        if step % max(1, steps // FRAMES) == 0:
            frames.append(_frame(step, float(error.detach()), Softmax()(scores.detach()), w=float(log_w.detach().exp())))
            state.progress.report(step / steps)
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
    names = [f"{value:.1f}" for value in x[:, 0].tolist()]
    return {"task": "kernel", "rows": names, "columns": names, "frames": frames}


def _frame(step: int, value: float, weights: Tensor, **more: float) -> dict[str, Any]:
    numbers = {name: round(one, 4) for name, one in more.items()}
    return {"step": step, "value": round(value, 5), **numbers, "weights": [[round(w, 4) for w in row] for row in weights.tolist()]}
