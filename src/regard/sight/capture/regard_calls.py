"""Capture the attention of our own layers: every call of `attend` and `observe`."""

from __future__ import annotations

from collections.abc import Callable

from ... import attention as door
from ...kernels.spec import Kernel, Result, Spec
from .captured import CapturedAttention, Execution, choose
from .interception import dispatch, is_watched, replace_attribute


class _CapturedKernel:
    """A kernel whose run is captured."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self.name = kernel, kernel.name

    def refuses(self, request: Spec) -> str | None:
        return self._kernel.refuses(request)

    def bytes(self, request: Spec) -> int:
        return self._kernel.bytes(request)

    def reason(self, request: Spec) -> str:
        return self._kernel.reason(request)

    def run(self, request: Spec) -> Result:
        kernel = self._kernel
        return dispatch(CapturedAttention(request, lambda: Execution(kernel.run(request), kernel.name)))


def _choose_captured(request: Spec, name: str) -> tuple[Kernel, dict[str, str]]:
    kernel, rejected = choose(request, name)
    return (_CapturedKernel(kernel) if is_watched() else kernel), rejected


def patches() -> list[Callable[[], None]]:
    return [replace_attribute(door, "_choose", _choose_captured)]
