"""attend, observe, explain: score → choose → gather, and the choice of a kernel. The only doors to the kernels.

Axes: B batch, h heads, L queries, S keys, d width, dv value width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from .biases import Bias
from .choices import Choice, Sample, Softmax
from .kernels import KERNELS, SMALL, order
from .kernels.fused import plain
from .kernels.spec import Kernel, Result, Spec
from .masks import Mask
from .readings import Reading
from .scores import Prepared, ScaledDot, Score

_SCORE = ScaledDot()
_CHOICE = Softmax()


@dataclass(frozen=True)
class Plan:
    """Which kernel runs, why, why not the others, and how much memory it takes beside its inputs."""

    kernel: str
    reason: str
    rejected: dict[str, str]
    bytes: int

    def __str__(self) -> str:
        line = f"kernel  {self.kernel}   reason  {self.reason}   bytes  {_size(self.bytes)}"
        if self.rejected:
            line += "   rejected  " + "; ".join(f"{name}: {why}" for name, why in self.rejected.items())
        return line


@dataclass(frozen=True, eq=False)
class Attended:
    """What attention gives back. Fields that a choice does not define are None.

    output (…, L, dv); lse (…, L), the log of the softmax's denominator; index and log_prob (…, L) of a hard choice.
    """

    output: Tensor
    lse: Tensor | None = None
    index: Tensor | None = None
    log_prob: Tensor | None = None
    readings: dict[str, Any] = field(default_factory=dict)
    plan: Plan | None = None


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
    kernel: str = "auto",
    limit_bytes: int | None = None,
) -> Tensor:
    """``Σ_n choice(score(k_n, q)) v_n`` for every query: (…, L, dv).

    query (…, h, L, d), key (…, k, S, d), value (…, k, S, dv), where k divides h (grouped heads) or equals it; leading axes
    broadcast. ``dropout`` acts whenever it is above zero. ``limit_bytes`` raises before more than that is allocated.

    >>> q, k, v = (torch.randn(2, 4, 8, 16) for _ in range(3))
    >>> attend(q, k, v).shape
    torch.Size([2, 4, 8, 16])
    """
    if (
        score is _SCORE
        and choice is _CHOICE
        and mask is None
        and bias is None
        and not dropout
        and kernel == "auto"
        and limit_bytes is None
        and plain(query, key, value)
        and query.numel() * key.shape[2] < SMALL
        and not (query.dtype == torch.bfloat16 and query.requires_grad)
    ):
        # Nothing to decide and little to do: the general path would come to the same call.
        return scaled_dot_product_attention(query, key, value)
    spec, lead = _spec(query, key, value, score, mask, bias, choice, dropout, generator, (), limit_bytes, wants_lse=False)
    return _restore(_choose(spec, kernel)[0].run(spec).output, lead).to(_dtype(value))


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
    kernel: str = "auto",
    limit_bytes: int | None = None,
    readings: Sequence[Reading] = (),
) -> Attended:
    """:func:`attend`, and what was seen on the way: lse, picks, readings, and the plan.

    >>> from regard import Entropy
    >>> q = torch.zeros(1, 1, 4, 8)
    >>> observe(q, q, q, readings=[Entropy()]).readings["entropy"].exp().round().tolist()
    [[[4.0, 4.0, 4.0, 4.0]]]
    """
    spec, lead = _spec(query, key, value, score, mask, bias, choice, dropout, generator, tuple(readings), limit_bytes, wants_lse=True)
    picked, rejected = _choose(spec, kernel)
    return _attended(spec, picked.run(spec), _plan(picked, spec, rejected), lead, _dtype(value))


def explain(
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
    kernel: str = "auto",
    limit_bytes: int | None = None,
    readings: Sequence[Reading] = (),
) -> Plan:
    """Which kernel :func:`attend` would pick (:func:`observe`, if readings are given), without running it.

    >>> q = torch.randn(1, 8, 128, 64)
    >>> explain(q, q, q, kernel="streamed").kernel
    'streamed'
    """
    wants_lse = bool(readings)
    spec, _ = _spec(query, key, value, score, mask, bias, choice, dropout, None, tuple(readings), limit_bytes, wants_lse=wants_lse)
    picked, rejected = _choose(spec, kernel)
    if kernel == "auto":  # say of the slower ones too why they would not do
        later = {other.name: why for other in order(spec) if other is not picked and (why := other.refuses(spec)) is not None}
        rejected = {**rejected, **later}
    return _plan(picked, spec, rejected)


def _plan(kernel: Kernel, spec: Spec, rejected: dict[str, str]) -> Plan:
    return Plan(kernel.name, kernel.reason(spec), rejected, kernel.bytes(spec))


def _choose(spec: Spec, name: str) -> tuple[Kernel, dict[str, str]]:
    """The first kernel, fastest first, that can run the spec within its limit; and why not those before it."""
    if name != "auto" and name not in KERNELS:
        raise ValueError(f"kernel is {name!r}; expected 'auto' or one of {', '.join(map(repr, KERNELS))}")
    candidates = order(spec) if name == "auto" else (KERNELS[name],)
    rejected: dict[str, str] = {}
    for kernel in candidates:
        why = kernel.refuses(spec)
        if why is None and spec.limit_bytes is not None and kernel.bytes(spec) > spec.limit_bytes:
            why = f"needs {_size(kernel.bytes(spec))}, over limit_bytes={_size(spec.limit_bytes)}"
        if why is None:
            return kernel, rejected
        rejected[kernel.name] = why
    reasons = "; ".join(f"{kernel}: {why}" for kernel, why in rejected.items())
    if any("limit_bytes" in why for why in rejected.values()):
        raise MemoryError(f"no kernel fits limit_bytes={spec.limit_bytes} ({reasons}); raise the limit or shorten the input")
    raise ValueError(f"kernel={name!r} cannot run this ({reasons}); use kernel='auto'")


def _spec(
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
    limit_bytes: int | None,
    *,
    wants_lse: bool,
) -> tuple[Spec, tuple[int, ...]]:
    """Check everything, lower the score, and bring the tensors to (B, h, L, d); also the axes to give back."""
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        given = ", ".join(type(x).__name__ for x in (query, key, value))
        raise TypeError(f"query, key and value are {given}; expected torch tensors")
    _check(query, key, value, score, dropout)
    if torch.is_autocast_enabled(query.device.type):
        query, key, value = (x.to(_dtype(x)) for x in (query, key, value))
    if score.widens and query.dtype in (torch.bfloat16, torch.float16):
        query, key, value = query.float(), key.float(), value.float()
    query, key, value, lead = _four(query, key, value)
    B, h, L, S = (*query.shape[:3], key.shape[2])
    if mask is not None:
        if not isinstance(mask, Mask):
            raise TypeError(
                f"mask is a {type(mask).__name__}; expected a regard mask: wrap a boolean tensor in regard.dense (True = may look)"
            )
        mask.check(B, h, L, S)
        if L == 1 and S and mask.tile(range(1), range(S), 1, S, device=query.device) == "all":
            mask = None  # the one query of a decoding step stands at the end and sees every key: no mask at all
    beta = _beta(choice, h)
    sinks = _sinks(choice, h, beta)
    lowered = score.lower(query, key)
    if lowered is not None and lowered.row_shift is not None and sinks is not None:
        lowered = None  # a sink competes with the scores themselves, so what is constant along a row no longer cancels
    if lowered is not None:
        query, key = lowered.query, lowered.key
    else:
        query, key = score.prepare(query, key)
    shift = (
        None
        if lowered is None or lowered.row_shift is None
        else lowered.row_shift * (beta.view(-1, 1) if isinstance(beta, Tensor) and beta.dim() else beta)
    )
    device = query.device
    return (
        Spec(
            query,
            key,
            value,
            choice,
            score=None if lowered is not None else score.inner if isinstance(score, Prepared) else score,
            scale=1.0 if lowered is None else lowered.scale,
            cap=None if lowered is None else lowered.cap,
            key_bias=None if lowered is None else lowered.key_bias,
            row_shift=shift,
            mask=mask,
            bias=_bias(bias, B, h, L, S),
            beta=beta,
            sinks=sinks,
            dropout=dropout,
            seed=_seed(generator) if dropout else 0,
            uniform=torch.rand(B, h, L, dtype=torch.float64, generator=generator, device=device) if isinstance(choice, Sample) else None,
            readings=readings,
            wants_lse=wants_lse,
            limit_bytes=limit_bytes,
        ),
        lead,
    )


def _check(query: Tensor, key: Tensor, value: Tensor, score: Score, dropout: float) -> None:
    if query.dim() < 2 or key.dim() < 2 or value.dim() < 2:
        name, x = next((name, x) for name, x in (("query", query), ("key", key), ("value", value)) if x.dim() < 2)
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected at least (positions, features)")
    dtype = query.dtype
    if not (dtype.is_floating_point and dtype == key.dtype == value.dtype):
        for name, x in (("query", query), ("key", key), ("value", value)):
            if not x.is_floating_point():
                raise TypeError(f"{name} is {x.dtype}; attention needs floating point, e.g. {name}.float()")
        if not torch.is_autocast_enabled(query.device.type):
            raise TypeError(f"query is {dtype}, key {key.dtype}, value {value.dtype}; bring them to one dtype")
    if not query.device == key.device == value.device:
        raise ValueError(f"query is on {query.device}, key on {key.device}, value on {value.device}; move them to one device")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"there are {key.shape[-2]} keys but {value.shape[-2]} values; each key needs its value")
    score.check(query.shape[-1], key.shape[-1])
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}; expected 0 ≤ dropout < 1")


def _four(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor, tuple[int, ...]]:
    """(…, h, L, d) with broadcast leading axes → (B, h, L, d). Key heads that divide the query's stay un-repeated."""
    if query.dim() == key.dim() == value.dim() == 4 and query.shape[0] == key.shape[0] == value.shape[0]:
        h, k = query.shape[1], key.shape[1]
        if k == value.shape[1] and (h == k or (k and h % k == 0)):
            return query, key, value, query.shape[:2]
    dims = max(query.dim(), key.dim(), value.dim())
    query, key, value = (x.reshape((1,) * (dims - x.dim()) + x.shape) for x in (query, key, value))
    heads = [x.shape[-3] if dims > 3 else 1 for x in (query, key, value)]
    h, k = heads[0], max(heads[1:]) if 0 not in heads[1:] else 0
    fits = all(n in (1, k) for n in heads[1:]) and (h == k or (k and h % k == 0) or h == 1)
    lead_axes = [x.shape[:-3] if dims > 3 else x.shape[:-2] for x in (query, key, value)]
    try:
        lead = torch.broadcast_shapes(*lead_axes)
    except RuntimeError:
        fits = False
        lead = ()
    if not fits:
        raise ValueError(
            f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} do not fit: "
            "leading axes must be equal or 1, and the number of key and value heads (third axis from the end) must divide the query's"
        )
    h = max(h, k)
    if dims > 3:
        query = query.expand(*lead, h, *query.shape[-2:])
        key, value = (x.expand(*lead, k, *x.shape[-2:]) for x in (key, value))
        axes: tuple[int, ...] = (*lead, h)
    else:
        query, key, value = (x.expand(*lead, *x.shape[-2:]).unsqueeze(-3) for x in (query, key, value))
        axes = tuple(lead)
    query, key, value = (x.reshape(-1 if x.numel() else _count(lead), *x.shape[-3:]) for x in (query, key, value))
    return query, key, value, axes


