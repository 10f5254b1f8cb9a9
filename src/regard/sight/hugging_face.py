"""Transformers models on our kernels, and their attention caught.

`register()` puts our attention into both of transformers' registries under the name "regard"; after that
`model.set_attn_implementation("regard")` runs any model that follows its attention interface on our kernels, with masks that are rules
and not matrices. A lens does the same for the length of its block, or (kernel="own") leaves the model's attention as it is and looks
at what goes in and comes out.

Axes: B batch, h heads, k key heads, L queries, S keys, d width.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..kernels.spec import Result
from ..masks import Mask, causal, dense, documents, everything, padding, window
from .catching import Caught, choose, dispatch, replace, watched
from .torch_calls import Split, lower, split_mask

NAME = "regard"
_OURS_OR_SEEN = (NAME, "sdpa")  # caught by themselves: ours at its door, SDPA in torch


class Allowed(Tensor):
    """What our mask function hands to our attention function: who may look at whom as a rule, and where queries and keys stand.

    To transformers it is a prepared mask, a tensor (B, 1, L, S) it passes on; there is nothing in it. Slicing does nothing (the attention
    function fits it to its keys), and a model that computes with its masks is told to keep its own kernel.
    """

    rule: Mask | None
    query_at: int
    key_at: int
    length: int  # keys that exist; a static cache has room for more
    looks_back: bool

    @staticmethod
    def make(
        shape: tuple[int, int, int, int], device: torch.device | str, rule: Mask | None, query_at: int, key_at: int, length: int, back: bool
    ) -> Allowed:
        made: Allowed = Tensor._make_subclass(Allowed, torch.zeros((), dtype=torch.bool, device=device).expand(shape))
        made.rule, made.query_at, made.key_at, made.length, made.looks_back = rule, query_at, key_at, length, back
        return made

    def __getitem__(self, index: Any) -> Allowed:
        return self

    def contiguous(self, *args: Any, **kwargs: Any) -> Allowed:
        return self

    def to(self, *args: Any, **kwargs: Any) -> Allowed:
        return self

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        name = getattr(func, "__name__", "")
        if name not in _LOOKED_AT:
            raise NotImplementedError(
                f"this model computes with its attention mask ({name}), which is a rule here; use watch(model, kernel='own')"
            )
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


_LOOKED_AT = (
    "__get__",
    "dim",
    "size",
    "numel",
    "__len__",
    "is_floating_point",
    "stride",
    "data_ptr",
    "__hash__",
    "ndimension",
    "get_device",
)


def register() -> None:
    """Make the name "regard" known to transformers: `model.set_attn_implementation("regard")`, or `attn_implementation="regard"`."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, mask)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Our kernels behind transformers' attention interface: query (B, h, L, d), key and value (B, k, S, d) → (B, L, h, d)."""
    caught = _caught(module, query, key, value, attention_mask, dropout, scaling, is_causal, position_bias, sliding_window, softcap, s_aux)
    result = dispatch(caught) if watched(module) else caught.own()
    return result.output.transpose(1, 2).contiguous(), None


