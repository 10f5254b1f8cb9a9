"""A torch function mode that sees every operation of a watched model.

It captures attention called by a directly imported name or as an operator of an exported program (`torch_calls`), hands products,
softmax and what lies between them to `own_attention`, and reports attention functions that give no weights.

torch switches the mode off inside its own Python functions, which is why `torch_calls` also replaces the names in torch.nn.functional.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from .contractions import PRODUCTS
from .interception import READABLE_CALLS, is_watched, thread
from .own_attention import product, projected, softmax, summed
from .pairs import COMBINING, DISTANCES, combine, distance, follow_pair
from .torch_calls import captured_multi_head, captured_sdpa, torch_multi_head, torch_sdpa
from .trails import follow

_SOFTMAX = {"softmax", "_softmax"}
_ROLES = {"sum": "sum", "linear": "linear", **dict.fromkeys(COMBINING, "combining"), **dict.fromkeys(DISTANCES, "distance")}
_names: dict[Any, tuple[str, str]] = {}  # by function: its name, and what is done with it


class AttentionMode(TorchFunctionMode):
    """Captures the attention of the models that are watched in this thread, and reports what cannot be captured."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        blocks = thread.blocks  # this runs once for every operation: no call where one look will do
        if thread.handling or not (blocks and (blocks[0].running or is_watched())):
            return func(*args, **kwargs)
        name, role = _names.get(func) or _classify(func)
        if role == "sdpa":
            return captured_sdpa(*args, **kwargs)
        if role == "multi-head":
            return captured_multi_head(*args, **kwargs)
        result = func(*args, **kwargs)
        if kwargs and not args:
            args, kwargs = _with_first_argument(kwargs)
        if role == "opaque":
            _report_opaque(func, args)
        elif role == "product":
            if isinstance(result, Tensor):
                result = product(name, args, kwargs, result)
        elif role == "softmax":
            softmax(args, kwargs, result)
        else:
            if role == "combining":
                combine(name, args, result)
            elif role == "linear":
                projected(args, kwargs, result)
            elif role == "distance":
                distance(args, result)
            if thread.trails:
                if role == "sum":
                    result = summed(args, kwargs, result)
                follow(name, func, args, kwargs, result)
                follow_pair(name, args, kwargs, result)
        if thread.positions is not None:
            thread.positions.follow(name, func, args, kwargs, result)
        return result


def _with_first_argument(kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Pass the first argument of a call by position, as most callers do: torch.softmax(input=scores, dim=-1)."""
    first = next((name for name in ("input", "self", "tensors", "a", "x1") if name in kwargs), None)
    return ((), kwargs) if first is None else ((kwargs[first],), {name: x for name, x in kwargs.items() if name != first})


def _classify(func: Any) -> tuple[str, str]:
    """Return a function's name without an operator's overload, and its role; remembered for the next call."""
    name = str(getattr(func, "__name__", func))
    if name == "__get__":  # a property such as x.mT
        name = str(getattr(getattr(func, "__self__", None), "__name__", name))
    name = name.split(".")[0]
    lowercase = name.lower()
    if func is torch_sdpa or name == "scaled_dot_product_attention":
        role = "sdpa"
    elif func is torch_multi_head:
        role = "multi-head"
    elif name in PRODUCTS:
        role = "product"
    elif name in _SOFTMAX:
        role = "softmax"
    elif name in _ROLES:
        role = _ROLES[name]
    else:
        role = "opaque" if "attention" in lowercase or "attn" in lowercase else "other"
    _names[func] = (name, role)
    return name, role


def _report_opaque(func: Any, args: tuple[Any, ...]) -> None:
    """Report a call whose name says attention: flex_attention, operations of flash_attn and xformers, torch's fused ones."""
    query = next((x for x in args if isinstance(x, Tensor)), None)
    shape = () if query is None else tuple(query.shape)
    advice = f"it calls {getattr(func, '__name__', func)}, which gives no weights; make it call {READABLE_CALLS}"
    for block in thread.blocks:
        if block.covers(None):
            block.report_missed(shape, advice)
