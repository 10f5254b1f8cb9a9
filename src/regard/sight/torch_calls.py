"""Catching attention that goes through torch: F.scaled_dot_product_attention, however it was imported, and nn.MultiheadAttention.

A function mode sees calls made by a name imported directly, and every softmax; it is switched off inside torch's own Python functions,
so the names in torch.nn.functional are replaced as well.

Axes: B batch, h heads, L queries, S keys.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .. import attention as door
from ..choices import Softmax
from ..kernels.spec import Result, Spec
from ..masks import Mask, causal, dense, padding
from ..scores import ScaledDot
from .catching import BETTER as _BETTER
from .catching import Caught, claimed, dispatch, replace, state, watched
from .zoom import Zoom

if TYPE_CHECKING:
    from .lens import Lens

_SDPA: Callable[..., Tensor] = F.scaled_dot_product_attention
_MHA: Callable[..., tuple[Tensor, Tensor | None]] = F.multi_head_attention_forward
_MHA_SIGNATURE = inspect.signature(_MHA)
_SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax}
_PRODUCT = {
    torch.matmul, torch.bmm, torch.mm, torch.einsum, torch.baddbmm,
    Tensor.matmul, Tensor.__matmul__, Tensor.bmm, Tensor.mm,
}  # fmt: skip
_MARK = "_regard_softmax"
_OPAQUE: dict[Any, bool] = {}  # functions met so far: is it an attention of someone else's?
MASKED = -9999.0  # additive masks write "may not look" as −∞, the dtype's lowest number or −10,000
ABSORBING = -1e30  # a score added to this is lost


def patches() -> list[Callable[[], None]]:
    return [replace(F, "scaled_dot_product_attention", catch_sdpa), replace(F, "multi_head_attention_forward", catch_mha)]


def catch_sdpa(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    if not watched():
        return _SDPA(query, key, value, *args, **kwargs)
    return _sdpa(query, key, value, *args, **kwargs)


def _sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    def own() -> Tensor:
        return _SDPA(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)

    try:
        split = split_mask(attn_mask, query.shape[-2], key.shape[-2], lowest=ABSORBING)
        if is_causal:
            split = split._replace(mask=causal(align="start") if split.mask is None else split.mask & causal(align="start"))
        spec, lead = lower(query, key, value, split, scale=scale, dropout=dropout_p)
    except (ValueError, TypeError, RuntimeError) as error:  # nested tensors, shapes torch accepts and we do not
        for lens in state.lenses:
            if lens.covers(None):
                lens.miss(tuple(query.shape), f"its call of scaled_dot_product_attention cannot be read ({error})")
        return own()

    def run() -> Result:
        output = own()
        return Result(output.reshape(*spec.query.shape[:3], output.shape[-1]))

    result = dispatch(Caught(spec, run, "sdpa")).output
    return door._restore(result, lead)


def lower(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    split: Split,
    *,
    scale: float | None = None,
    cap: float | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Spec, tuple[int, ...]]:
    """A softmax of scaled dot products as a Spec; also the axes the caller gave."""
    choice = Softmax() if sinks is None else Softmax(sinks=sinks)
    mask, bias, flat = split
    if flat is not None and sinks is not None:  # the sink, which nothing was added to, takes all
        seen = dense((~flat).expand(*flat.shape[:-1], key.shape[-2]))
        mask = seen if mask is None else mask & seen
    elif flat is not None:
        query = query.masked_fill(flat, 0.0)
        bias = None if bias is None else bias.masked_fill(flat, 0.0)
    return door._spec(query, key, value, ScaledDot(scale, cap), mask, bias, choice, dropout, None, (), None, wants_lse=True)


class Split(NamedTuple):
    """A mask as others write it, taken apart."""

    mask: Mask | None = None
    bias: Tensor | None = None
    flat: Tensor | None = None  # (…, L, 1) bool: rows whose scores are lost, so that all keys count alike


class _Last(threading.local):
    """The mask last taken apart: all layers of a pass are given the same tensor."""

    given: Tensor | None = None
    how: tuple[object, ...] = ()
    found = Split()


_last = _Last()


def forget_masks() -> None:
    _last.given, _last.found = None, Split()


def split_mask(given: Tensor | None, L: int, S: int, *, lowest: float = MASKED) -> Split:
    """A boolean (True = may look) or additive mask as a mask and what else it adds. Numbers at or under `lowest` hide a key.

    A row that hides every key by finite numbers hides none: the numbers cancel, or swallow the scores and leave all keys alike.

    >>> split_mask(torch.tensor([[0.0, -1e4], [0.0, 0.0]]), 2, 2).mask.dense(2, 2)[0, 0].int().tolist()
    [[1, 0], [1, 1]]
    """
    if given is None:
        return Split()
    if given.requires_grad:
        return _split(given, L, S, lowest)
    how = (given._version if not given.is_inference() else 0, L, S, lowest)
    if _last.given is not given or _last.how != how:
        _last.found, _last.given, _last.how = _split(given, L, S, lowest), given, how
    return _last.found


def _as_mask(may: Tensor, L: int, S: int) -> Mask | None:
    """A pattern (…, L|1, S|1), one row for all queries as padding."""
    if bool(may.all()):
        return None
    may = may.expand(*may.shape[:-1], S)
    if may.shape[-2] == 1 and L != 1:
        flat = may.reshape(-1, 1, 1, S) if may.dim() < 4 else may
        if flat.shape[1] == 1 or flat.stride(1) == 0 or bool((flat == flat[:, :1]).all()):
            return padding(flat[:, 0, 0])
        may = may.expand(*may.shape[:-2], L, S)
    return dense(may)


def _split(given: Tensor, L: int, S: int, lowest: float) -> Split:
    if given.dtype == torch.bool:
        return Split(_as_mask(given, L, S))
    top = given.detach().amax(-1, keepdim=True)
    low = (top <= lowest) & (top > -torch.inf)
    if bool(low.any()):
        given = given - top.masked_fill(~low, 0)
    hidden = given.detach() <= lowest
    rest = given.masked_fill(hidden, 0.0)
    mask = _as_mask(~hidden, L, S)
    flat = low & (top <= ABSORBING)
    return Split(mask, rest if bool((rest.detach() != 0).any()) or given.requires_grad else None, flat if bool(flat.any()) else None)


def catch_mha(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """nn.MultiheadAttention without weights goes through SDPA and is caught there; with them it makes the matrix itself, and is looked at
    beside it: the same projections again, through SDPA."""
    if not watched():
        return _MHA(*args, **kwargs)
    given = _MHA_SIGNATURE.bind(*args, **kwargs)
    given.apply_defaults()
    if not given.arguments["need_weights"]:
        return _MHA(*args, **kwargs)
    with claimed():
        made = _MHA(*args, **kwargs)
    given.arguments |= {"need_weights": False, "training": False}
    with _beside() as caught:
        again, _ = _MHA(*given.args, **given.kwargs)
    if any(one.altered or one.muted is not None for one in caught):
        weights = torch.cat([_weights(one.spec) for one in caught])  # (B, h, L, S)
        return again, weights.mean(1) if given.arguments["average_attn_weights"] else weights
    if not (kwargs.get("training", True) and given.arguments["dropout_p"]):
        off = float((made[0].detach() - again.detach()).abs().max()) if again.numel() else 0.0
        for check in (check for one in caught for check in one.checks):
            check(off)
    return made


@contextmanager
def _beside() -> Iterator[list[Caught]]:
    """What is caught here is only looked at: its output was already made."""
    before, state.beside = state.beside, []
    try:
        yield state.beside
    finally:
        state.beside = before


def _weights(spec: Spec) -> Tensor:
    """The whole matrix (B, h, L, S), for a caller who asked for it."""
    _, h, L, S = spec.sizes
    return Zoom(spec, range(L), range(S)).scores(slice(None), range(h)).softmax(-1).nan_to_num(0).to(spec.query.dtype)


def _opaque(func: Any) -> bool:
    """Whether a function is an attention by its name: flex_attention, flash_attn's and xformers' operations, torch's fused ones."""
    known = _OPAQUE.get(func)
    if known is None:
        name = str(getattr(func, "__name__", func)).lower()
        known = _OPAQUE[func] = "attention" in name or "flash_attn" in name
    return known