def _caught(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float,
    scaling: float | None,
    is_causal: bool | None,
    position_bias: Tensor | None,
    sliding_window: int | None,
    softcap: float | None,
    s_aux: Tensor | None,
    *,
    none_is_causal: bool = True,
) -> Caught:
    """The arguments of transformers' attention interface as one attention."""
    L, S = query.shape[2], key.shape[2]
    split = Split()
    query_at: int | None = None
    key_at = 0
    if isinstance(attention_mask, Allowed):
        split, key_at = Split(attention_mask.rule), attention_mask.key_at
        query_at = attention_mask.query_at if attention_mask.looks_back else None
        if attention_mask.length < S:  # the rest of a static cache, which nobody sees
            key, value = key[:, :, : attention_mask.length], value[:, :, : attention_mask.length]
    elif attention_mask is not None and attention_mask.dim() == 2:  # what flash kernels are given: 1 = keep
        split = Split(padding(attention_mask.bool()) & (_back(sliding_window) if _causal(module, is_causal) else everything()))
    elif attention_mask is not None:
        given = attention_mask[..., :S] if attention_mask.shape[-1] > S else attention_mask
        split = split_mask(given, L, S)
    elif none_is_causal and L > 1 and _causal(module, is_causal):
        split = Split(_back(sliding_window))
        key, value = key[:, :, :L], value[:, :, :L]  # as SDPA reads it: the rest of a static cache that holds nothing yet
    if position_bias is not None:
        position_bias = position_bias[..., : key.shape[2]]
        split = split._replace(bias=position_bias if split.bias is None else split.bias + position_bias)
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    spec, _ = lower(query, key, value, split, scale=scale, cap=softcap, sinks=s_aux, dropout=dropout)
    kernel = choose(spec, "auto")[0]
    cross = getattr(module, "is_cross_attention", None)
    return Caught(spec, lambda: kernel.run(spec), kernel.name, module, cross if isinstance(cross, bool) else None, query_at, key_at)


def _back(sliding_window: int | None) -> Mask:
    return causal() if sliding_window is None else causal() & window(sliding_window - 1, 0)


def _causal(module: nn.Module, is_causal: bool | None) -> bool:
    """As transformers' SDPA reads it: what is said in the call, else by the module, else yes."""
    return bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **kwargs: Any,
) -> Allowed:
    """Our mask behind transformers' mask interface: rules for the patterns it knows, a matrix only for one it cannot read."""
    query_at, key_at = int(q_offset), int(kv_offset)
    found = _rule(mask_function, query_at, key_at, q_length)
    looks_back = found is not None and found[1]
    length = min(kv_length, query_at + q_length - key_at) if looks_back else kv_length
    if found is not None and (not looks_back or length - q_length == query_at - key_at):
        rule = found[0](length)
    else:
        rule = dense(_matrix(mask_function, batch_size, q_length, kv_length, query_at, key_at, use_vmap, device))
        looks_back, length = False, kv_length
    if attention_mask is not None:
        keep = attention_mask.bool()[:, key_at : key_at + length]
        keep = nn.functional.pad(keep, (0, length - keep.shape[1])) if keep.shape[1] < length else keep
        rule = rule if bool(keep.all()) else rule & padding(keep)
    shape = (batch_size, 1, q_length, kv_length)
    return Allowed.make(shape, device, None if rule == everything() else rule, query_at, key_at, length, looks_back)


def _matrix(
    function: Any, batch: int, queries: int, keys: int, query_at: int, key_at: int, use_vmap: bool, device: torch.device | str
) -> Tensor:
    from transformers.masking_utils import sdpa_mask

    found: Tensor = sdpa_mask(
        batch_size=batch, q_length=queries, kv_length=keys, q_offset=query_at, kv_offset=key_at, mask_function=function,
        allow_is_causal_skip=False, use_vmap=use_vmap, device=device,
    )  # fmt: skip
    return found.expand(batch, 1, queries, keys)


