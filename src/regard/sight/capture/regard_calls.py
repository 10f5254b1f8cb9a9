"""Capture the attention of regard's own layers: every call of `attend` and `observe`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ...kernels.kernel import Result
from ...kernels.request import Request
from ...kernels.select import Run, intercept
from .captured import CapturedAttention, Execution
from .interception import dispatch, is_watched


def _capture(request: Request, run: Run) -> Result:
    if not is_watched():
        return run(request)
    return dispatch(CapturedAttention(request, lambda: Execution.of(run(request))))


def patches() -> list[Callable[[], None]]:
    stack = ExitStack()
    stack.enter_context(intercept(_capture))
    return [stack.close]
