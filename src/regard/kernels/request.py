"""One attention call, validated and normalised: the input of every kernel, and how results get the caller's axes back.

Axes: B batch, h query heads, k key heads (k divides h), L queries, S keys, d width, dv value width.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypedDict, TypeVar, Unpack

import torch
from torch import Tensor

from ..biases import Bias
from ..choices import Choice, Sample, Softmax
from ..masks import Mask
from ..readings import Reading, Shape
from ..scores import Lowered, Prepared, ScaledDot, Score
from .axes import align_bias, to_bhld
from .named_parts import as_choice, as_score


class AttentionOptions(TypedDict, total=False):
    """The keyword arguments of every entry point, those of `regard.parallel` included: what is computed."""

    score: Score | str
    mask: Mask | None
    bias: Tensor | Bias | None
    choice: Choice | str
    dropout: float
    generator: torch.Generator | None


class AttendOptions(AttentionOptions, total=False):
    """The keyword arguments of `regard.attend`: also with which kernel, in how much memory."""

    kernel: str
    limit_bytes: int | None


class ObserveOptions(AttendOptions, total=False):
    """The keyword arguments of `regard.observe` and `regard.explain`: also statistics of the weights."""

    readings: Sequence[Reading]


DEFAULTS: ObserveOptions = {
    "score": ScaledDot(),
    "mask": None,
    "bias": None,
    "choice": Softmax(),
    "dropout": 0.0,
    "generator": None,
    "kernel": "auto",
    "limit_bytes": None,
    "readings": (),
}


_F = TypeVar("_F", bound=Callable[..., Any])


def with_options(options: type, defaults: Mapping[str, Any]) -> Callable[[_F], _F]:
    """Decorator: list the keyword arguments of a TypedDict, with defaults, in a function's signature (`help`, documentation)."""

    def decorate(function: _F) -> _F:
        signature = inspect.signature(function)
        keywords = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=getattr(kind, "__forward_arg__", kind)
            )
            for name, kind in inspect.get_annotations(options).items()
        ]
        positional = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        function.__signature__ = signature.replace(parameters=[*positional, *keywords])  # type: ignore[attr-defined]
        return function

    return decorate


class Input(IntEnum):
    """The index of each tensor in `Request.inputs`; the parameters of the score and of the bias start at PARAMETERS."""

    QUERY = 0
    KEY = 1
    VALUE = 2
    KEY_BIAS = 3
    BIAS = 4
    BETA = 5
    SINKS = 6
    CHOICE = 7
    PARAMETERS = 8