def _rule(function: Any, query_at: int, key_at: int, queries: int) -> tuple[Callable[[int], Mask], bool] | None:
    """A mask function of transformers as (a mask for a number of keys, whether it only looks back); None if it is not one we know."""
    name = getattr(function, "__qualname__", "")
    inside = dict(zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ()), strict=True)) if name else {}
    if name == "causal_mask_function":
        return (lambda S: causal()), True
    if name == "bidirectional_mask_function":
        return (lambda S: everything()), False
    if name == "sliding_window_overlay.<locals>.inner_mask":
        return (lambda S: window(int(inside["sliding_window"]) - 1, None)), False
    if name == "sliding_window_bidirectional_overlay.<locals>.inner_mask":
        return (lambda S: window(int(inside["sliding_window"]), int(inside["sliding_window"]))), False
    if name == "packed_sequence_mask_function.<locals>.inner_mask" and query_at == key_at == 0:
        return (lambda S: documents(inside["packed_sequence_mask"])), False
    if name == "chunked_overlay.<locals>.inner_mask":
        at, size = inside["left_padding"].view(-1, 1), int(inside["chunk_size"])
        here = torch.arange(query_at, query_at + queries, device=at.device)
        return (lambda S: documents((here - at) // size, (torch.arange(key_at, key_at + S, device=at.device) - at) // size)), False
    if name == "and_masks.<locals>.and_mask":
        parts = [_rule(part, query_at, key_at, queries) for part in inside["mask_functions"]]
        if any(part is None for part in parts):
            return None
        known = [part for part in parts if part is not None]

        def both(S: int) -> Mask:
            joined = everything()
            for build, _ in known:
                joined = joined & build(S)
            return joined

        return both, any(back for _, back in known)
    return None


# For the length of a block


def patches() -> list[Callable[[], None]]:
    """Registered for good (a name costs nothing); wrapped for a while."""
    if "transformers" not in sys.modules:
        return []
    from transformers import AttentionInterface

    register()
    return [replace(AttentionInterface, "get_interface", _wrapped(AttentionInterface.get_interface))]


def _wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    """Transformers' look-up of an attention function, answering with one that is looked at."""

    def get_interface(self: Any, attn_implementation: str, default: Callable[..., Any]) -> Callable[..., Any]:
        function: Callable[..., Any] = original(self, attn_implementation, default)
        if attn_implementation in _OURS_OR_SEEN or not watched():
            return function
        return partial(_look, function, str(attn_implementation))

    return get_interface


def _look(
    function: Callable[..., Any],
    name: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> Any:
    """The model's own attention function, its arguments read as one attention beside it."""

    def original() -> Any:
        return function(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)

    if not watched(module):
        return original()
    wanted = ("is_causal", "position_bias", "sliding_window", "softcap", "s_aux")
    given = {what: kwargs.get(what) for what in wanted}
    dropped = dropout if module.training else 0.0
    # Eager attention is told of causality by its mask alone.
    caught = _caught(module, query, key, value, attention_mask, dropped, scaling, **given, none_is_causal=name != "eager")
    made: list[Any] = []

    def own() -> Result:
        made.append(original())
        return Result(made[0][0].transpose(1, 2))

    caught.own, caught.own_name = own, name
    result = dispatch(caught)
    if made and not caught.altered and caught.muted is None:
        return made[0]
    return result.output.transpose(1, 2).contiguous(), None


_lock = threading.Lock()
_borrowed: dict[int, tuple[Any, str | None, int]] = {}  # config, what it said, how many lenses are open on it


@contextmanager
def borrow(model: nn.Module) -> Iterator[None]:
    """Switch the transformers models inside `model` to our attention; each says again what it said before."""
    configs = list(_configs(model))
    with _lock:
        for config in configs:
            _, before, count = _borrowed.get(id(config), (config, config._attn_implementation_internal, 0))
            _borrowed[id(config)] = (config, before, count + 1)
            config._attn_implementation_internal = NAME
    try:
        yield
    finally:
        with _lock:
            for config in configs:
                _, before, count = _borrowed.pop(id(config))
                if count > 1:
                    _borrowed[id(config)] = (config, before, count - 1)
                else:
                    config._attn_implementation_internal = before


def _configs(model: nn.Module) -> Iterator[Any]:
    """The configs of every transformers model in `model` whose attention can be switched."""
    if "transformers" not in sys.modules:
        return
    from transformers import PreTrainedModel

    known: set[int] = set()
    for module in model.modules():
        if isinstance(module, PreTrainedModel) and module._can_set_attn_implementation():
            found = [module.config]
            while found:
                config = found.pop()
                if id(config) not in known and hasattr(config, "_attn_implementation_internal"):
                    known.add(id(config))
                    yield config
                    found += [sub for name in config.sub_configs if (sub := getattr(config, name, None)) is not None]
