"""Check that all ranks make the same call, by one small all-gather, so that a mistake is an error and not a hang."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..biases import Bias
from ..kernels.request import Request
from ..masks import Mask
from ..readings import Reading
from .exchange import Exchange, RingError
from .layout import Kind, Layout

_KINDS = ("zigzag", "straight")
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_LENGTHS = ("queries", "keys")  # may differ between ranks; everything else must not
_NAMES = (
    *_LENGTHS, "batch", "heads", "key heads", "query width", "key width", "value width", "dtype", "layout", "gradient", "mask", "score",
    "bias", "choice", "readings",
)  # fmt: skip
_HASHED = {"dtype", "layout", "gradient", "mask", "score", "bias", "choice", "readings"}
_fingerprints: weakref.WeakKeyDictionary[Mask, int] = weakref.WeakKeyDictionary()


def check_calls(
    exchange: Exchange,
    request: Request,
    mask: Mask | None,
    bias: Tensor | Bias | None,
    readings: Sequence[Reading],
    kind: Kind,
    *,
    check: bool,
) -> tuple[Layout, Layout]:
    """The layouts of queries and keys; raises RingError on every rank, naming the difference, if the calls differ.

    Without the check all ranks are assumed to hold equal shares.
    """
    L, S, ranks = request.query.shape[2], request.key.shape[2], exchange.ranks
    if not check or ranks == 1:
        return Layout(L * ranks, ranks, kind), Layout(S * ranks, ranks, kind)
    call = _call_numbers(request, mask, bias, readings, kind)
    table = exchange.gather(torch.tensor(call, dtype=torch.int64, device=request.query.device)).tolist()
    for i, name in enumerate(_NAMES):
        column = [row[i] for row in table]
        if name not in _LENGTHS and len(set(column)) > 1:
            raise RingError(_differ(name, column))
    queries, keys = (_layout_of([row[i] for row in table], name, kind) for i, name in enumerate(_LENGTHS))
    return queries, keys


def _call_numbers(request: Request, mask: Mask | None, bias: Tensor | Bias | None, readings: Sequence[Reading], kind: Kind) -> list[int]:
    """One rank's call as numbers, in the order of _NAMES: sizes unchanged, everything else hashed.

    Replicated tensors are hashed too; of a bias tensor, whose rows may differ between ranks, only the shape counts.
    """
    B, h, L, S = request.sizes
    inputs = (request.query, request.key, request.value, request.key_bias, bias if isinstance(bias, Tensor) else None)
    gradients = "".join(str(int(x is not None and x.requires_grad)) for x in inputs) if request.needs_grad else "none"
    score = f"{request.score is None} {request.scale} {request.cap} {request.key_bias is not None}"
    bias_text = _module_text(bias) if not isinstance(bias, Tensor) else f"{tuple(bias.shape[:-2])} {bias.shape[-1:]}"
    return [
        L, S, B, h, request.key.shape[1], request.query.shape[3], request.key.shape[3], request.value.shape[3],
        _DTYPES.index(request.query.dtype), _KINDS.index(kind), _number(gradients), 0 if mask is None else fingerprint(mask),
        _number(score + _module_text(request.score)), _number(bias_text),
        _number(_module_text(request.choice) + _values(request.sinks, request.beta)), _number(" ".join(map(repr, readings))),
    ]  # fmt: skip


def _layout_of(lengths: list[int], name: str, kind: Kind) -> Layout:
    """The layout whose shares are these lengths, one a rank."""
    layout = Layout(sum(lengths), len(lengths), kind)
    shares = [layout.size(rank) for rank in range(layout.ranks)]
    if lengths != shares:
        raise RingError(
            f"the ranks hold {lengths} {name}, but a {kind} layout gives them {shares}; "
            "pass each rank the part that regard.parallel.shard returns on it"
        )
    return layout


def _differ(name: str, values: list[int]) -> str:
    """The error message for values that differ between ranks."""
    usual = max(set(values), key=lambda value: (values.count(value), -values.index(value)))
    odd = next(rank for rank, value in enumerate(values) if value != usual)
    detail = "" if name in _HASHED else f": {values[odd]} instead of {usual}"
    return (
        f"the {name} of rank {odd} differs from that of rank {values.index(usual)}{detail}; "
        "all ranks must make the same call (a mask describes the whole sequence)"
    )


def fingerprint(mask: Mask) -> int:
    """A hash of a mask, equal across processes for masks with the same repr and tensors.

    >>> from regard.masks import causal, window
    >>> fingerprint(causal()) == fingerprint(causal()), fingerprint(causal()) == fingerprint(window(3, 0))
    (True, False)
    """
    if mask not in _fingerprints:  # masks are immutable
        _fingerprints[mask] = _number(_mask_text(mask))
    return _fingerprints[mask]


def _mask_text(mask: Mask) -> str:
    """The repr of a mask, with a hash of its tensors."""
    if mask.operands:
        parts = [_mask_text(operand) for operand in mask.operands]
        return f"{type(mask).__name__}({', '.join(sorted(parts) if mask.commutes else parts)})"
    return f"{type(mask).__name__} {_values(*mask.contents())}"


def _module_text(module: nn.Module | None) -> str:
    """The repr of a module, with a hash of its parameters and buffers."""
    return "" if module is None else f"{module!r} {_values(*module.parameters(), *module.buffers())}"


def _values(*values: object) -> str:
    """A hash of tensors and other values."""
    digest = hashlib.blake2b(digest_size=8)
    for x in values:
        if isinstance(x, Tensor):
            digest.update(x.detach().contiguous().view(torch.uint8).numpy(force=True).tobytes() if x.dim() else str(x.item()).encode())
        else:
            digest.update(repr(x).encode())
    return digest.hexdigest()


def _number(text: str) -> int:
    """A hash of a text that fits into int64."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")


__all__ = ["check_calls", "fingerprint"]
