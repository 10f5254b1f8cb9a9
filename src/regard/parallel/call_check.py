"""Do all ranks ask for the same thing? One small all-gather before the work begins, so that a mistake is an error and not a hang."""

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
_LENGTHS = ("queries", "keys")  # these may differ; everything else must not
_NAMES = (
    *_LENGTHS, "batch", "heads", "key heads", "query width", "key width", "value width", "dtype", "layout", "gradient", "mask", "score",
    "bias", "choice", "readings",
)  # fmt: skip
_HASHED = {"dtype", "layout", "gradient", "mask", "score", "bias", "choice", "readings"}
_known: weakref.WeakKeyDictionary[Mask, int] = weakref.WeakKeyDictionary()


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
    """The layouts of queries and keys, or a RingError on every rank that says which of them differ in what.

    Without the check every rank is believed to hold an equal share.
    """
    L, S, ranks = request.query.shape[2], request.key.shape[2], exchange.ranks
    if not check or ranks == 1:
        return Layout(L * ranks, ranks, kind), Layout(S * ranks, ranks, kind)
    call = _call_numbers(request, mask, bias, readings, kind)
    table = exchange.gather(torch.tensor(call, dtype=torch.int64, device=request.query.device)).tolist()
    for place, name in enumerate(_NAMES):
        column = [row[place] for row in table]
        if name not in _LENGTHS and len(set(column)) > 1:
            raise RingError(_differ(name, column))
    queries, keys = (_layout_of([row[place] for row in table], name, kind) for place, name in enumerate(_LENGTHS))
    return queries, keys


def _call_numbers(request: Request, mask: Mask | None, bias: Tensor | Bias | None, readings: Sequence[Reading], kind: Kind) -> list[int]:
    """One rank's call as numbers, in the order of _NAMES: sizes as they are, everything else hashed.

    Tensors that every rank must hold alike are hashed too; a bias tensor may hold rows of its own, and only its shape counts.
    """
    B, h, L, S = request.sizes
    inputs = (request.query, request.key, request.value, request.key_bias, bias if isinstance(bias, Tensor) else None)
    follows = "".join(str(int(x is not None and x.requires_grad)) for x in inputs) if request.needs_grad else "none"
    score = f"{request.score is None} {request.scale} {request.cap} {request.key_bias is not None}"
    bias_text = _module_text(bias) if not isinstance(bias, Tensor) else f"{bias.shape[0]} {bias.shape[1]} {bias.shape[3]}"
    return [
        L, S, B, h, request.key.shape[1], request.query.shape[3], request.key.shape[3], request.value.shape[3],
        _DTYPES.index(request.query.dtype), _KINDS.index(kind), _number(follows), 0 if mask is None else fingerprint(mask),
        _number(score + _module_text(request.score)), _number(bias_text),
        _number(_module_text(request.choice) + _values(request.sinks, request.beta)), _number(" ".join(map(repr, readings))),
    ]  # fmt: skip


def _layout_of(lengths: list[int], name: str, kind: Kind) -> Layout:
    """The layout whose shares are these lengths, one a rank."""
    layout = Layout(sum(lengths), len(lengths), kind)
    shares = [layout.size(rank) for rank in range(layout.ranks)]
    if lengths != shares:
        raise RingError(
            f"the ranks hold {lengths} {name}, but a {kind} layout deals out {shares}; "
            "make the parts with regard.parallel.shard and give every rank's own part"
        )
    return layout


def _differ(name: str, values: list[int]) -> str:
    usual = max(set(values), key=lambda value: (values.count(value), -values.index(value)))
    odd = next(rank for rank, value in enumerate(values) if value != usual)
    told = "" if name in _HASHED else f": {values[odd]} instead of {usual}"
    return (
        f"rank {odd} has another {name} than rank {values.index(usual)}{told}; "
        "all ranks must make the same call (a mask describes the whole sequence)"
    )


def fingerprint(mask: Mask) -> int:
    """A number that two masks share when they are written alike and hold the same tensors.

    >>> from regard.masks import causal, window
    >>> fingerprint(causal()) == fingerprint(causal()), fingerprint(causal()) == fingerprint(window(3, 0))
    (True, False)
    """
    if mask not in _known:  # masks never change
        _known[mask] = _number(_mask_text(mask))
    return _known[mask]


def _mask_text(mask: Mask) -> str:
    """A mask as it is written, with the values of the tensors it holds."""
    if mask.operands:
        parts = [_mask_text(operand) for operand in mask.operands]
        return f"{type(mask).__name__}({', '.join(sorted(parts) if mask.commutes else parts)})"
    return f"{type(mask).__name__} {_values(*mask.contents())}"


def _module_text(module: nn.Module | None) -> str:
    """A module as it is written, with its parameters' and buffers' values."""
    return "" if module is None else f"{module!r} {_values(*module.parameters(), *module.buffers())}"


def _values(*held: object) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for x in held:
        if isinstance(x, Tensor):
            digest.update(x.detach().contiguous().view(torch.uint8).numpy(force=True).tobytes() if x.dim() else str(x.item()).encode())
        else:
            digest.update(repr(x).encode())
    return digest.hexdigest()


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")


__all__ = ["check_calls", "fingerprint"]
