"""One intercepted attention call: its request, and how to run it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor, nn

from ...kernels.kernel import Result
from ...kernels.request import Request
from ...kernels.select import execute as execute_request


class Execution(NamedTuple):
    """The result of an attention, and the name of the kernel that computed it."""

    result: Result
    kernel: str

    @classmethod
    def of(cls, result: Result) -> Execution:
        """Pair a result of regard's kernels with the name of the kernel that was selected."""
        return cls(result, "" if result.selection is None else result.selection.kernel.name)


@dataclass(eq=False)
class CapturedAttention:
    """An attention call of the model that has not run yet."""

    request: Request
    run_original: Callable[[], Execution]  # the model's own kernel
    module: nn.Module | None = None  # the attention module, where the caller passes it
    cross: bool | None = None  # whether it is cross-attention; None: unknown
    query_start: int | None = None  # position in the text of the first query; None: the queries are the last positions
    key_start: int = 0
    output_exists: bool = False  # the caller has computed the output already, so a run here is for observation only
    altered: bool = False  # the request differs from the model's own
    muted: Tensor | None = None  # (h,) bool: heads whose output is replaced by zero
    error_listeners: list[Callable[[float], None]] = field(default_factory=list)  # called with the largest error of the existing output

    def run(self) -> Execution:
        """Run the model's own kernel, or one of regard's if the request was altered. The output still contains muted heads."""
        return execute(self.request) if self.altered else self.run_original()

    def without_muted(self, result: Result) -> Result:
        """Return the result with the output of muted heads set to zero."""
        if self.muted is None:
            return result
        return dataclasses.replace(result, output=result.output.masked_fill(self.muted.view(1, -1, 1, 1), 0))


def execute(request: Request, kernel: str = "auto") -> Execution:
    """Run the request on the named kernel, or on the one selected for it."""
    return Execution.of(execute_request(dataclasses.replace(request, kernel=kernel)))
