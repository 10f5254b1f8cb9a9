"""attend and observe for a sequence sharded over several ranks: the entry points of ring attention.

Axes: B batch, h heads, N positions of the whole sequence, n of this rank's, d width, dv value width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import torch
import torch.distributed as dist
from torch import Tensor

from ..attention import Attended, Plan
from ..biases import Bias
from ..choices import Softmax
from ..kernels.named_parts import as_choice, as_score
from ..kernels.request import DEFAULTS, AttentionOptions, Request, accumulator, check_bias, check_readings, with_options
from ..masks import Mask
from ..readings import Reading
from ..scores import Lowered, Prepared, Score
from .call_check import check_calls
from .exchange import Exchange
from .layout import Kind
from .reading import read
from .ring import Autograd, Ring

TIMEOUT = 300.0  # seconds a rank waits for another before it raises RingError


class RingOptions(TypedDict, total=False):
    """The keyword arguments of every sharded call: how the ring is run."""

    group: dist.ProcessGroup | None
    layout: Kind
    timeout: float
    check: bool


class RingAttendOptions(AttentionOptions, RingOptions, total=False):
    """The keyword arguments of `regard.parallel.attend`."""


class RingObserveOptions(RingAttendOptions, total=False):
    """The keyword arguments of `regard.parallel.observe`."""

    readings: Sequence[Reading]


RING_DEFAULTS: RingObserveOptions = {
    **{name: value for name, value in DEFAULTS.items() if name not in ("kernel", "limit_bytes")},  # type: ignore[typeddict-item]
    "group": None,
    "layout": "zigzag",
    "timeout": TIMEOUT,
    "check": True,
}


@with_options(RingAttendOptions, RING_DEFAULTS)
def attend(query: Tensor, key: Tensor, value: Tensor, **options: Unpack[RingAttendOptions]) -> Tensor:
    """Compute `regard.attend` of a sharded sequence; call it on every rank of `group` with that rank's part: (…, n, dv).

    query: (…, h, n, d), as returned by `regard.parallel.shard(x, -2)`.
    key, value: (…, k, m, d) and (…, k, m, dv), likewise.
    mask: of the whole sequence.
    bias: a `Bias` of the whole sequence, or a tensor (…, this rank's queries or 1, all keys or 1).
    group: the ranks; None: all.
    layout: how positions are divided, as in :class:`Layout`.
    timeout: seconds without an answer of a rank after which `RingError` is raised.
    check: whether the calls of all ranks are first compared in one small all-gather; without it all ranks must hold equal shares.
    others: as in :func:`regard.attend`.

    Gradients are exact: those of keys and
    values are summed over all ranks; of replicated tensors (score, bias, temperature, sinks) each rank gets its share, to be summed as
    by DDP. Every rank must call, and must call backward.

    Returns this rank's part of the output. Memory beside the inputs is O(n).

    >>> q = torch.randn(1, 4, 8, 16)
    >>> attend(q, q, q).shape  # without torch.distributed: a ring of one
    torch.Size([1, 4, 8, 16])
    """
    ring = make_ring(query, key, value, **options)
    return ring.request.restore_output(run(ring)[0])


@with_options(RingObserveOptions, RING_DEFAULTS)
def observe(query: Tensor, key: Tensor, value: Tensor, **options: Unpack[RingObserveOptions]) -> Attended:
    """Compute :func:`attend`, and also return the lse of this rank's queries and the readings of the whole sequence, on every rank.

    readings: statistics of the weights, as in :func:`regard.observe`.
    others: as in :func:`attend`.

    Returns an `Attended`. Raises TypeError for readings that cannot be joined over ranks.

    >>> from regard import Entropy
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Entropy()]).readings["entropy"].exp().round().tolist()
    [[[4.0, 4.0, 4.0, 4.0]]]
    """
    readings = check_readings(options.get("readings", ()))
    for reading in readings:
        if type(reading).merge is Reading.merge:  # every rank says so, before any waits for another
            raise TypeError(f"{type(reading).__name__} does not define merge(a, b), by which the ranks' states are joined")
        if getattr(reading, "grad", False):
            raise TypeError(f"{reading!r} has a gradient, which is not computed across ranks; read it with grad=False")
    ring = make_ring(query, key, value, **options)
    output, lse = run(ring)
    results = read(ring, readings, lse.detach()) if readings else {}
    restore = ring.request.restore
    restored = {name: restore(result) for name, result in results.items()}
    return Attended(ring.request.restore_output(output), restore(lse), readings=restored, plan=plan(ring))


def run(ring: Ring) -> tuple[Tensor, Tensor]:
    """Output and lse of this rank's queries; differentiable if a gradient is needed."""
    inputs = ring.inputs()
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
        results: tuple[Tensor, Tensor] = Autograd.apply(ring, *inputs)  # type: ignore[no-untyped-call]
        return results
    with torch.no_grad():
        return ring.forward()


