"""Attention masks of transformers as regard masks: the mask function we register, and the object it passes to our attention function.

Axes: B batch, L queries, S keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from ...masks import Mask, causal, dense, documents, everything, padding, window
from ...tracing import compiling
from .interception import is_watched


class MaskRule(Tensor):
    """A regard mask with the positions of queries and keys, as our mask function passes it to our attention function.

    For transformers it is a tensor (B, 1, L, S), without contents, that it passes on. Slicing its keys returns it unchanged (the
    attention function cuts it to its keys). Any other operation of a model runs on the mask that the model's own attention would have
    got: boolean, or for eager attention zero and the lowest number.
    """

    mask: Mask | None
    query_start: int
    key_start: int
    length: int  # keys in use; a static cache is longer
    is_causal: bool  # keys after a query's own position are hidden
    shows_all: bool  # a single query, which sees every key in use
    replaceable: bool  # transformers' SDPA gets no mask for it, and is causal only if the module is

    @staticmethod
    def make(
        shape: tuple[int, int, int, int],
        device: torch.device | str,
        mask: Mask | None,
        *,
        query_start: int,
        key_start: int,
        length: int,
        is_causal: bool,
        dtype: torch.dtype = torch.bool,
        replaceable: bool = False,
    ) -> MaskRule:
        """Create a mask of this shape (B, 1, L, S)."""
        rule: MaskRule = Tensor._make_subclass(MaskRule, torch.zeros((), dtype=dtype, device=device).expand(shape))
        rule.mask, rule.query_start, rule.key_start, rule.length, rule.is_causal = mask, query_start, key_start, length, is_causal
        rule.replaceable = replaceable
        rule.shows_all = shape[2] == 1 and (mask is None or mask.tile(range(1), range(length), 1, length) == "all")
        return rule

    def __getitem__(self, index: Any) -> Tensor:
        parts = index if isinstance(index, tuple) else (index,)
        if all(isinstance(part, slice) or part is ... for part in parts):
            with torch._C.DisableTorchFunctionSubclass():
                kept = torch.empty(self.shape, device="meta")[index].shape[:3]
            if kept == self.shape[:3]:
                return self
        return self.contents()[index]

    def detach(self) -> MaskRule:  # by gradient checkpointing
        return self

    def contiguous(self, *args: Any, **kwargs: Any) -> MaskRule:
        return self

    def to(self, *args: Any, **kwargs: Any) -> MaskRule:
        return self

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            if getattr(func, "__name__", "") not in _READ_ONLY:
                args, kwargs = tree_map_only(MaskRule, MaskRule.contents, (args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    def contents(self) -> Tensor:
        """Return the mask as a tensor (B, 1, L, S)."""
        B, _, L, S = self.shape
        mask = everything() if self.mask is None else self.mask
        visible = mask.dense(L, self.length, device=self.device).expand(B, 1, L, self.length)
        visible = nn.functional.pad(visible, (0, S - self.length))
        return visible if self.dtype == torch.bool else additive(visible, self.dtype)


_READ_ONLY = (
    "__get__",
    "__set__",
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


def additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where visible and the dtype's lowest number elsewhere, as eager attention adds it to its scores."""
    return torch.zeros((), dtype=dtype, device=visible.device).masked_fill(~visible, torch.finfo(dtype).min)


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
    dtype: torch.dtype = torch.float32,
    config: Any = None,
    allow_is_bidirectional_skip: bool = False,
    **kwargs: Any,
) -> Tensor | None:
    """Mask function of transformers' interface: a symbolic mask for known mask functions, a dense one for any other.

    None where every key is visible and transformers' SDPA would get none. A graph of torch.compile gets the tensor that SDPA would
    (B, 1, L, S): inside one, and for a step on a static cache, which transformers compiles, unless the model is watched
    (`generate` makes the masks of such steps before the model runs, so an open block is known by the config it switched).
    """
    compiled_step = q_length == 1 and not kwargs.get("allow_is_causal_skip", True) and not (is_watched() or id(config) in switched)
    if compiling() or compiled_step:
        from transformers.masking_utils import sdpa_mask

        tensor: Tensor = sdpa_mask(
            batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
            mask_function=mask_function, attention_mask=attention_mask, use_vmap=use_vmap, device=device,
            **{**kwargs, "allow_is_causal_skip": False},
        )  # fmt: skip
        return tensor
    if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:  # no numbers: a mask of the right shape will do
        return torch.ones(batch_size, 1, q_length, kv_length, dtype=torch.bool, device=device)
    query_start, key_start = int(q_offset), int(kv_offset)
    pattern = _read_mask_function(mask_function, query_start, key_start, q_length)
    is_causal = pattern is not None and pattern.is_causal
    length = min(kv_length, query_start + q_length - key_start) if is_causal else kv_length
    if pattern is not None and (not is_causal or length - q_length == query_start - key_start):
        visible = pattern.build(length)
    else:
        visible = dense(_dense_mask(mask_function, batch_size, q_length, kv_length, query_start, key_start, use_vmap, device))
        is_causal, length = False, kv_length
    if attention_mask is not None:
        visible = _and_padding(visible, attention_mask, key_start, length)
    if allow_is_bidirectional_skip and visible == everything() and length == kv_length:
        return None
    return MaskRule.make(
        (batch_size, 1, q_length, kv_length),
        device,
        None if visible == everything() else visible,
        query_start=query_start,
        key_start=key_start,
        length=length,
        is_causal=is_causal,
        dtype=dtype if original_implementation(config) == "eager" else torch.bool,
        replaceable=visible == causal() and q_length == kv_length and kwargs.get("allow_is_causal_skip", True),
    )


