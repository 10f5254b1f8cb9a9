"""One intercepted attention call: its request, and how to run it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ...choices import Choice, Row
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


class GivenWeights(Choice):
    """The scores are the weights, which need not sum to 1: attention by a sigmoid, or weights that a model changed after its softmax."""

    def dense(self, z: Tensor) -> Tensor:
        return z.masked_fill(z == -torch.inf, 0)

    def fit(self, tiles: Callable[[], Iterable[Tensor]]) -> Row:
        first = next(iter(tiles()))
        return Row(torch.zeros_like(first[..., 0]), torch.ones_like(first[..., 0]))

    def weights(self, z: Tensor, row: Row) -> Tensor:
        return self.dense(z)

    def slope(self, p: Tensor) -> Tensor:
        raise NotImplementedError("weights that a model computed itself, without a softmax, have no gradient under regard.change")


class OwnWeights(NamedTuple):
    """Weights that the model computed itself."""

    weights: Tensor  # (B, h, L, S), before dropout
    scores: Tensor | None  # (B, h, L, S), where they are known
    recomputed_from: str  # what the request was made of: "queries and keys", "scores" or "weights"
    normalised: bool  # every row sums to 1
    dropout: bool  # the model's output was made with dropout
    unchecked: frozenset[int] = frozenset()  # rows with values of their own, which the proof leaves out


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
    # Rows that see no key and whose output is the mean of `all_values`, as the model makes it: (…, L, 1) bool, or all rows without keys.
    uniform_rows: Tensor | Literal["empty"] | None = None
    all_values: Tensor | None = None  # (B, k, S, dv), with the keys that no query sees
    own: OwnWeights | None = None  # the weights, if the model computed them itself
    altered: bool = False  # the request differs from the model's own
    muted: Tensor | None = None  # (h,) bool: heads whose output is replaced by zero
    output_edits: list[Callable[[Tensor], Tensor]] = field(default_factory=list)  # applied to the output (B, h, L, dv), one after another
    output_listeners: list[Callable[[Tensor], None]] = field(default_factory=list)  # called with the output (B, h, L, dv)
    error_listeners: list[Callable[[float], None]] = field(default_factory=list)  # called with the largest error of the existing output

    def run(self) -> Execution:
        """Run the model's own kernel, or one of regard's if the request was altered. The output still contains muted heads."""
        return execute(self.request) if self.altered else self.run_original()

    def without_means(self, output: Tensor) -> Tensor:
        """Return the output with zero in uniform rows, as the recorded weights give it."""
        return output.masked_fill(self.uniform_rows, 0) if isinstance(self.uniform_rows, Tensor) else output

    def _with_means(self, result: Result) -> Tensor:
        """Return the output with the mean of all values in uniform rows."""
        values = self.request.value if self.all_values is None else self.all_values
        mean = values.mean(2, keepdim=True).repeat_interleave(result.output.shape[1] // values.shape[1], 1).to(result.output.dtype)
        if isinstance(self.uniform_rows, Tensor):
            return torch.where(self.uniform_rows, mean, result.output)
        return result.output if result.lse is None else torch.where((result.lse == -torch.inf).unsqueeze(-1), mean, result.output)

    @property
    def changed(self) -> bool:
        """Whether the output differs from the model's own."""
        return self.altered or self.muted is not None or bool(self.output_edits)

    def with_output_edits(self, result: Result) -> Result:
        """Return the result with the output of muted heads set to zero, and the edits applied to it."""
        if self.uniform_rows is not None and result.selection is not None:  # the model's own kernel does this itself
            result = dataclasses.replace(result, output=self._with_means(result))
        for listener in self.output_listeners:
            listener(result.output)
        if self.muted is None and not self.output_edits:
            return result
        output = result.output if self.muted is None else result.output.masked_fill(self.muted.view(1, -1, 1, 1), 0)
        for edit in self.output_edits:
            output = edit(output)
        return dataclasses.replace(result, output=output)


def execute(request: Request, kernel: str = "auto") -> Execution:
    """Run the request on the named kernel, or on the one selected for it."""
    return Execution.of(execute_request(dataclasses.replace(request, kernel=kernel)))


def first_query(captured: CapturedAttention) -> int:
    """Return which key the first query of a causal attention stands at: queries are the last keys, unless a cache has room after them."""
    request = captured.request
    _, _, L, S = request.sizes
    if captured.query_start is not None:
        return captured.query_start - captured.key_start
    if request.mask is None or not S or not L:
        return S - L
    device = request.query.device
    first, last = (request.mask.tile(range(i, i + 1), range(S), L, S, device=device) for i in (0, L - 1))
    if not isinstance(last, Tensor):
        return S - L
    seen = last.flatten(0, -2).any(0).nonzero()
    grows = L == 1 or (isinstance(first, Tensor) and int(first.flatten(0, -2).any(0).sum()) < len(seen))
    return int(seen[-1]) - (L - 1) if len(seen) and grows else S - L