@dataclass(eq=False, slots=True)
class Request:
    """z = β · (cap(scale · q·k + key_bias) + bias), or score.tile(q, k) in place of the dot product; −∞ where the mask is False.

    Built by `Request.of`. Treated as immutable; not a frozen dataclass because building one of this size takes microseconds.

    >>> q = torch.zeros(2, 3, 4)
    >>> Request.of(q, q, q).sizes
    (2, 1, 3, 3)
    """

    query: Tensor  # (B, h, L, d), any strides
    key: Tensor  # (B, k, S, d)
    value: Tensor  # (B, k, S, dv)
    choice: Choice  # how scores become weights
    score: Score | None = None  # None: the lowered form below; else query and key are already prepared
    scale: float = 1.0  # factor of the dot product
    cap: float | None = None  # soft cap of the scores
    key_bias: Tensor | None = None  # (B, k, S)
    row_shift: Tensor | None = None  # (B, h, L): `Lowered.row_shift`; not part of z, added to MaxLogit and the lse
    mask: Mask | None = None  # None: everything is visible
    bias: Tensor | Bias | None = None  # a tensor is 4-D, broadcastable to (B, h, L, S)
    beta: float | Tensor = 1.0  # inverse temperature: a number, or a tensor () or (h,)
    sinks: Tensor | None = None  # (h,), already times beta
    dropout: float = 0.0  # probability
    seed: int = 0  # of the dropout hash
    uniform: Tensor | None = None  # (B, h, L) float64 in [0, 1): one random number per row, for Sample
    readings: tuple[Reading, ...] = ()  # statistics of the weights to compute
    needs_lse: bool = False  # whether the result must have the lse
    kernel: str = "auto"  # the kernel's name, or "auto"
    limit_bytes: int | None = None  # raise MemoryError above that
    axes: tuple[int, ...] | None = None  # the caller's axes in place of (B, h); None: (B, h) itself
    dtype: torch.dtype | None = None  # of the caller's output; None: the kernel's

    @classmethod
    def of(cls, query: Tensor, key: Tensor, value: Tensor, *, needs_lse: bool = False, **options: Unpack[ObserveOptions]) -> Request:
        """Validate one call, lower its score to a dot product where that is exact, and reshape the tensors to (B, h, L, d).

        query, key, value and other options: as in `regard.observe`.
        needs_lse: whether the result must have the lse.

        >>> q = torch.randn(5, 16)
        >>> request = Request.of(q, q, q)
        >>> request.query.shape, request.restore(request.query).shape
        (torch.Size([1, 1, 5, 16]), torch.Size([5, 16]))
        """
        arguments: dict[str, Any] = {**DEFAULTS, **options}
        if len(arguments) != len(DEFAULTS):
            raise TypeError(_unknown_options(options))
        score, choice = as_score(arguments["score"]), as_choice(arguments["choice"])
        mask, bias, dropout, generator = arguments["mask"], arguments["bias"], arguments["dropout"], arguments["generator"]
        check_inputs(query, key, value, score, dropout)
        query, key, value, dtype = to_compute_dtype(query, key, value, score)
        query, key, value, axes = to_bhld(query, key, value)
        B, h, L, S = (*query.shape[:3], key.shape[2])
        beta = inverse_temperature(choice, h)
        sinks = sink_logits(choice, h, beta)
        mask = None if mask is None else check_mask(mask, axes, B, h, L, S)
        lowered = lower_score(score, query, key, sinks)
        query, key = (lowered.query, lowered.key) if lowered is not None else score.prepare(query, key)
        return cls(
            query,
            key,
            value,
            choice,
            score=None if lowered is not None else score.inner if isinstance(score, Prepared) else score,
            scale=1.0 if lowered is None else lowered.scale,
            cap=None if lowered is None else lowered.cap,
            key_bias=None if lowered is None else lowered.key_bias,
            row_shift=None if lowered is None else _tempered(lowered.row_shift, beta),
            mask=mask,
            bias=None if bias is None else check_bias(bias, axes, B, h, L, S),
            beta=beta,
            sinks=sinks,
            dropout=dropout,
            seed=_seed(generator) if dropout else 0,
            uniform=_uniform(B, h, L, generator, query.device) if isinstance(choice, Sample) else None,
            readings=check_readings(arguments["readings"]),
            needs_lse=needs_lse,
            kernel=arguments["kernel"],
            limit_bytes=arguments["limit_bytes"],
            axes=axes,
            dtype=dtype,
        )

    def restore(self, value: Any) -> Any:
        """Reshape (B, h, …) to the caller's axes; named tuples field by field, anything else unchanged."""
        if isinstance(value, Tensor):
            if self.axes is None or (heads := value.shape[:2]) == self.axes or heads != self.query.shape[:2]:
                return value
            return value.reshape(*self.axes, *value.shape[2:])
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.restore, value))
        return value

    def restore_output(self, output: Tensor) -> Tensor:
        """A kernel's output (B, h, L, dv) in the caller's axes and dtype."""
        restored: Tensor = self.restore(output)
        return restored if self.dtype in (None, restored.dtype) else restored.to(self.dtype)

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
        """Whether autograd will need the gradient of any input."""
        if not torch.is_grad_enabled():
            return False
        if self.query.requires_grad or self.key.requires_grad or self.value.requires_grad:
            return True
        for x in (self.key_bias, self.sinks, self.bias, self.beta, self.choice.learned):
            if x is not None and isinstance(x, Tensor) and x.requires_grad:
                return True
        parameters = self.parameters()
        return bool(parameters) and any(x.requires_grad for x in parameters)

    @property
    def work(self) -> int:
        """The number of multiplications of q·kᵀ: B · h · L · S · d."""
        return self.query.numel() * self.key.shape[2]

    def parameters(self) -> list[Tensor]:
        """The parameters used inside a tile: those of the score and of a `Bias`."""
        if self.score is None and not isinstance(self.bias, Bias):
            return []
        modules = [part for part in (self.score, self.bias) if isinstance(part, torch.nn.Module)]
        return [parameter for module in modules for parameter in module.parameters()]

    def inputs(self) -> list[Tensor | None]:
        """Every tensor that may need a gradient, in the order of `Input`."""
        bias = self.bias if isinstance(self.bias, Tensor) else None
        beta = self.beta if isinstance(self.beta, Tensor) else None
        return [self.query, self.key, self.value, self.key_bias, bias, beta, self.sinks, self.choice.learned, *self.parameters()]

    def reading_shape(self) -> Shape:
        """The argument of `Reading.start`."""
        dtype = accumulator(self.query.dtype)
        norms = None
        if any(reading.needs_value_norms for reading in self.readings):
            norms = self.value.detach().to(dtype).norm(dim=-1).repeat_interleave(self.group, 1)
        return Shape(*self.sizes, self.query.device, dtype, norms)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums: float64 for float64, float32 for everything narrower."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def check_inputs(query: Tensor, key: Tensor, value: Tensor, score: Score, dropout: float) -> None:
    """Raise TypeError or ValueError for inputs that do not fit: types, dtypes, devices, numbers of keys and values, widths."""
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        types = ", ".join(type(x).__name__ for x in (query, key, value))
        raise TypeError(f"query, key and value are {types}; expected torch tensors")
    if query.is_nested or key.is_nested or value.is_nested:
        raise TypeError("attention of nested tensors returns the output alone: pass query, key and value jagged to regard.attend")
    if query.dim() < 2 or key.dim() < 2 or value.dim() < 2:
        name, x = next((name, x) for name, x in (("query", query), ("key", key), ("value", value)) if x.dim() < 2)
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected at least (positions, features)")
    dtype = query.dtype
    if not (dtype.is_floating_point and dtype == key.dtype == value.dtype):
        for name, x in (("query", query), ("key", key), ("value", value)):
            if not x.is_floating_point():
                raise TypeError(f"{name} is {x.dtype}; attention needs floating point; convert it, e.g. with {name}.float()")
        if not _autocast(query):
            raise TypeError(f"query is {dtype}, key {key.dtype}, value {value.dtype}; convert them to one dtype")
    if not query.device == key.device == value.device:
        raise ValueError(f"query is on {query.device}, key on {key.device}, value on {value.device}; move them to one device")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"there are {key.shape[-2]} keys but {value.shape[-2]} values; pass one value per key")
    score.check(query.shape[-1], key.shape[-1])
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout is {dropout}; expected 0 ≤ dropout ≤ 1")


