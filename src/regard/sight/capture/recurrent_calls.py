"""Capture recurrent attention: functions that carry a state from token to token, such as the gated delta rule and RWKV's.

Given its queries, keys and gates, such a function is linear in the values: output = A · values, with one lower-triangular A for each head.
A is what a softmax attention calls its weights, but it may be negative, its rows need not sum to 1, and it never exists in the model: its
column s is the output for a value of 1 at token s and 0 at all others, so the function runs again with such values.

The functions are found by their names and parameters in the files that the model's attention modules come from (transformers, fla), or
as attributes of these modules, and replaced while a block is open.

Axes: B batch, h heads, L queries, S keys, dv value width, n columns at once.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from ...kernels.kernel import Result
from ...masks import causal
from .captured import CapturedAttention, Execution, OwnWeights
from .interception import describing, dispatch, handling, is_watched, thread
from .own_attention import is_normalised, request_of_weights
from .sparse_positions import MOST_BYTES
from .trails import UNREADABLE, is_readable

FUNCTIONS = re.compile(r"delta_rule|delta_attention|kda$|linear_attention$|lightning_att|retention|_gla$|wkv")
MODULES = re.compile(r"attention|attn|deltanet|retention|timemix|linear", re.IGNORECASE)
_STATES = ("initial_state", "state")
_AT_ONCE = 1 << 24  # numbers in the one-hot values of one run
_CONTINUES = (
    "it continues from a state in which the values of earlier tokens are mixed, so that these have no weights; watch one forward pass over "
    "the whole text"
)
_TOO_LARGE = "its weights, which it does not need itself, take over 2 GB; watch a shorter text"
_OTHER_FORM = "it is recurrent attention in a form that is not known here, so that its weights cannot be stated"


@contextmanager
def recurrent_attention(model: nn.Module) -> Iterator[None]:
    """Capture the recurrent attention of a model within the block."""
    found = list(_functions(model))
    with _lock:
        for owner, name in found:
            _, original, count = _replaced.get((id(owner), name), (owner, getattr(owner, name), 0))
            if not count:
                setattr(owner, name, _capturing(original))
            _replaced[id(owner), name] = (owner, original, count + 1)
    try:
        yield
    finally:
        with _lock:
            for owner, name in found:
                _, original, count = _replaced.pop((id(owner), name))
                if count > 1:
                    _replaced[id(owner), name] = (owner, original, count - 1)
                else:
                    setattr(owner, name, original)


_lock = threading.Lock()
_replaced: dict[tuple[int, str], tuple[Any, Callable[..., Any], int]] = {}  # by id of the owner and name: owner, original, open blocks


def _functions(model: nn.Module) -> Iterator[tuple[Any, str]]:
    """Iterate over owner and name of the functions: of the files of the model's attention modules, and of the modules themselves."""
    files: set[str] = set()
    for module in model.modules():
        kind = type(module)
        if kind.__module__.startswith("torch.") or not MODULES.search(kind.__name__):
            continue
        files.add(kind.__module__)
        yield from ((module, name) for name, x in vars(module).items() if _is_recurrence(name, x))
    for file in sorted(files):
        if (found := sys.modules.get(file)) is not None:
            yield from ((found, name) for name, x in list(vars(found).items()) if _is_recurrence(name, x))


def _is_recurrence(name: str, x: Any) -> bool:
    """Return whether something is a function with such a name that takes keys and values."""
    if not inspect.isroutine(x) or not FUNCTIONS.search(name):
        return False
    parameters = _parameters(x)
    return bool(_value(parameters)) and ("key" in parameters or "k" in parameters)


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _value(parameters: tuple[str, ...]) -> str:
    return next((name for name in ("value", "v") if name in parameters), "")