def _count(axes: Sequence[int]) -> int:
    total = 1
    for n in axes:
        total *= n
    return total


def _restore(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """(B, h, …) back to the axes the caller gave."""
    return x if x.shape[:2] == lead else x.reshape(*lead, *x.shape[2:])


def _attended(spec: Spec, result: Result, plan: Plan, lead: tuple[int, ...], dtype: torch.dtype) -> Attended:
    lse = result.lse
    if lse is not None and spec.row_shift is not None:
        lse = lse + spec.row_shift
    lse, index, log_prob = (None if x is None else _restore(x, lead) for x in (lse, result.index, result.log_prob))
    B, h = spec.query.shape[:2]
    readings = {name: _restore_any(value, (B, h), lead) for name, value in result.readings.items()}
    return Attended(_restore(result.output, lead).to(dtype), lse, index, log_prob, readings, plan)


def _restore_any(value: Any, heads: tuple[int, int], lead: tuple[int, ...]) -> Any:
    """A reading's tensors back to the caller's axes; tuples of tensors field by field."""
    if isinstance(value, Tensor):
        return _restore(value, lead) if value.shape[:2] == heads else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_restore_any(x, heads, lead) for x in value))
    return value


def _dtype(x: Tensor) -> torch.dtype:
    """What torch's SDPA runs in: under autocast, everything but float64 runs in the autocast dtype."""
    if x.dtype == torch.float64 or not torch.is_autocast_enabled(x.device.type):
        return x.dtype
    return torch.get_autocast_dtype(x.device.type)