switched: dict[int, tuple[Any, str | None, int]] = {}  # configs that a block set to "regard", by id: config, its own value, open blocks


def original_implementation(config: Any) -> str | None:
    """Return the attention implementation of a config before a block switched it; of any switched one if the config is not known."""
    if config is None:
        return next((original for _, original, _ in switched.values()), None)
    _, original, _ = switched.get(id(config), (None, None, 0))
    return original


def _and_padding(visible: Mask, attention_mask: Tensor, key_start: int, length: int) -> Mask:
    """Combine a mask with a 2-D attention mask (B, S), 1 = keep; keys beyond its end are hidden too."""
    keep = attention_mask.bool()[:, key_start : key_start + length]
    keep = nn.functional.pad(keep, (0, length - keep.shape[1])) if keep.shape[1] < length else keep
    return visible if bool(keep.all()) else visible & padding(keep)


def _dense_mask(
    function: Any, batch: int, queries: int, keys: int, query_start: int, key_start: int, use_vmap: bool, device: torch.device | str
) -> Tensor:
    """Evaluate a mask function at every pair of query and key, (B, 1, L, S) bool."""
    from transformers.masking_utils import sdpa_mask

    visible: Tensor = sdpa_mask(
        batch_size=batch, q_length=queries, kv_length=keys, q_offset=query_start, kv_offset=key_start, mask_function=function,
        allow_is_causal_skip=False, use_vmap=use_vmap, device=device,
    )  # fmt: skip
    return visible.expand(batch, 1, queries, keys)


class _Pattern(NamedTuple):
    """A known mask function of transformers as a regard mask."""

    build: Callable[[int], Mask]  # from the number of keys
    is_causal: bool


def _read_mask_function(function: Any, query_start: int, key_start: int, queries: int) -> _Pattern | None:
    """Recognise a mask function of transformers by its name, and read its closure variables; None for an unknown function."""
    name = getattr(function, "__qualname__", "")
    variables = dict(zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ()), strict=True)) if name else {}
    if name == "causal_mask_function":
        return _Pattern(lambda S: causal(), True)
    if name == "bidirectional_mask_function":
        return _Pattern(lambda S: everything(), False)
    if name == "sliding_window_overlay.<locals>.inner_mask" and variables["sliding_window"] > 0:  # 0 shows nothing (Qwen2-MoE)
        return _Pattern(lambda S: window(int(variables["sliding_window"]) - 1, None), False)
    if name == "sliding_window_bidirectional_overlay.<locals>.inner_mask":
        return _Pattern(lambda S: window(int(variables["sliding_window"]), int(variables["sliding_window"])), False)
    if name == "packed_sequence_mask_function.<locals>.inner_mask" and query_start == key_start == 0:
        return _Pattern(lambda S: documents(variables["packed_sequence_mask"]), False)
    if name == "chunked_overlay.<locals>.inner_mask":
        return _chunks(variables["left_padding"].view(-1, 1), int(variables["chunk_size"]), query_start, key_start, queries)
    if name == "and_masks.<locals>.and_mask":
        return _all_of([_read_mask_function(part, query_start, key_start, queries) for part in variables["mask_functions"]])
    return None


def _chunks(left_padding: Tensor, size: int, query_start: int, key_start: int, queries: int) -> _Pattern:
    """Return chunked attention: a query sees the keys of its own chunk."""
    query_position = torch.arange(query_start, query_start + queries, device=left_padding.device)

    def build(S: int) -> Mask:
        key_position = torch.arange(key_start, key_start + S, device=left_padding.device)
        return documents((query_position - left_padding) // size, (key_position - left_padding) // size)

    return _Pattern(build, False)


def _all_of(parts: list[_Pattern | None]) -> _Pattern | None:
    """Return the intersection of several patterns; None if one of them is unknown."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None

    def build(S: int) -> Mask:
        joined = everything()
        for part in known:
            joined = joined & part.build(S)
        return joined

    return _Pattern(build, any(part.is_causal for part in known))