def plan(ring: Ring) -> Plan:
    """The plan of a ring, as `regard.explain` returns for one process."""
    ranks, request = ring.exchange.ranks, ring.request
    steps = sum(ring.needs(ring.exchange.rank, other) for other in range(ranks))
    reason = f"{ranks} ranks, {ring.keys.kind}: this one attends to {steps} of {ranks} blocks of keys"
    B, h, n, _ = request.sizes
    wide = accumulator(request.query.dtype).itemsize
    max_keys = max((ring.keys.size(rank) for rank in range(ranks)), default=0)
    block = max_keys * B * request.key.shape[1] * (request.key.shape[3] + request.value.shape[3])
    total = B * h * n * (2 * request.value.shape[3] + 2) * wide + (2 if ranks > 1 else 0) * block * request.key.element_size()
    if request.needs_grad:
        total += wide * (request.query.numel() + (4 if ranks > 1 else 1) * block)
    return Plan("ring", reason, {}, total)


def make_ring(query: Tensor, key: Tensor, value: Tensor, **options: Unpack[RingObserveOptions]) -> Ring:
    """Validate this rank's call, compare it with the other ranks' calls, and build the ring."""
    arguments: dict[str, Any] = {**RING_DEFAULTS, **options}
    score, choice, mask, bias = as_score(arguments["score"]), as_choice(arguments["choice"]), arguments["mask"], arguments["bias"]
    arguments |= {"score": score, "choice": choice}
    if type(choice) is not Softmax:
        raise ValueError(
            f"{type(choice).__name__} cannot be merged block by block; a ring needs Softmax (or unshard the keys and use regard.attend)"
        )
    if mask is not None and not isinstance(mask, Mask):
        raise TypeError(f"mask is a {type(mask).__name__}; expected a regard mask of the whole sequence")
    local = {name: arguments[name] for name in arguments.keys() - {"mask", "bias", "readings"} - RingOptions.__annotations__.keys()}
    request = Request.of(query, key, value, **{**local, "score": _LoweredKeyByKey(score)}, needs_lse=True)
    if request.score is not None:
        request.score = score.inner if isinstance(score, Prepared) else score
    exchange = Exchange(arguments["group"], arguments["timeout"])
    valid_bias = bias if isinstance(bias, Bias | Tensor) else None  # anything else is an error of check_bias below
    queries, keys = check_calls(exchange, request, mask, valid_bias, arguments["readings"], arguments["layout"], check=arguments["check"])
    B, h, n, _ = request.sizes
    if mask is not None:
        mask = mask.aligned((B, h) if request.axes is None else request.axes)
        mask.check(B, h, queries.length, keys.length)
    if bias is not None:
        bias = check_bias(bias, request.axes, B, h, n, keys.length)
    return Ring(request, mask, bias, queries, keys, exchange)


class _LoweredKeyByKey(Score):
    """A score lowered only where each key is lowered on its own: a Gaussian's centre would differ between ranks."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.inner = score
        self.widens = score.widens

    def lower(self, query: Tensor, key: Tensor) -> Lowered | None:
        lowered = self.inner.lower(query, key)
        return None if lowered is None or lowered.row_shift is not None else lowered

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner.prepare(query, key)

    def check(self, query_width: int, key_width: int) -> None:
        self.inner.check(query_width, key_width)


__all__ = ["RING_DEFAULTS", "TIMEOUT", "RingOptions", "attend", "make_ring", "observe", "plan", "run"]
