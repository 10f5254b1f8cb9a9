"""Scores of every query with every key that are no matrix product: additive attention, distances, products summed by hand.

A tensor made by an operation on two activations, each repeated along axes that only the other has, pairs queries and keys. It becomes
scores when its last axis, the features that both have, is summed or projected away.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .interception import thread
from .trails import MINUS, PLUS, TIMES, Trail, is_activation, set_trail, trail_of

COMBINING = TIMES | PLUS | MINUS
DISTANCES = {"cdist", "cosine_similarity"}
_REDUCTIONS = {"sum", "mean", "norm", "linalg_norm", "linalg_vector_norm", "logsumexp"}
_ATTRIBUTE = "_regard_pair"


def is_pair(x: Tensor) -> bool:
    """Return whether a tensor holds features of pairs of queries and keys."""
    return getattr(x, _ATTRIBUTE, None) is not None


def multiplied(x: Any) -> tuple[Tensor, Tensor] | None:
    """Return the two activations whose product, not summed yet, a tensor is."""
    factors = getattr(x, _ATTRIBUTE, None)
    return factors or None


def combine(name: str, args: tuple[Any, ...], result: Any) -> None:
    """Note a sum, difference or product of two activations that pairs them."""
    if len(args) < 2 or type(args[1]) is not Tensor or type(args[0]) is not Tensor:
        return
    first, second = args[:2]
    count = result.numel()
    if count <= first.numel() or count <= second.numel() or result.dim() < 3 or not result.is_floating_point():
        return
    if not first.dim() or not second.dim() or first.shape[-1] != second.shape[-1]:
        return  # a factor for each stream of a vector (hyper-connections): no features of both
    if is_activation(first) and is_activation(second):
        thread.trails = True
        setattr(result, _ATTRIBUTE, (first, second) if name in TIMES else ())


def distance(args: tuple[Any, ...], result: Tensor) -> None:
    """Note the scores that a distance or similarity of all queries to all keys gives."""
    pair = [x for x in args[:2] if isinstance(x, Tensor)]
    if len(pair) == 2 and result.dim() > 1 and result.shape[-1] > 1 and all(is_activation(x) for x in pair):
        thread.trails = True
        set_trail(result, Trail(paired=True))


def follow_pair(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Let the result of an operation on a pair tensor be one too, or scores, if its last axis was reduced."""
    source = args[0] if args else None
    if not isinstance(source, Tensor) or not isinstance(result, Tensor) or not is_pair(source):
        return
    reduced = name == "linear" or (name in _REDUCTIONS and is_last(_reduced(name, args, kwargs), source))
    if result.numel() == source.numel():
        setattr(result, _ATTRIBUTE, ())
    elif reduced and result.numel() < source.numel() and trail_of(result) is None:
        set_trail(result, Trail(paired=True))


def _reduced(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the axis that a reduction was told; norms take their order before it."""
    place = 2 if "norm" in name else 1
    dim = kwargs.get("dim", args[place] if len(args) > place else None)
    return dim[0] if isinstance(dim, list | tuple) and len(dim) == 1 else dim


def is_last(dim: Any, x: Tensor) -> bool:
    """Return whether an axis is the last one of a tensor."""
    return isinstance(dim, int) and dim % x.dim() == x.dim() - 1
