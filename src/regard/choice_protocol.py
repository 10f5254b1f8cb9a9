"""The base class of choices, and what it remembers of a row.

Axes: B batch, h heads, L queries, S keys; z are the scores divided by the temperature, −∞ where masked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Row:
    """What `Choice.fit` computes from all scores of a row: (B, h, l) each. A choice that needs more than this subclasses it.

    threshold: the lse for softmax, τ for the sparse choices.
    mass: Σ slope(p) over the row, the denominator of the gradient's mean; 0 for a row that sees nothing.

    >>> import torch
    >>> Row(threshold=torch.zeros(1, 2, 5), mass=torch.ones(1, 2, 5)).mass.shape
    torch.Size([1, 2, 5])
    """

    threshold: Tensor
    mass: Tensor


class Choice(nn.Module):
    """Base class of choices. ``choice(scores)`` computes the weights of a whole (…, L, S) matrix.

    A new choice is a soft one: a subclass with ``dense``, ``fit``, ``weights`` and ``slope``, whose gradient has the form
    ``dz = g ∘ (dp − Σ g·dp / Σ g)``. The kernels themselves compute Softmax, Argmax and Sample, so a subclass of those
    cannot compute something else.

    temperature: divides the scores first: a number, or a tensor, scalar or one per head (h,), that may be learned.

    Raises ValueError for a temperature that is not positive.

    >>> import torch, regard
    >>> regard.Softmax(temperature=0.5)(torch.zeros(1, 4))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    hard = False  # picks one key; only Argmax and Sample do

    def __init__(self, temperature: float | Tensor = 1.0) -> None:
        super().__init__()
        if not isinstance(temperature, Tensor) and not temperature > 0:
            raise ValueError(f"temperature is {temperature}; it must be positive (for the limit 0 use Argmax)")
        if isinstance(temperature, Tensor) and temperature.dim() > 1:
            raise ValueError(f"temperature has shape {tuple(temperature.shape)}; give one number or one per head, (h,)")
        self.temperature = temperature

    def dense(self, z: Tensor) -> Tensor:
        """The weights of whole rows of scores z (…, L, S), already divided by the temperature."""
        raise NotImplementedError(f"{type(self).__name__} does not define dense(z); a choice must")

    def fit(self, tiles: Callable[[], Iterable[Tensor]]) -> Row:
        """Compute each row's threshold; ``tiles()`` yields the row block's scores (B, h, l, s) and may be called repeatedly."""
        raise NotImplementedError(f"{type(self).__name__} does not define fit(tiles), which every kernel but 'reference' needs")

    def weights(self, z: Tensor, row: Row) -> Tensor:
        """The weights of one tile of scores z, given what `fit` computed of each row."""
        raise NotImplementedError(f"{type(self).__name__} does not define weights(z, row), which every kernel but 'reference' needs")

    def slope(self, p: Tensor) -> Tensor:
        """The g of the gradient ``dz = g ∘ (dp − Σ g·dp / Σ g)``, from the weights p of one tile."""
        raise NotImplementedError(f"{type(self).__name__} does not define slope(p), which its gradient needs")

    @property
    def learned(self) -> Tensor | None:
        """A tensor, () or (h,), that the weights depend on beside the scores, such as α of entmax; None for most choices."""
        return None

    def with_learned(self, tensor: Tensor) -> Choice:
        """This choice with another tensor in place of `learned`."""
        raise NotImplementedError(f"{type(self).__name__} does not define with_learned(tensor), which gradients of gradients need")

    def drift(self, p: Tensor) -> Tensor:
        """∂p/∂learned of the weights p of one tile, up to a multiple of ``slope(p)`` for each row."""
        raise NotImplementedError(f"{type(self).__name__} does not define drift(p), which the gradient of its learned tensor needs")

    def distribution(self) -> Choice:
        """The soft choice a sample is drawn from; the choice itself for all others."""
        return self

    def forward(self, scores: Tensor) -> Tensor:
        t = self.temperature
        return self.dense(scores / (t.view(-1, 1, 1) if isinstance(t, Tensor) and t.dim() else t))

    def extra_repr(self) -> str:
        names = [] if not isinstance(self.temperature, Tensor) and self.temperature == 1.0 else ["temperature"]
        names += ["sinks"] if getattr(self, "sinks", None) is not None else []
        return ", ".join(f"{name}={'learned' if isinstance(value := getattr(self, name), Tensor) else value}" for name in names)


class ComputedByKernels(Choice):
    """A choice that the kernels compute by its type, without asking its methods."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        changed = sorted({"dense", "fit", "weights", "slope"} & vars(cls).keys())
        if changed and ComputedByKernels not in cls.__bases__:
            base = next(kind.__name__ for kind in cls.__mro__ if ComputedByKernels in kind.__bases__)
            raise TypeError(f"{cls.__name__} overrides {base}.{changed[0]}, which kernels do not call; subclass regard.Choice instead")


def logsumexp(z: Tensor) -> Tensor:
    """Return log Σ exp along the last axis: −∞, with a zero gradient, where a row is empty or all −∞.

    z: scores (…, S).

    >>> import torch
    >>> logsumexp(torch.zeros(1, 4)).exp()
    tensor([4.])
    """
    if not z.shape[-1]:
        return z.new_full(z.shape[:-1], -math.inf)
    peak = z.detach().amax(-1, keepdim=True)
    empty = peak == -math.inf
    total = (z - peak.masked_fill(empty, 0)).exp().sum(-1, keepdim=True)
    # The log of an empty row is replaced before it is taken, so that its gradient is 0 and not NaN.
    lse = total.masked_fill(empty, 1).log() + peak.masked_fill(empty, 0)
    return lse.masked_fill(empty, -math.inf).squeeze(-1)
