"""attend, observe, explain: score → choose → gather. The entry points; `kernels` does the work.

Axes: B batch, h heads, L queries, S keys, d width, dv value width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Unpack

import torch  # noqa: F401  (the examples need it)
from torch import Tensor

from .html_table import html_table
from .kernels.jagged import pack
from .kernels.kernel import Selection
from .kernels.request import DEFAULTS, AttendOptions, ObserveOptions, Request, with_options
from .kernels.select import execute, intercepted, order, readable_bytes, select
from .kernels.shortcuts import shortcut


@dataclass(frozen=True)
class Plan:
    """Which kernel runs, why, why not the others, and how much memory it takes beside its inputs.

    kernel: the kernel's name.
    reason: why it was selected.
    rejected: for each faster kernel, why it does not run this call.
    bytes: estimated peak memory beside the inputs; with the backward pass where a gradient is needed.

    >>> q = torch.randn(1, 2, 8, 4)
    >>> explain(q, q, q, kernel="reference").kernel
    'reference'
    """

    kernel: str
    reason: str
    rejected: dict[str, str]
    bytes: int

    @classmethod
    def of(cls, request: Request, selection: Selection) -> Plan:
        """Describe what a selected kernel will do for a request.

        request: the call; selection: the kernel and those that were rejected.
        """
        kernel, rejected = selection
        return cls(kernel.name, kernel.reason(request), rejected, kernel.bytes(request))

    def __str__(self) -> str:
        line = f"kernel  {self.kernel}   reason  {self.reason}   bytes  {readable_bytes(self.bytes)}"
        if self.rejected:
            line += "   rejected  " + "; ".join(f"{name}: {why}" for name, why in self.rejected.items())
        return line

    def _repr_html_(self) -> str:
        rows = [("reason", self.reason), ("memory", readable_bytes(self.bytes))]
        rows += [(f"why not {name}", why) for name, why in self.rejected.items()]
        return html_table([("kernel", self.kernel), *rows])


@dataclass(frozen=True, eq=False, repr=False)
class Attended:
    """The result of :func:`observe`. Fields that a choice does not define are None.

    output: the gathered values, (…, L, dv).
    lse: the log of the softmax's denominator, (…, L).
    index: the key that a hard choice picked, (…, L); −1 for a query that sees no key.
    log_prob: the log-probability of that key, (…, L).
    readings: the results of the readings, by name.
    plan: how it was computed.

    >>> q = torch.randn(1, 2, 8, 4)
    >>> observe(q, q, q, kernel="reference")
    Attended(output (1, 2, 8, 4), lse (1, 2, 8), by the reference kernel)
    """

    output: Tensor
    lse: Tensor | None = None
    index: Tensor | None = None
    log_prob: Tensor | None = None
    readings: dict[str, Any] = field(default_factory=dict)
    plan: Plan | None = None

    def shapes(self) -> dict[str, str]:
        """Return the shape of every tensor, by its name; a reading of several tensors has all their shapes."""
        fields = {name: getattr(self, name) for name in ("output", "lse", "index", "log_prob")}
        values = {**fields, **{f"readings[{name!r}]": value for name, value in self.readings.items()}}
        return {name: _shape(value) for name, value in values.items() if value is not None}

    def __repr__(self) -> str:
        kernel = "" if self.plan is None else f", by the {self.plan.kernel} kernel"
        return f"Attended({', '.join(f'{name} {shape}' for name, shape in self.shapes().items())}{kernel})"

    def _repr_html_(self) -> str:
        return html_table(
            [("tensor", "shape"), *self.shapes().items()],
            note="" if self.plan is None else f"computed by the {self.plan.kernel} kernel: {self.plan.reason}",
        )


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return ", ".join(f"{name} {_shape(part)}" for name, part in zip(value._fields, value, strict=True))
    return type(value).__name__


@with_options(AttendOptions, DEFAULTS)
def attend(query: Tensor, key: Tensor, value: Tensor, **options: Unpack[AttendOptions]) -> Tensor:
    """Compute attention, ``Σ_n choice(score(k_n, q)) v_n`` for every query: (…, L, dv).

    query: (…, h, L, d); leading axes of the three broadcast.
    key: (…, k, S, d), where k equals h or divides it (grouped heads).
    value: (…, k, S, dv). Jagged nested tensors (B, h, length, d) run packed, each sequence on its own.
    score: the similarity of a query and a key; default the scaled dot product. By name: "dot", "scaled_dot", "gaussian".
    mask: which keys are visible to each query (True = visible); default all. `regard.dense` makes one of a bool tensor.
    bias: added to the scores: a tensor that broadcasts to (batch, heads, queries, keys), or a `Bias`. Tensors in masks and biases
        broadcast from the right, as torch's `attn_mask`: three axes are (heads, queries, keys); one per sequence is `m[:, None]`.
    choice: how a row of scores becomes weights; default softmax. By name: "softmax", "sparsemax", "entmax15", "argmax", "sample".
    dropout: probability of setting a weight to zero, applied whenever it is above 0 (there is no training mode here).
    generator: source of the random numbers of dropout and of `Sample`.
    kernel: "auto", or the name of one kernel: "native", "fused", "streamed", "reference".
    limit_bytes: raise MemoryError instead of allocating more than that.

    Returns the output, (…, h, L, dv), in the dtype of the query. Raises ValueError for shapes, masks or kernels that do not fit, with what
    was expected; TypeError for an argument of the wrong type.

    >>> q, k, v = (torch.randn(2, 4, 8, 16) for _ in range(3))
    >>> attend(q, k, v).shape
    torch.Size([2, 4, 8, 16])
    """
    if isinstance(query, Tensor) and query.is_nested:
        *packed, packed_options, unpack = pack(query, key, value, dict(options))
        return unpack(attend(*packed, **packed_options))
    if not intercepted() and (output := shortcut(query, key, value, options)) is not None:
        return output
    if "readings" in options:
        raise TypeError("attend returns the output alone; use observe(…, readings=…)")
    request = Request.of(query, key, value, **options)
    return request.restore_output(execute(request).output)


@with_options(ObserveOptions, DEFAULTS)
def observe(query: Tensor, key: Tensor, value: Tensor, **options: Unpack[ObserveOptions]) -> Attended:
    """Compute :func:`attend`, and also return the lse, the keys a hard choice picked, the readings and the plan.

    readings: statistics of the weights to compute, returned by name.
    others: as in :func:`attend`.

    Returns an :class:`Attended`.

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

    readings: as in :func:`observe`.
    others: as in :func:`attend`; nothing is computed, and the state of `generator` is left as it is.

    Returns a :class:`Plan`.

    >>> q = torch.randn(1, 8, 128, 64)
    >>> explain(q, q, q, kernel="streamed").kernel
    'streamed'
    """
    if isinstance(query, Tensor) and query.is_nested and not options.get("readings"):
        *packed, packed_options, _ = pack(query, key, value, dict(options))
        return explain(*packed, **packed_options)
    options["generator"] = None  # leave the state of the caller's generator as it is
    request = Request.of(query, key, value, needs_lse=bool(options.get("readings")), **options)
    kernel, rejected = select(request)
    if request.kernel == "auto":  # also say why the slower kernels would not run it
        slower = {other.name: why for other in order(request) if other is not kernel and (why := other.refuses(request)) is not None}
        rejected = {**rejected, **slower}
    return Plan.of(request, Selection(kernel, rejected))


__all__ = ["Attended", "Plan", "attend", "explain", "observe"]
