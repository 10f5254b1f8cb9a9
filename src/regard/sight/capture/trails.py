"""Follow scores and weights through the operations of a model that computes attention itself.

A tensor made from a product of two activations may hold scores; one made by a softmax may hold weights. Either has a `Trail` as an
attribute, which the results of further operations inherit, so that the product with the values finds where its weights came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .contractions import Contraction
from .interception import thread

_ATTRIBUTE = "_regard_trail"
_WEIGHTED = "_regard_weighted"
_PARAMETER = "_regard_parameter"  # a copy of elements of a parameter
# Operations that move, copy or cast elements, and do not change their values.
MOVES = {
    "view", "reshape", "transpose", "permute", "unsqueeze", "squeeze", "flatten", "unflatten", "contiguous", "to", "type", "float", "half",
    "bfloat16", "double", "type_as", "clone", "movedim", "moveaxis", "swapaxes", "swapdims", "view_as", "reshape_as", "t", "mT", "T",
    "_to_copy", "_unsafe_view", "detach", "alias", "requires_grad_", "cpu", "cuda", "expand", "identity",
}  # fmt: skip
PICKS = {
    "__getitem__", "narrow", "select", "slice", "split", "chunk", "unbind", "index_select", "gather", "as_strided", "diagonal", "unfold",
    "tensor_split", "split_with_sizes", "cat", "concat", "concatenate", "stack", "pad", "roll", "flip", "repeat", "tile", "hstack",
    "vstack", "repeat_interleave", "masked_select", "take_along_dim", "index",
}  # fmt: skip
TIMES = {"mul", "multiply", "__mul__", "__rmul__", "mul_", "__imul__"}
_OVER = {"div", "true_divide", "__truediv__", "div_", "__itruediv__", "divide"}
PLUS = {"add", "__add__", "__radd__", "add_", "__iadd__"}
MINUS = {"sub", "__sub__", "sub_", "__isub__", "subtract", "__rsub__", "rsub"}
_COPIES = {"pad", "__getitem__", "index_select", "repeat", "roll", "flip", "expand"}  # of a table of positions, for example
_HIDING = {"masked_fill", "masked_fill_", "where", "max", "maximum", "clamp", "clamp_min"}  # as a mask is applied to scores
_CHOOSING = {"topk", "sort"}  # the positions of what they return are in its indices
_EXPONENTIAL = {"exp", "exp_", "exp2", "exp2_", "expm1"}
_GATES = {
    "sigmoid", "relu", "square", "pow", "__pow__", "softplus", "silu", "gelu", "elu", "relu_", "sigmoid_", "acos", "hardsigmoid", "tanh",
}  # fmt: skip
_DROPOUT = {"dropout", "dropout_", "native_dropout", "alpha_dropout", "feature_dropout"}
_NORMS = {"layer_norm", "rms_norm"}
_CREATES = {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_ones", "new_full"}
_ENDS = {"group_norm", "batch_norm", "instance_norm", "embedding", "cosine_similarity", "cross_entropy"}


@dataclass(frozen=True, eq=False)
class Product:
    """Scores as scale · q·kᵀ + the sum of `added`, apart from what a mask has replaced."""

    factors: Contraction
    scale: float = 1.0
    added: tuple[tuple[float, Tensor], ...] = ()

    def after(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], place: int) -> Product | None:
        """Return the scores after one more operation; None if they no longer have this form."""
        if name in _HIDING:
            return self
        other = args[1 - place] if len(args) > 1 and place < 2 else None
        single = isinstance(other, int | float) or (isinstance(other, Tensor) and other.dim() == 0)
        if name in TIMES and single:
            return self.times(float(other))  # type: ignore[arg-type]
        if name in _OVER and single and place == 0:
            return self.times(1 / float(other))  # type: ignore[arg-type]
        if isinstance(other, Tensor) and trail_of(other) is None and not kwargs:
            if name in PLUS:
                return replace(self, added=(*self.added, (1.0, other)))
            if name in MINUS and place == 0:
                return replace(self, added=(*self.added, (-1.0, other)))
        return None

    def times(self, factor: float) -> Product:
        return replace(self, scale=self.scale * factor, added=tuple((f * factor, x) for f, x in self.added))


@dataclass(frozen=True, eq=False)
class Trail:
    """What is known of a tensor that may hold scores or weights."""

    product: Product | None = None  # of queries and keys; None if the scores are not known to come from one alone
    scores: Tensor | None = None  # the input of the softmax; None before it
    steps: tuple[Callable[[Tensor], Tensor], ...] = ()  # what gives the scores the axes of the weights
    values_changed: bool = False  # an operation after the softmax changed the weights
    picked: bool = False  # it holds a part of the weights, or several of them
    dropout: bool = False
    paired: bool = False  # the scores are those of queries with keys, both activations
    exponential: bool = False  # exp was applied to them
    chosen: bool = False  # only some keys of each query are left, and in another order (topk)
    function: str = ""  # the last function that changed the values
    gated: bool = False  # scores became weights by a function of each alone, such as a sigmoid; after it at most masks and factors came

    def moved_scores(self) -> Tensor | None:
        """Return the scores with the axes of the weights; None if they are not the scores of these weights."""
        if self.scores is None or self.values_changed or self.picked:
            return None
        x = self.scores
        for step in self.steps:
            x = step(x)
        return x


def trail_of(x: Any) -> Trail | None:
    """Return the trail of a tensor; None without one."""
    return getattr(x, _ATTRIBUTE, None) if isinstance(x, Tensor) else None


def set_trail(x: Tensor, trail: Trail) -> None:
    setattr(x, _ATTRIBUTE, trail)


def weighted_factors(x: Any) -> tuple[Trail, Tensor, Tensor] | None:
    """Return trail, weights and values of a tensor that is weights times values, not summed yet."""
    return getattr(x, _WEIGHTED, None) if isinstance(x, Tensor) else None


def follow(name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Let the results of an operation inherit the trail of its first argument that has one."""
    if name == "__setitem__":
        _follow_assignment(args)
        return
    if name in _COPIES and isinstance(result, Tensor) and args and isinstance(args[0], Tensor) and not is_activation(args[0]):
        setattr(result, _PARAMETER, True)
    place, trail = _first_trail(args)
    if trail is None or name in _ENDS or name in _CREATES or (name in _NORMS and trail.scores is None):
        return
    if name in _CHOOSING and isinstance(result, tuple):
        set_trail(result[0], replace(trail, chosen=True, picked=True, product=None))
    elif isinstance(result, Tensor):
        _inherit(trail, name, func, args, kwargs, place, result)
    elif isinstance(result, list | tuple):
        for part in result:
            if isinstance(part, Tensor):
                _inherit(trail, name, func, args, kwargs, place, part)


