"""attend, observe, explain: score → choose → gather. The entry points; `kernels` does the work.

Axes: B batch, h heads, L queries, S keys, d width, dv value width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Unpack

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from .kernels.fused import plain
from .kernels.kernel import Selection
from .kernels.request import DEFAULTS, AttendOptions, ObserveOptions, Request, with_options
from .kernels.select import SMALL, execute, intercepted, order, readable_bytes, select


@dataclass(frozen=True)
class Plan:
    """Which kernel runs, why, why not the others, and how much memory it takes beside its inputs."""

    kernel: str
    reason: str
    rejected: dict[str, str]
    bytes: int

    @classmethod
    def of(cls, request: Request, selection: Selection) -> Plan:
        kernel, rejected = selection
        return cls(kernel.name, kernel.reason(request), rejected, kernel.bytes(request))

    def __str__(self) -> str:
        line = f"kernel  {self.kernel}   reason  {self.reason}   bytes  {readable_bytes(self.bytes)}"
        if self.rejected:
            line += "   rejected  " + "; ".join(f"{name}: {why}" for name, why in self.rejected.items())
        return line


@dataclass(frozen=True, eq=False)
class Attended:
    """The result of :func:`observe`. Fields that a choice does not define are None.

    output (…, L, dv); lse (…, L), the log of the softmax's denominator; index and log_prob (…, L) of a hard choice;
    readings by name; plan, how it was computed.
    """

    output: Tensor
    lse: Tensor | None = None
    index: Tensor | None = None
    log_prob: Tensor | None = None
    readings: dict[str, Any] = field(default_factory=dict)
    plan: Plan | None = None


@with_options(AttendOptions, DEFAULTS)
def attend(query: Tensor, key: Tensor, value: Tensor, **options: Unpack[AttendOptions]) -> Tensor:
    """Compute attention, ``Σ_n choice(score(k_n, q)) v_n`` for every query: (…, L, dv).

    query (…, h, L, d), key (…, k, S, d), value (…, k, S, dv), where k divides h (grouped heads) or equals it; leading axes
    broadcast.

    score: the similarity of a query and a key; default the scaled dot product.
    mask: which keys are visible to each query (True = visible); default all.
    bias: added to the scores: a tensor that broadcasts to (batch, heads, queries, keys), or a `Bias`.
    choice: how a row of scores becomes weights; default softmax.
    dropout: probability of setting a weight to zero, applied whenever it is above 0 (there is no training mode here).
    generator: source of the random numbers of dropout and of `Sample`.
    kernel: "auto", or the name of one kernel. limit_bytes: raise a MemoryError instead of allocating more than that.

    >>> q, k, v = (torch.randn(2, 4, 8, 16) for _ in range(3))
    >>> attend(q, k, v).shape
    torch.Size([2, 4, 8, 16])
    """
    if (
        _plain_options(options)
        and plain(query, key, value)
        and query.numel() * key.shape[2] < SMALL
        and not (query.dtype == torch.bfloat16 and query.requires_grad)
        and not intercepted()
    ):
        # A small call with default options: the general path would end in the same call, and costs more than its arithmetic.
        return scaled_dot_product_attention(query, key, value)
    if "readings" in options:
        raise TypeError("attend returns the output alone; use observe(…, readings=…)")
    request = Request.of(query, key, value, **options)
    return request.restore_output(execute(request).output)


@with_options(ObserveOptions, DEFAULTS)
def observe(query: Tensor, key: Tensor, value: Tensor, **options: Unpack[ObserveOptions]) -> Attended:
    """Compute :func:`attend`, and also return the lse, the keys a hard choice picked, the readings and the plan.

    readings: statistics of the weights to compute, returned by name; the other arguments are those of :func:`attend`.

    >>> from regard import Entropy
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Entropy()]).readings["entropy"].exp().round().tolist()
    [[[4.0, 4.0, 4.0, 4.0]]]
    """
    request = Request.of(query, key, value, needs_lse=True, **options)
    result = execute(request)
    lse = result.lse
    if lse is not None and request.row_shift is not None:
        lse = lse + request.row_shift
    return Attended(
        request.restore_output(result.output),
        request.restore(lse),
        request.restore(result.index),
        request.restore(result.log_prob),
        {name: request.restore(value) for name, value in result.readings.items()},
        Plan.of(request, result.selection or select(request)),
    )


@with_options(ObserveOptions, DEFAULTS)
def explain(query: Tensor, key: Tensor, value: Tensor, **options: Unpack[ObserveOptions]) -> Plan:
    """Return which kernel :func:`attend` (with readings, :func:`observe`) would run, and why, without running it.

    >>> q = torch.randn(1, 8, 128, 64)
    >>> explain(q, q, q, kernel="streamed").kernel
    'streamed'
    """
    options["generator"] = None  # leave the state of the caller's generator as it is
    request = Request.of(query, key, value, needs_lse=bool(options.get("readings")), **options)
    kernel, rejected = select(request)
    if request.kernel == "auto":  # also say why the slower kernels would not run it
        slower = {other.name: why for other in order(request) if other is not kernel and (why := other.refuses(request)) is not None}
        rejected = {**rejected, **slower}
    return Plan.of(request, Selection(kernel, rejected))


_UNKNOWN = object()  # the default of an argument that does not exist: no value equals it


def _plain_options(options: AttendOptions) -> bool:
    """Whether every argument has its default."""
    return not options or all(value is DEFAULTS.get(name, _UNKNOWN) or (name == "dropout" and not value) for name, value in options.items())


__all__ = ["Attended", "Plan", "attend", "explain", "observe"]