def _bias(bias: Tensor | Bias | None, B: int, h: int, L: int, S: int) -> Tensor | Bias | None:
    if bias is None:
        return None
    if isinstance(bias, Bias):
        bias.check(h)
        return bias
    if not isinstance(bias, Tensor) or not bias.is_floating_point():
        given = bias.dtype if isinstance(bias, Tensor) else type(bias).__name__
        raise TypeError(f"bias is {given}; expected floating-point numbers (for True and False pass mask=regard.dense(...))")
    full = bias.reshape((1,) * (4 - bias.dim()) + bias.shape) if bias.dim() < 4 else bias
    if full.dim() != 4 or any(n not in (1, wanted) for n, wanted in zip(full.shape, (B, h, L, S), strict=True)):
        raise ValueError(
            f"bias has shape {tuple(bias.shape)}; expected something that broadcasts to (batch, heads, queries, keys) = {(B, h, L, S)}"
        )
    return full


def _beta(choice: Choice, heads: int) -> float | Tensor:
    t = choice.temperature
    if not isinstance(t, Tensor):
        return 1.0 / t
    if t.dim() and t.numel() not in (1, heads):
        raise ValueError(f"temperature has {t.numel()} entries but there are {heads} heads; give one number or one per head")
    return t.reciprocal()


def _sinks(choice: Choice, heads: int, beta: float | Tensor) -> Tensor | None:
    sinks = getattr(choice, "sinks", None)
    if sinks is None:
        return None
    if sinks.numel() != heads:
        raise ValueError(f"sinks has {sinks.numel()} logits but there are {heads} heads; give one per head")
    result: Tensor = sinks * beta
    return result


def _seed(generator: torch.Generator | None) -> int:
    device = generator.device if generator is not None else "cpu"
    return int(torch.randint(2**62, (), generator=generator, device=device))


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


__all__ = ["Attended", "Plan", "attend", "explain", "observe"]
