"""attend and observe for a sequence whose positions lie on several ranks. The doors to a ring.

Axes: B batch, h heads, N positions of the whole sequence, n of this rank's, d width, dv value width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from ..attention import Attended, Plan, _bias, _dtype, _restore, _restore_any, _spec
from ..biases import Bias
from ..choices import Choice, Softmax
from ..kernels.spec import accumulator
from ..masks import Mask
from ..readings import Reading
from ..scores import Lowered, Prepared, ScaledDot, Score
from .agreement import agree
from .exchange import Exchange
from .layout import Kind
from .reading import read
from .ring import Autograd, Ring

_SCORE = ScaledDot()
_CHOICE = Softmax()
TIMEOUT = 300.0  # seconds a rank waits for another before it says so


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Score = _SCORE,
    mask: Mask | None = None,
    bias: Tensor | Bias | None = None,
    choice: Choice = _CHOICE,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
    group: dist.ProcessGroup | None = None,
    layout: Kind = "zigzag",
    timeout: float = TIMEOUT,
    check: bool = True,
) -> Tensor:
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
    ring, lead = _ring(query, key, value, score, mask, bias, choice, dropout, generator, (), group, layout, timeout, check)
    return _restore(_run(ring)[0], lead).to(_dtype(value))


def observe(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Score = _SCORE,
    mask: Mask | None = None,
    bias: Tensor | Bias | None = None,
    choice: Choice = _CHOICE,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
    readings: Sequence[Reading] = (),
    group: dist.ProcessGroup | None = None,
    layout: Kind = "zigzag",
    timeout: float = TIMEOUT,
    check: bool = True,
) -> Attended:
    """:func:`attend`, with the lse of this rank's queries, and the readings of the whole sequence, the same on every rank.

    >>> from regard import Entropy
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Entropy()]).readings["entropy"].exp().round().tolist()
    [[[4.0, 4.0, 4.0, 4.0]]]
    """
    readings = tuple(readings)
    ring, lead = _ring(query, key, value, score, mask, bias, choice, dropout, generator, readings, group, layout, timeout, check)
    output, lse = _run(ring)
    found = read(ring, readings, lse.detach()) if readings else {}
    B, h = ring.spec.query.shape[:2]
    shown = {name: _restore_any(x, (B, h), lead) for name, x in found.items()}
    return Attended(_restore(output, lead).to(_dtype(value)), _restore(lse, lead), readings=shown, plan=plan(ring))


def _run(ring: Ring) -> tuple[Tensor, Tensor]:
    inputs = ring.inputs()
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
        found: tuple[Tensor, Tensor] = Autograd.apply(ring, *inputs)  # type: ignore[no-untyped-call]
        return found
    with torch.no_grad():
        return ring.forward()


def plan(ring: Ring) -> Plan:
    """What a ring does, as the door of one process says it."""
    ranks, spec = ring.exchange.ranks, ring.spec
    steps = sum(ring.wanted(ring.exchange.rank, other) for other in range(ranks))
    reason = f"{ranks} ranks, {ring.keys.kind}: this one looks at {steps} of {ranks} blocks of keys"
    B, h, n, _ = spec.sizes
    wide = accumulator(spec.query.dtype).itemsize
    held = (
        max((ring.keys.size(rank) for rank in range(ranks)), default=0) * B * spec.key.shape[1] * (spec.key.shape[3] + spec.value.shape[3])
    )
    total = B * h * n * (2 * spec.value.shape[3] + 2) * wide + (2 if ranks > 1 else 0) * held * spec.key.element_size()
    if spec.needs_grad:
        total += wide * (spec.query.numel() + (4 if ranks > 1 else 1) * held)
    return Plan("ring", reason, {}, total)


def _ring(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Score,
    mask: Mask | None,
    bias: Tensor | Bias | None,
    choice: Choice,
    dropout: float,
    generator: torch.Generator | None,
    readings: tuple[Reading, ...],
    group: dist.ProcessGroup | None,
    layout: Kind,
    timeout: float,
    check: bool,
) -> tuple[Ring, tuple[int, ...]]:
    """Check this rank's own call, compare it with the others', and lay out the work."""
    if type(choice) is not Softmax:
        raise ValueError(
            f"{type(choice).__name__} cannot be merged block by block; a ring needs Softmax (gather the keys and use regard.attend)"
        )
    if mask is not None and not isinstance(mask, Mask):
        raise TypeError(f"mask is a {type(mask).__name__}; expected a regard mask of the whole sequence")
    exchange = Exchange(group, timeout)
    spec, lead = _spec(query, key, value, _OneByOne(score), None, None, choice, dropout, generator, (), None, wants_lse=True)
    if spec.score is not None:
        spec.score = score.inner if isinstance(score, Prepared) else score
    queries, keys = agree(exchange, spec, mask, bias if isinstance(bias, Bias | Tensor) else None, readings, layout, check=check)
    B, h, n, _ = spec.sizes
    if mask is not None:
        mask.check(B, h, queries.length, keys.length)
    return Ring(spec, mask, _bias(bias, B, h, n, keys.length), queries, keys, exchange), lead


class _OneByOne(Score):
    """A score lowered only where that is done key by key: a Gaussian's centre would be another on every rank."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.inner = score
        self.widens = score.widens

    def lower(self, query: Tensor, key: Tensor) -> Lowered | None:
        found = self.inner.lower(query, key)
        return None if found is None or found.row_shift is not None else found

    def prepare(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner.prepare(query, key)

    def check(self, query_width: int, key_width: int) -> None:
        self.inner.check(query_width, key_width)


__all__ = ["TIMEOUT", "attend", "observe", "plan"]