def check_readings(readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """The readings as a tuple; each must be one, and no two may have one name, by which they are returned."""
    if not readings:
        return ()
    if isinstance(readings, Reading) or not all(isinstance(reading, Reading) for reading in readings):
        kinds = type(readings).__name__ if isinstance(readings, Reading) else ", ".join(type(reading).__name__ for reading in readings)
        raise TypeError(f"readings are {kinds}; expected a list of regard readings, e.g. [regard.Entropy()]")
    names = [getattr(reading, "name", None) for reading in readings]
    for reading, name in zip(readings, names, strict=True):
        if not isinstance(name, str):
            raise TypeError(f"{type(reading).__name__} has no name; a reading's result is returned by it: set the class attribute `name`")
    if len(set(names)) < len(names):
        raise ValueError(f"two readings have the same name ({', '.join(map(str, names))}); rename one, e.g. reading.name = 'top8'")
    return tuple(readings)


def _autocast(x: Tensor) -> bool:
    if x.is_cpu:  # asked first, since reading the name of a tensor's device takes as long as the rest
        return torch.is_autocast_enabled("cpu")
    return not x.is_meta and torch.is_autocast_enabled(x.device.type)


def to_compute_dtype(query: Tensor, key: Tensor, value: Tensor, score: Score) -> tuple[Tensor, Tensor, Tensor, torch.dtype]:
    """The inputs in the dtype to compute in, and the dtype of the output.

    As in torch's SDPA, everything but float64 uses the autocast dtype under autocast. Half precision becomes float32 for scores that are
    not plain dot products.
    """
    if _autocast(query):
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = (x if x.dtype == torch.float64 else x.to(dtype) for x in (query, key, value))
    dtype = value.dtype
    if score.widens and query.dtype in (torch.bfloat16, torch.float16):
        query, key, value = query.float(), key.float(), value.float()
    return query, key, value, dtype


def check_mask(mask: Mask, axes: tuple[int, ...], B: int, h: int, L: int, S: int) -> Mask | None:
    """The mask, aligned to the caller's axes and checked; None where it hides nothing from a single query (a decoding step)."""
    if not isinstance(mask, Mask):
        what = "wrap it in regard.rule" if callable(mask) else "wrap a boolean tensor in regard.dense (True = visible)"
        raise TypeError(f"mask is a {type(mask).__name__}; expected a regard mask: {what}")
    mask = mask.aligned(axes)
    mask.check(B, h, L, S)
    if L == 1 and S and mask.verdict(range(1), range(S), 1, S) == "all":
        return None
    return mask


def check_bias(bias: Tensor | Bias, axes: tuple[int, ...] | None, B: int, h: int, L: int, S: int) -> Tensor | Bias:
    """The bias, checked against the sizes; a tensor becomes (B|1, h|1, L|1, S|1). axes: the caller's axes in place of (B, h)."""
    if isinstance(bias, Bias):
        bias.check(h)
        return bias
    if not isinstance(bias, Tensor) or not bias.is_floating_point():
        kind = bias.dtype if isinstance(bias, Tensor) else type(bias).__name__
        raise TypeError(f"bias is {kind}; expected floating-point numbers (for True and False pass mask=regard.dense(...))")
    axes = (B, h) if axes is None else axes
    full = align_bias(bias, axes) if len(axes) != 2 or bias.dim() != 4 else bias
    if full is None or any(n not in (1, size) for n, size in zip(full.shape, (B, h, L, S), strict=True)):
        hint = "; if its first axis is the batch, pass bias[:, None]" if bias.dim() == 3 and len(axes) == 2 and bias.shape[0] == B else ""
        names = "(batch, heads, queries, keys)" if len(axes) == 2 else "the inputs' (…, queries, keys)"
        raise ValueError(
            f"bias has shape {tuple(bias.shape)}; expected something that broadcasts from the right to {names} = {(*axes, L, S)}{hint}"
        )
    return full


def inverse_temperature(choice: Choice, heads: int) -> float | Tensor:
    """1 / temperature: a number, or a tensor () or (h,)."""
    temperature = choice.temperature
    if not isinstance(temperature, Tensor):
        return 1.0 / temperature
    if temperature.dim() and temperature.numel() not in (1, heads):
        raise ValueError(f"temperature has {temperature.numel()} entries but there are {heads} heads; give one number or one per head")
    return temperature.reciprocal()


def sink_logits(choice: Choice, heads: int, beta: float | Tensor) -> Tensor | None:
    """The choice's sinks over the temperature, (h,)."""
    learned = choice.learned
    if learned is not None and learned.dim() and learned.numel() not in (1, heads):
        raise ValueError(f"{choice} has {learned.numel()} learned numbers but there are {heads} heads; give one or one per head")
    sinks: Tensor | None = getattr(choice, "sinks", None)
    if sinks is None:
        return None
    if sinks.numel() != heads:
        raise ValueError(f"sinks has {sinks.numel()} logits but there are {heads} heads; give one per head")
    return sinks * beta


def lower_score(score: Score, query: Tensor, key: Tensor, sinks: Tensor | None) -> Lowered | None:
    """The score as a dot product, or None where that is not exact."""
    lowered = score.lower(query, key)
    if lowered is not None and lowered.row_shift is not None and sinks is not None:
        return None  # sinks have no row_shift, so it no longer cancels along a row
    return lowered


def _tempered(row_shift: Tensor | None, beta: float | Tensor) -> Tensor | None:
    """row_shift divided by the temperature: (B, h, L)."""
    if row_shift is None:
        return None
    return row_shift * (beta.view(-1, 1) if isinstance(beta, Tensor) and beta.dim() else beta)


def _seed(generator: torch.Generator | None) -> int:
    """A random seed for the dropout hash."""
    device = generator.device if generator is not None else "cpu"
    return int(torch.randint(2**62, (), generator=generator, device=device))


def _uniform(B: int, h: int, L: int, generator: torch.Generator | None, device: torch.device) -> Tensor:
    return torch.rand(B, h, L, dtype=torch.float64, generator=generator, device=device)


def _unknown_options(options: Any) -> str:
    """The error message for an unknown keyword argument."""
    name = next(name for name in options if name not in DEFAULTS)
    similar = difflib.get_close_matches(name, DEFAULTS, n=1)
    hint = f"did you mean {similar[0]!r}?" if similar else f"expected one of {', '.join(DEFAULTS)}"
    return f"attention takes no argument {name!r}; {hint}"


__all__ = [
    "DEFAULTS",
    "AttendOptions",
    "AttentionOptions",
    "Input",
    "ObserveOptions",
    "Request",
    "accumulator",
    "check_bias",
    "check_mask",
    "check_readings",
    "with_options",
]