class Mode(TorchFunctionMode):
    """Sees calls by directly imported names, and softmaxes nobody claimed."""

    def __init__(self, lens: Lens) -> None:
        super().__init__()
        self.lens = lens

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if state.claimed or not self.lens.covers(None):
            return func(*args, **kwargs)
        if func is _SDPA:
            return catch_sdpa(*args, **kwargs)
        if func is _MHA:
            return catch_mha(*args, **kwargs)
        result = func(*args, **kwargs)
        if _opaque(func):
            first = next((x for x in args if isinstance(x, Tensor)), None)
            shape = () if first is None else tuple(first.shape)
            self.lens.miss(shape, f"it calls {getattr(func, '__name__', func)}, which gives no weights; have it call {_BETTER}")
        else:
            self._follow(func, args, kwargs, result)
        return result

    def _follow(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """A softmax over the last of four axes is attention; over the last of two or three it is if its result multiplies something."""
        if not isinstance(result, Tensor):
            return
        if func in _SOFTMAX:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if dim is None or dim % result.dim() != result.dim() - 1 or result.dim() < 2:
                return
            if result.dim() > 3:
                self.lens.miss(tuple(result.shape))
            else:
                setattr(result, _MARK, tuple(result.shape))
            return
        first = args[0] if args else None
        if func in _PRODUCT:
            operands: Any = args[1:] if isinstance(first, str) else args
            operands = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
            shapes = [getattr(x, _MARK) for x in operands if hasattr(x, _MARK)]
            if shapes:
                self.lens.miss(shapes[0])
        elif isinstance(first, Tensor) and hasattr(first, _MARK) and result is not first and result.numel() == first.numel():
            setattr(result, _MARK, getattr(first, _MARK))  # dropout, casts, reshapes
