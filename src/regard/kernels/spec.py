"""One attention, written out: what the door hands to a kernel, and what every kernel answers.

Axes: B batch, h query heads, k key heads (k divides h), L queries, S keys, d width, dv value width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ..biases import Bias
from ..choices import Choice
from ..masks import Mask
from ..scores import Score

if TYPE_CHECKING:
    from ..readings import Reading


@dataclass(eq=False, slots=True)
class Spec:
    """z = β · (cap(scale · q·k + key_bias) + bias), or score.tile(q, k) in place of the dot; −∞ where the mask says no.

    Treated as frozen; not declared so because a frozen dataclass of this size takes microseconds to build.
    """

    query: Tensor  # (B, h, L, d), any strides
    key: Tensor  # (B, k, S, d)
    value: Tensor  # (B, k, S, dv)
    choice: Choice
    score: Score | None = None  # None: the lowered form below; else query and key are already prepared
    scale: float = 1.0
    cap: float | None = None
    key_bias: Tensor | None = None  # (B, k, S)
    row_shift: Tensor | None = None  # (B, h, L): what lowering left out of z; kernels ignore it, MaxLogit and the door add it
    mask: Mask | None = None
    bias: Tensor | Bias | None = None  # a tensor is 4-D, broadcastable to (B, h, L, S)
    beta: float | Tensor = 1.0  # inverse temperature: a number, or a tensor () or (h,)
    sinks: Tensor | None = None  # (h,), already times beta
    dropout: float = 0.0
    seed: int = 0  # of the dropout hash
    uniform: Tensor | None = None  # (B, h, L) float64 in [0, 1): one draw a row, for Sample
    readings: tuple[Reading, ...] = ()
    wants_lse: bool = False
    limit_bytes: int | None = None

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(B, h, L, S)."""
        return (*self.query.shape[:3], self.key.shape[2])

    @property
    def group(self) -> int:
        """How many query heads share a key head."""
        heads = self.key.shape[1]
        return self.query.shape[1] // heads if heads else 1

    @property
    def needs_grad(self) -> bool:
        if not torch.is_grad_enabled():
            return False
        if self.query.requires_grad or self.key.requires_grad or self.value.requires_grad:
            return True
        rest = (self.key_bias, self.sinks, self.bias, self.beta)
        return any(isinstance(x, Tensor) and x.requires_grad for x in rest) or any(x.requires_grad for x in self.parameters())

    @property
    def work(self) -> int:
        """Multiplications of one dense product: B · h · L · S · d."""
        return self.query.numel() * self.key.shape[2]

    def parameters(self) -> list[Tensor]:
        """The learnable parts used inside a tile: a score's and a bias object's."""
        if self.score is None and not isinstance(self.bias, Bias):
            return []
        found: list[Tensor] = []
        for part in (self.score, self.bias):
            if isinstance(part, torch.nn.Module):
                found += list(part.parameters())
        return found


@dataclass(frozen=True, eq=False)
class Result:
    """What a kernel answers; the door adds the plan. lse is that of z (no row_shift)."""

    output: Tensor  # (B, h, L, dv)
    lse: Tensor | None = None  # (B, h, L), float32 or float64
    index: Tensor | None = None  # (B, h, L) int64, −1 on an empty row
    log_prob: Tensor | None = None  # (B, h, L)
    readings: dict[str, Any] = field(default_factory=dict)


class Kernel(Protocol):
    """One way to compute a Spec."""

    name: str

    def refuses(self, spec: Spec) -> str | None:
        """Why this kernel cannot (or must not) run the spec; None if it can."""

    def bytes(self, spec: Spec) -> int:
        """Extra memory at the peak, forward and (if a gradient is needed) backward, the output included."""

    def reason(self, spec: Spec) -> str:
        """Why it was picked, in a few words."""

    def run(self, spec: Spec) -> Result: ...


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """What sums are kept in: float64 for float64, float32 for everything narrower."""
    return torch.float64 if dtype == torch.float64 else torch.float32
