"""attend and observe for a sequence whose positions lie on several ranks: the entry points of ring attention.

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
from ..kernels.request import DEFAULTS, AttentionOptions, Request, accumulator, check_bias, check_readings, check_score, with_options
from ..masks import Mask
from ..readings import Reading
from ..scores import Lowered, Prepared, Score
from .call_check import check_calls
from .exchange import Exchange
from .layout import Kind
from .reading import read
from .ring import Autograd, Ring

TIMEOUT = 300.0  # seconds a rank waits for another before it says so


class RingOptions(TypedDict, total=False):
    """How a ring is run: the keyword arguments every sharded call takes."""

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
    """`regard.attend` of a whole sequence, called on every rank of `group` with that rank's part: (…, n, dv).

    query (…, h, n, d), key (…, k, m, d), value (…, k, m, dv) as `regard.parallel.shard(x, -2)` deals them out. ``mask`` and a bias object
    describe the whole sequence; a bias tensor is (…, this rank's queries or 1, all keys or 1). Gradients are exact: keys and values
    collect them from all ranks; of what every rank holds alike (score, bias, temperature, sinks) each rank gets its own share, to be
    summed as DDP does. Every rank must call, and must call backward.

    ``check`` compares the calls in one small all-gather first; without it every rank must hold an equal share. A rank that does not
    answer within ``timeout`` seconds raises `RingError`. Memory beside the inputs is O(n).

    >>> q = torch.randn(1, 4, 8, 16)
    >>> attend(q, q, q).shape  # without torch.distributed: a ring of one
    torch.Size([1, 4, 8, 16])
    """
    ring = make_ring(query, key, value, **options)
    return ring.request.restore_output(run(ring)[0])


@with_options(RingObserveOptions, RING_DEFAULTS)
def observe(query: Tensor, key: Tensor, value: Tensor, **options: Unpack[RingObserveOptions]) -> Attended:
    """:func:`attend`, with the lse of this rank's queries, and the readings of the whole sequence, the same on every rank.

    >>> from regard import Entropy
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Entropy()]).readings["entropy"].exp().round().tolist()
    [[[4.0, 4.0, 4.0, 4.0]]]
    """
    readings = check_readings(options.get("readings", ()))
    for reading in readings:
        if type(reading).merge is Reading.merge:  # every rank says so, before any waits for another
            raise TypeError(f"{type(reading).__name__} does not define merge(a, b), by which the ranks' states are joined")
    ring = make_ring(query, key, value, **options)
    output, lse = run(ring)
    results = read(ring, readings, lse.detach()) if readings else {}
    restore = ring.request.restore
    shown = {name: restore(result) for name, result in results.items()}
    return Attended(ring.request.restore_output(output), restore(lse), readings=shown, plan=plan(ring))


def run(ring: Ring) -> tuple[Tensor, Tensor]:
    """Output and lse of this rank's queries, differentiable if asked for."""
    inputs = ring.inputs()
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
        results: tuple[Tensor, Tensor] = Autograd.apply(ring, *inputs)  # type: ignore[no-untyped-call]
        return results
    with torch.no_grad():
        return ring.forward()


def plan(ring: Ring) -> Plan:
    """What a ring does, in the form `regard.explain` gives."""
    ranks, request = ring.exchange.ranks, ring.request
    steps = sum(ring.wanted(ring.exchange.rank, other) for other in range(ranks))
    reason = f"{ranks} ranks, {ring.keys.kind}: this one attends to {steps} of {ranks} blocks of keys"
    B, h, n, _ = request.sizes
    wide = accumulator(request.query.dtype).itemsize
    most_keys = max((ring.keys.size(rank) for rank in range(ranks)), default=0)
    held = most_keys * B * request.key.shape[1] * (request.key.shape[3] + request.value.shape[3])
    total = B * h * n * (2 * request.value.shape[3] + 2) * wide + (2 if ranks > 1 else 0) * held * request.key.element_size()
    if request.needs_grad:
        total += wide * (request.query.numel() + (4 if ranks > 1 else 1) * held)
    return Plan("ring", reason, {}, total)


def make_ring(query: Tensor, key: Tensor, value: Tensor, **options: Unpack[RingObserveOptions]) -> Ring:
    """Check this rank's own call, compare it with the others', and lay out the work."""
    given: dict[str, Any] = {**RING_DEFAULTS, **options}
    score, mask, bias, choice = given["score"], given["mask"], given["bias"], given["choice"]
    check_score(score)
    if type(choice) is not Softmax:
        raise ValueError(
            f"{type(choice).__name__} cannot be merged block by block; a ring needs Softmax (gather the keys and use regard.attend)"
        )
    if mask is not None and not isinstance(mask, Mask):
        raise TypeError(f"mask is a {type(mask).__name__}; expected a regard mask of the whole sequence")
    own = {name: given[name] for name in given.keys() - {"mask", "bias", "readings"} - RingOptions.__annotations__.keys()}
    request = Request.of(query, key, value, **{**own, "score": _LoweredKeyByKey(score)}, wants_lse=True)
    if request.score is not None:
        request.score = score.inner if isinstance(score, Prepared) else score
    exchange = Exchange(given["group"], given["timeout"])
    known_bias = bias if isinstance(bias, Bias | Tensor) else None
    queries, keys = check_calls(exchange, request, mask, known_bias, given["readings"], given["layout"], check=given["check"])
    B, h, n, _ = request.sizes
    if mask is not None:
        mask.check(B, h, queries.length, keys.length)
    return Ring(request, mask, check_bias(bias, B, h, n, keys.length), queries, keys, exchange)


class _LoweredKeyByKey(Score):
    """A score lowered only where that is done key by key: a Gaussian's centre would be another on every rank."""

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