def _first_trail(args: tuple[Any, ...]) -> tuple[int | None, Trail | None]:
    """Return place and trail of the first argument that has one; one that holds weights goes before one that holds scores."""
    first: tuple[int | None, Trail | None] = (None, None)
    for place, x in enumerate(args):
        if isinstance(x, Tensor):
            trail: Trail | None = getattr(x, _ATTRIBUTE, None)
            if trail is not None and trail.scores is not None:
                return place, trail
            if trail is not None and first[1] is None:
                first = (place, trail)
        elif isinstance(x, list | tuple):
            for part in x:
                if (trail := trail_of(part)) is not None:
                    return None, replace(trail, picked=True)
    return first


def _inherit(trail: Trail, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: int | None, result: Tensor) -> None:
    source = args[place] if place is not None else None
    if not result.is_floating_point():
        return
    if isinstance(source, Tensor) and name not in PICKS and name not in MOVES and result.numel() != source.numel():
        if name in TIMES and result.numel() > source.numel() and trail.scores is not None:
            other = next((x for i, x in enumerate(args[:2]) if i != place), None)
            if isinstance(other, Tensor):
                setattr(result, _WEIGHTED, (trail, source, other))
        return  # a reduction, or a small tensor spread over a larger one
    set_trail(result, _next(trail, name, func, args, kwargs, place))


def _next(trail: Trail, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: int | None) -> Trail:
    """Return the trail after one more operation."""
    if name in MOVES:
        if trail.scores is None or place is None:
            return trail
        others = tuple(None if i == place else x for i, x in enumerate(args))  # not the tensor itself, which would stay in memory
        return replace(trail, steps=(*trail.steps, partial(_move, func, others, kwargs, place)))
    if name in _DROPOUT:
        return replace(trail, dropout=True) if _is_training(args, kwargs) else trail
    if name in PICKS:
        return replace(trail, picked=True, product=None)
    product = None if trail.product is None or place is None else trail.product.after(name, args, kwargs, place)
    exponential = trail.exponential or name in _EXPONENTIAL
    product = product if trail.scores is None else trail.product
    gated = name in _GATES or (trail.gated and name in TIMES | _OVER | _HIDING)
    return replace(trail, values_changed=True, function=name, product=product, exponential=exponential, gated=gated)


def _move(func: Any, others: tuple[Any, ...], kwargs: dict[str, Any], place: int, x: Tensor) -> Tensor:
    """Apply an operation that moves elements to another tensor of the same shape."""
    moved: Tensor = func(*(x if i == place else other for i, other in enumerate(others)), **kwargs)
    return moved


def _follow_assignment(args: tuple[Any, ...]) -> None:
    """x[...] = scores: x then holds scores, among others."""
    target, value = args[0], args[-1]
    trail = trail_of(value)
    if trail is not None and isinstance(target, Tensor) and target.is_floating_point():
        set_trail(target, replace(trail, picked=True))


def _is_training(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    rate = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    training = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
    return bool(training) and isinstance(rate, int | float) and rate > 0


def is_activation(x: Tensor) -> bool:
    """Return whether a tensor is neither a parameter or buffer of a watched model nor a view or copy of a part of one."""
    if not x.is_floating_point() or isinstance(x, nn.Parameter) or hasattr(x, _PARAMETER):
        return False
    if not is_readable(x):
        return True
    address = x.untyped_storage().data_ptr()
    return not any(address in block.own_storages for block in thread.blocks)


UNREADABLE = "its tensors have no numbers to read (meta device, fake or nested tensors, vmap, torch.func); run it on plain tensors"


def is_readable(*tensors: Tensor) -> bool:
    """Return whether the elements of all tensors can be read: not on the meta device, not fake, nested, or inside vmap or grad."""
    return all(
        type(x) in (Tensor, torch.nn.Parameter)
        and x.device.type != "meta"
        and not x.is_nested
        and x.layout == torch.strided
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        for x in tensors
    )
