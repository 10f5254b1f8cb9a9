"""Small calls and decoding steps run without a `Request`, whose checks would take longer than their arithmetic.

Every read of a tensor's attribute takes about a hundredth of such a call (`benchmarks/call_overhead.py`), so each is made once.

Axes: B batch, h heads, L queries, S keys, d width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..choices import Softmax
from ..masks import Mask
from ..scores import ScaledDot
from ..tracing import eager_transform
from .fused import twice_differentiable
from .native import single_query
from .request import DEFAULTS, AttendOptions, check_mask
from .select import SMALL


def shortcut(query: Tensor, key: Tensor, value: Tensor, options: AttendOptions) -> Tensor | None:
    """The output of `attend`, as the general path would compute it; None for a call that needs that path.

    Not None without options for 4-D inputs with one dtype and device, equal heads and widths, a last stride of 1, and fewer than
    `SMALL` multiplications of q·kᵀ; and for a decoding step, one query per head that sees every key under a plain softmax.

    >>> q = torch.zeros(1, 2, 3, 4)
    >>> shortcut(q, q, q, {}).shape
    torch.Size([1, 2, 3, 4])
    >>> shortcut(q[0], q[0], q[0], {}) is None  # not four axes
    True
    """
    if options and not _defaults(options):
        return _decoding_step(query, key, value, options)
    try:
        sizes, key_sizes, dtype = query.shape, key.shape, query.dtype
        B, h, L, d = sizes
        if L == 1 and type(query) is Tensor and (output := single_query(query, key, value, d**-0.5)) is not None:
            return output.transpose(1, 2)
        S = key_sizes[2]
        if not (
            (key_sizes == sizes or key_sizes == (B, h, S, d))
            and key_sizes == value.shape
            and 0 < B * h * L * S * d < SMALL
            and dtype in _DTYPES
            and dtype == key.dtype == value.dtype
            and query.stride()[3] == key.stride()[3] == value.stride()[3] == 1
            and ((query.is_cpu and key.is_cpu and value.is_cpu) or query.device == key.device == value.device)
            and not (dtype == torch.bfloat16 and query.requires_grad)
        ):
            return None
    except (AttributeError, IndexError, ValueError):  # not tensors, or not four axes: the general path raises the error
        return None
    if torch.compiler.is_compiling():
        return functional.scaled_dot_product_attention(query, key, value)
    if eager_transform(query) is not None:
        return None
    return twice_differentiable(functional.scaled_dot_product_attention(query, key, value))


_DTYPES = frozenset((torch.float32, torch.bfloat16, torch.float16, torch.float64))
_UNKNOWN = object()  # the default of an argument that does not exist: no value equals it


def _defaults(options: AttendOptions) -> bool:
    """Whether every argument has its default."""
    for name, value in options.items():  # noqa: SIM110  (a generator would take a microsecond of every call)
        if value is not DEFAULTS.get(name, _UNKNOWN) and (name != "dropout" or value):
            return False
    return True


def _decoding_step(query: Tensor, key: Tensor, value: Tensor, options: AttendOptions) -> Tensor | None:
    """One query (B, h, 1, d) per head that sees every key under a plain softmax; None for another call."""
    if type(query) is not Tensor or query.dim() != 4 or query.shape[2] != 1:
        return None
    score = options.get("score")
    if score is not None and (type(score) is not ScaledDot or score.cap is not None):
        return None
    if not all(_is_default(name, value) for name, value in options.items() if name not in ("score", "mask")):
        return None
    if (mask := options.get("mask")) is not None and not _shows_every_key(mask, query, key):
        return None
    width = query.shape[3]
    scale = score.factor(width) if isinstance(score, ScaledDot) else width**-0.5
    output = single_query(query, key, value, scale)
    return None if output is None else output.transpose(1, 2)


def _is_default(name: str, value: object) -> bool:
    """Whether an argument changes nothing: its default, or a new object that computes the same."""
    if value is DEFAULTS.get(name, _UNKNOWN) or (name == "dropout" and not value):
        return True
    return (
        name == "choice"
        and type(value) is Softmax
        and type(value.temperature) is float
        and value.temperature == 1.0
        and value.sinks is None
    )


def _shows_every_key(mask: Mask, query: Tensor, key: Tensor) -> bool:
    """Whether a mask hides nothing from a single query, as a causal mask in a decoding step."""
    if type(key) is not Tensor or key.dim() != 4:
        return False
    B, h, L = query.shape[:3]
    return check_mask(mask, (B, h), B, h, L, key.shape[2]) is None


__all__ = ["shortcut"]