def _capturing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its calls in a watched model are captured."""
    signature = inspect.signature(function)

    @wraps(function)
    def captured_recurrence(*args: Any, **kwargs: Any) -> Any:
        if not is_watched():
            return function(*args, **kwargs)
        with handling():
            returned = function(*args, **kwargs)
        output = _capture(function, signature.bind(*args, **kwargs), returned[0] if isinstance(returned, tuple) else returned)
        if output is None:
            return returned
        return (output, *returned[1:]) if isinstance(returned, tuple) else output

    return captured_recurrence


def _capture(function: Callable[..., Any], call: inspect.BoundArguments, output: Tensor) -> Tensor | None:
    """Pass a call to the open blocks; returns its new output if that was changed."""
    value: Tensor = call.arguments[_value(tuple(call.arguments))]
    state = next((call.arguments[name] for name in _STATES if call.arguments.get(name) is not None), None)
    problem = _problem(call, value, state, output)
    if problem is not None:
        for block in thread.blocks:
            if block.covers(None):
                block.report_missed(tuple(value.shape) if not value.is_nested else (), problem)
        return None
    with handling(), describing(), torch.no_grad():
        weights = _weights(function, call, value).float()
        normalised = is_normalised(weights)
        request = request_of_weights(weights, _heads_first(value), normalised, causal())
    own = OwnWeights(weights, None, "its recurrence with one-hot values", normalised, False)
    captured = CapturedAttention(request, lambda: Execution(Result(_heads_first(output)), "the model's own"), cross=False, own=own)
    after = dispatch(captured)
    if not captured.changed:
        return None
    return after.output.transpose(1, 2).reshape(output.shape).to(output.dtype)


def _problem(call: inspect.BoundArguments, value: Tensor, state: Any, output: Tensor) -> str | None:
    """Return why the weights of a call cannot be stated; None if they can."""
    if not is_readable(value, output):
        return UNREADABLE
    if value.dim() not in (3, 4) or output.shape != value.shape or call.arguments.get("head_first"):
        return _OTHER_FORM
    parts = state[:2] if isinstance(state, list | tuple) else [] if state is None else [state]  # the third of RWKV is a maximum
    if any(bool((x != 0).any()) for x in parts):
        return _CONTINUES
    B, S, h = (*value.shape, value.shape[-1])[:3]
    return _TOO_LARGE if 4 * B * h * S * S > MOST_BYTES else None


def _heads_first(x: Tensor) -> Tensor:
    """(B, S, h, dv) → (B, h, S, dv); without heads every channel is one: (B, S, h) → (B, h, S, 1)."""
    return (x if x.dim() == 4 else x.unsqueeze(-1)).transpose(1, 2)


def _weights(function: Callable[..., Any], call: inspect.BoundArguments, value: Tensor) -> Tensor:
    """Return A (B, h, L, S): the outputs for one-hot values, which have the shape of the model's own, a few columns at a time."""
    S = value.shape[1]
    width = value.shape[-1] if value.dim() == 4 else max(1, _AT_ONCE // value.numel())  # columns at once
    columns = [_columns(function, call, value, range(first, min(first + width, S))) for first in range(0, S, width)]
    return torch.cat(columns, -1)


def _columns(function: Callable[..., Any], call: inspect.BoundArguments, value: Tensor, columns: range) -> Tensor:
    """Return the columns (B, h, L, n) of A: side by side in the width of the values; if they have no width, as items of a larger batch."""
    B, n = len(value), len(columns)
    changed: dict[str, Any] = {name: None for name in _STATES if name in call.arguments}
    if value.dim() == 4:
        one_hot = torch.zeros_like(value)
        one_hot[:, list(columns), :, list(range(n))] = 1
    else:
        one_hot = torch.zeros_like(value).repeat(n, 1, 1)
        one_hot.unflatten(0, (n, B))[list(range(n)), :, list(columns)] = 1
        by_token = {name: x for name, x in call.arguments.items() if isinstance(x, Tensor) and x.shape[:2] == value.shape[:2]}
        changed |= {name: x.repeat(n, *(1,) * (x.dim() - 1)) for name, x in by_token.items()}
    changed[_value(tuple(call.arguments))] = one_hot
    again = inspect.BoundArguments(call.signature, call.arguments | changed)
    returned = function(*again.args, **again.kwargs)
    output: Tensor = returned[0] if isinstance(returned, tuple) else returned
    found: Tensor = output[..., :n].transpose(1, 2) if value.dim() == 4 else output.unflatten(0, (n, B)).permute(1, 3, 2, 0)
    return found
