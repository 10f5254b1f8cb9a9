"""Do all ranks ask for the same thing? One small all-gather before the work begins, so that a mistake is an error and not a hang."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..biases import Bias
from ..kernels.spec import Spec
from ..masks import Mask
from ..masks.documents import Documents
from ..masks.heads import PerHead
from ..masks.mask import Not, Parts
from ..masks.stored import Stored
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


def agree(
    exchange: Exchange, spec: Spec, mask: Mask | None, bias: Tensor | Bias | None, readings: Sequence[Reading], kind: Kind, *, check: bool
) -> tuple[Layout, Layout]:
    """The layouts of queries and keys, or a RingError on every rank that says which of them differ in what.

    Without the check every rank is believed to hold an equal share.
    """
    L, S = spec.query.shape[2], spec.key.shape[2]
    if not check or exchange.ranks == 1:
        return Layout(L * exchange.ranks, exchange.ranks, kind), Layout(S * exchange.ranks, exchange.ranks, kind)
    B, h = spec.query.shape[:2]
    inputs = (spec.query, spec.key, spec.value, spec.key_bias, bias if isinstance(bias, Tensor) else None)
    follows = "".join(str(int(x is not None and x.requires_grad)) for x in inputs) if spec.needs_grad else "none"
    score = f"{spec.score is None} {spec.scale} {spec.cap} {spec.key_bias is not None}"
    # Tensors that every rank must hold alike are read; a bias may hold rows of its own, and only its kind is compared.
    kind_of_bias = (
        _parts(bias) if isinstance(bias, nn.Module) else "" if bias is None else f"{bias.shape[0]} {bias.shape[1]} {bias.shape[3]}"
    )
    mine = [
        L, S, B, h, spec.key.shape[1], spec.query.shape[3], spec.key.shape[3], spec.value.shape[3], _DTYPES.index(spec.query.dtype),
        _KINDS.index(kind), _number(follows), 0 if mask is None else fingerprint(mask), _number(score + _parts(spec.score)),
        _number(kind_of_bias), _number(_parts(spec.choice) + _values(spec.sinks, spec.beta)), _number(" ".join(map(repr, readings))),
    ]  # fmt: skip
    table = exchange.gather(torch.tensor(mine, dtype=torch.int64, device=spec.query.device)).tolist()
    for place, name in enumerate(_NAMES):
        given = [row[place] for row in table]
        if name not in _LENGTHS and len(set(given)) > 1:
            raise RingError(_differ(name, given))
    found = []
    for place, name in enumerate(_LENGTHS):
        given = [row[place] for row in table]
        layout = Layout(sum(given), exchange.ranks, kind)
        if given != [layout.size(rank) for rank in range(exchange.ranks)]:
            raise RingError(
                f"the ranks hold {given} {name}, but a {kind} layout deals out {[layout.size(r) for r in range(exchange.ranks)]}; "
                "make the parts with regard.parallel.shard and give every rank's own part"
            )
        found.append(layout)
    return found[0], found[1]


def _differ(name: str, given: list[int]) -> str:
    usual = max(set(given), key=lambda value: (given.count(value), -given.index(value)))
    odd = next(rank for rank, value in enumerate(given) if value != usual)
    told = "" if name in _HASHED else f": {given[odd]} instead of {usual}"
    return (
        f"rank {odd} has another {name} than rank {given.index(usual)}{told}; "
        "all ranks must make the same call (a mask describes the whole sequence)"
    )


def fingerprint(mask: Mask) -> int:
    """A number that two masks share when they are written alike and hold the same tensors.

    >>> from regard.masks import causal, window
    >>> fingerprint(causal()) == fingerprint(causal()), fingerprint(causal()) == fingerprint(window(3, 0))
    (True, False)
    """
    if mask not in _known:  # masks never change
        _known[mask] = _number(_written(mask))
    return _known[mask]


def _written(mask: Mask) -> str:
    if isinstance(mask, Not):
        return f"~({_written(mask.mask)})"
    if isinstance(mask, Parts):
        parts = [_written(part) for part in mask.parts]
        return f"{type(mask).__name__}({', '.join(parts if isinstance(mask, PerHead) else sorted(parts))})"
    if isinstance(mask, Stored):
        held: list[object] = [mask.tensor, *([mask.keys] if isinstance(mask, Documents) and mask.keys is not None else [])]
        return f"{mask!r} {_values(*held)}"
    if type(mask).__repr__ is object.__repr__:  # an address, which is another in every process
        held = [x for name, x in sorted(mask.__getstate__().items()) for x in (name, x)]
        return f"{type(mask).__qualname__} {_values(*held)}"
    return repr(mask)


def _parts(module: nn.Module | None) -> str:
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


__all__ = ["agree", "fingerprint"]
