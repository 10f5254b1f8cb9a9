"""Capture the attention of transformers models, and run them on regard's kernels.

`register()` adds "regard" to transformers' registries of attention and mask functions; then `model.set_attn_implementation("regard")`
runs any model that uses the attention interface on regard's kernels, with symbolic masks. A `watch` block does the same while it is
open, or (kernel="own") keeps the model's attention function and observes its arguments and its output.

Axes: B batch, h heads, k key heads, L queries, S keys, d width.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...kernels.kernel import Result
from ...kernels.native import single_query
from ...kernels.request import Request
from ...kernels.select import execute as run
from ...kernels.select import intercepted
from ...masks import Mask, causal, dense, everything, padding, window
from ...tracing import compiling
from ..recompute import all_weights
from .captured import CapturedAttention, Execution, execute
from .interception import describing, dispatch, handling, is_watched, replace_attribute, thread
from .sdpa_arguments import SplitMask, sdpa_request, split_mask
from .trails import UNREADABLE, is_readable
from .transformers_masks import MaskRule, mask, original_implementation, switched

NAME = "regard"
_CAPTURED_ELSEWHERE = (NAME, "sdpa")  # by `attention` below and by `torch_calls`


def register() -> None:
    """Register the attention implementation "regard" with transformers, for `model.set_attn_implementation("regard")`.

    >>> from transformers import BertConfig, BertModel
    >>> register()
    >>> BertModel(BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2)).set_attn_implementation("regard")
    """
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
) -> tuple[Tensor, Tensor | None]:
    """Run transformers' attention interface on regard's kernels: query (B, h, L, d), key and value (B, k, S, d) → (B, L, h, d).

    With `output_attentions` it also returns the weights (B, h, L, S), as eager attention does.
    """
    if compiling():
        graph_call = _InterfaceCall(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, position_bias, sliding_window, softcap, s_aux
        )
        return run(graph_call.request_in_graph()).output.transpose(1, 2).contiguous(), None
    # A decoding step calls this once per layer, and the model's weights leave little time: no request where the kernel needs none.
    if (
        type(attention_mask) is MaskRule
        and attention_mask.shows_all
        and softcap is None
        and s_aux is None
        and position_bias is None
        and not dropout
        and key.shape[2] == attention_mask.length
        and not thread.blocks
        and not intercepted()
        and not _wants_weights(module, kwargs)
        and (output := single_query(query, key, value, query.shape[-1] ** -0.5 if scaling is None else scaling)) is not None
    ):
        return output, None
    is_eager = original_implementation(getattr(module, "config", None)) == "eager"
    call = _InterfaceCall(
        module, query, key, value, attention_mask, dropout, scaling, is_causal, position_bias, sliding_window, softcap, s_aux,
        none_is_causal=not is_eager,
    )  # fmt: skip
    # Moonshine passes is_causal=False because it got a mask, which SDPA would not have made; its module is causal.
    is_causal_module = call.is_causal_call or bool(getattr(module, "is_causal", False))
    if isinstance(attention_mask, MaskRule) and attention_mask.replaceable and not (is_eager or is_causal_module):
        call.attention_mask = None  # as with SDPA: ColPali makes causal masks for modules that are not causal
    captured = call.capture()
    if is_eager and isinstance(attention_mask, MaskRule) and s_aux is None:
        captured.uniform_rows, captured.all_values = "empty", value
    result = dispatch(captured) if is_watched(module) else captured.run().result
    weights = all_weights(captured.request) if _wants_weights(module, kwargs, is_eager) else None
    return result.output.transpose(1, 2).contiguous(), weights


def _wants_weights(module: nn.Module, options: dict[str, Any], is_eager: bool = False) -> bool:
    """Return whether the model may read the weights: it was asked for its attentions, or is eager.

    Eager attention always makes them, and some models return them without being asked (BridgeTower, Kosmos-2).
    """
    if is_eager or options.get("output_attentions") or getattr(getattr(module, "config", None), "output_attentions", False):
        return True
    try:
        from transformers.utils.output_capturing import _active_collector
    except ImportError:
        return False
    return any("attention" in name for name in _active_collector.get() or ())


@dataclass(eq=False)
class _InterfaceCall:
    """The arguments of transformers' attention interface."""

    module: nn.Module
    query: Tensor  # (B, h, L, d)
    key: Tensor  # (B, k, S, d)
    value: Tensor
    attention_mask: Tensor | None
    dropout: float
    scaling: float | None
    is_causal: bool | None
    position_bias: Tensor | None
    sliding_window: int | None
    softcap: float | None
    s_aux: Tensor | None
    none_is_causal: bool = True  # whether a causal module masks without attention_mask; False for eager, which reads its mask only

    def request_in_graph(self) -> Request:
        """Return the call as a request without reading the numbers of its mask, as torch.compile needs."""
        mask, (S, scale) = self.attention_mask, (self.key.shape[2], self.query.shape[-1] ** -0.5 if self.scaling is None else self.scaling)
        if mask is None or mask.dim() == 2:
            split = self._split_mask()
        else:
            mask = mask[..., :S]
            split = SplitMask(dense(mask)) if mask.dtype == torch.bool else SplitMask(bias=mask)
        if self.position_bias is not None:
            split = split._replace(bias=self.position_bias if split.bias is None else split.bias + self.position_bias)
        length = self._key_length(None)
        key, value = self.key[:, :, :length], self.value[:, :, :length]
        return sdpa_request(self.query, key, value, split, scale=scale, cap=self.softcap, sinks=self.s_aux, dropout=self.dropout)

    def capture(self) -> CapturedAttention:
        """Return the call as a captured attention that runs on regard's kernels."""
        rule = self.attention_mask if isinstance(self.attention_mask, MaskRule) else None
        length = self._key_length(rule)
        key, value = self.key[:, :, :length], self.value[:, :, :length]
        split = SplitMask(rule.mask) if rule is not None else self._split_mask()
        if self.position_bias is not None:
            position_bias = self.position_bias[..., :length]
            split = split._replace(bias=position_bias if split.bias is None else split.bias + position_bias)
        scale = self.query.shape[-1] ** -0.5 if self.scaling is None else float(self.scaling)
        request = sdpa_request(self.query, key, value, split, scale=scale, cap=self.softcap, sinks=self.s_aux, dropout=self.dropout)
        cross = getattr(self.module, "is_cross_attention", None)
        return CapturedAttention(
            request,
            partial(execute, request),
            self.module,
            cross=cross if isinstance(cross, bool) else None,
            query_start=rule.query_start if rule is not None and rule.is_causal else None,
            key_start=0 if rule is None else rule.key_start,
            uniform_rows=None if self.s_aux is not None else split.uniform_rows,
            all_values=self.value,
        )

    def _split_mask(self) -> SplitMask:
        """Return the mask and bias of a call whose attention_mask is a tensor or None."""
        L, S = self.query.shape[2], self.key.shape[2]
        if not isinstance(self.attention_mask, Tensor | None):  # a BlockMask of flex_attention
            return SplitMask(dense(_block_mask(self.attention_mask, self.query.shape[0], self.query.shape[1], L, S, self.query.device)))
        if self.attention_mask is None:
            return SplitMask(self._causal_mask()) if self._unmasked_causal else SplitMask()
        if self.attention_mask.dim() == 2:  # the padding mask of flash kernels: 1 = keep
            return SplitMask(padding(self.attention_mask.bool()) & (self._causal_mask() if self.is_causal_call else everything()))
        mask = self.attention_mask[..., :S] if self.attention_mask.shape[-1] > S else self.attention_mask
        if mask.dtype == torch.bool and not self.none_is_causal:  # eager attention adds its mask, whatever it is (Grounding DINO)
            mask = mask.to(self.query.dtype)
        return split_mask(mask, L, S)

    def _key_length(self, rule: MaskRule | None) -> int:
        """Return how many keys are in use: a static cache is longer, and no query sees the rest."""
        L, S = self.query.shape[2], self.key.shape[2]
        if rule is not None:
            return min(rule.length, S)
        return min(L, S) if self._unmasked_causal else S  # as SDPA with is_causal: the cache beyond is still empty

    @property
    def _unmasked_causal(self) -> bool:
        return self.attention_mask is None and self.none_is_causal and self.query.shape[2] > 1 and self.is_causal_call

    @property
    def is_causal_call(self) -> bool:
        """Whether the call is causal, as in transformers' SDPA function: its argument, else the module's attribute, else True."""
        return bool(getattr(self.module, "is_causal", True) if self.is_causal is None else self.is_causal)

    def _causal_mask(self) -> Mask:
        return causal() if self.sliding_window is None else causal() & window(self.sliding_window - 1, 0)


def _block_mask(mask: Any, B: int, h: int, L: int, S: int, device: torch.device) -> Tensor:
    """Evaluate the mask function of a BlockMask at every pair of query and key, (B, 1, L, S) or (B, h, L, S) bool."""
    from torch.nn.attention.flex_attention import create_mask

    by_head = mask.shape[1] > 1
    visible: Tensor = create_mask(mask.mask_mod, B, h if by_head else 1, L, S, device=device)
    return visible


# While a block is open


def patches() -> list[Callable[[], None]]:
    """Register "regard", which stays registered, and replace the look-up of attention functions until the patch is undone."""
    if "transformers" not in sys.modules:
        return []
    from transformers import AttentionInterface

    register()
    return [replace_attribute(AttentionInterface, "get_interface", _capturing(AttentionInterface.get_interface))]


def _capturing(get_original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap transformers' look-up of attention functions so that calls of the function it returns are captured."""

    def get_interface(self: Any, attn_implementation: str, default: Callable[..., Any]) -> Callable[..., Any]:
        function: Callable[..., Any] = get_original(self, attn_implementation, default)
        if attn_implementation == NAME and is_watched():
            return partial(_regard_unless_unreadable, partial(get_original, self, default=default))
        if attn_implementation in _CAPTURED_ELSEWHERE or not is_watched():
            return function
        return partial(_captured_call, function, str(attn_implementation))

    return get_interface


def _regard_unless_unreadable(
    get_function: Callable[..., Callable[..., Any]],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    **options: Any,
) -> Any:
    """Call "regard"; or, for tensors without numbers, the model's own attention function."""
    if is_readable(query, key, value):
        return attention(module, query, key, value, attention_mask, **options)
    for block in thread.blocks:
        if block.covers(module):
            block.report_missed(tuple(query.shape), UNREADABLE)
    plain_mask = attention_mask.contents() if isinstance(attention_mask, MaskRule) else attention_mask
    with handling():
        original = original_implementation(getattr(module, "config", None)) or "sdpa"
        return get_function(original)(module, query, key, value, plain_mask, **options)


def _captured_call(
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
    """Call the model's own attention function as a captured attention."""

    def original() -> Any:
        return function(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)

    if not is_watched(module):
        return original()
    if not is_readable(query, key, value):
        for block in thread.blocks:
            if block.covers(module):
                block.report_missed(tuple(query.shape), UNREADABLE)
        with handling():
            return original()
    optional = {option: kwargs.get(option) for option in ("is_causal", "position_bias", "sliding_window", "softcap", "s_aux")}
    active_dropout = dropout if module.training else 0.0
    call = _InterfaceCall(
        module, query, key, value, attention_mask, active_dropout, scaling, **optional, none_is_causal=name != "eager"
    )  # fmt: skip
    with handling(), describing():
        captured = call.capture()
    returned: list[Any] = []

    def run_original() -> Execution:
        returned.append(original())
        return Execution(Result(returned[0][0].transpose(1, 2)), name)

    captured.run_original = run_original
    result = dispatch(captured)
    if returned and not captured.changed:
        return returned[0]
    wanted = _wants_weights(module, kwargs, name == "eager") or (returned and returned[0][1] is not None)
    weights = all_weights(captured.request) if wanted else None
    return result.output.transpose(1, 2).contiguous(), weights


_lock = threading.Lock()


@contextmanager
def regard_attention(model: nn.Module) -> Iterator[None]:
    """Run the transformers models inside `model` on regard's attention within the block."""
    configs = list(_configs(model))
    with _lock:
        for config in configs:
            _, original, count = switched.get(id(config), (config, config._attn_implementation_internal, 0))
            switched[id(config)] = (config, original, count + 1)
            config._attn_implementation_internal = NAME
    try:
        yield
    finally:
        with _lock:
            for config in configs:
                _, original, count = switched.pop(id(config))
                if count > 1:
                    switched[id(config)] = (config, original, count - 1)
                else:
                    config._attn_implementation_internal = original


def _configs(model: nn.Module) -> Iterator[Any]:
    """Iterate over the configs of all transformers models in `model` whose attention implementation can be set."""
    if "transformers" not in sys.modules:
        return
    from transformers import PreTrainedModel

    visited: set[int] = set()
    for module in model.modules():
        if isinstance(module, PreTrainedModel) and module._can_set_attn_implementation():
            remaining = [module.config]
            while remaining:
                config = remaining.pop()
                if id(config) not in visited and hasattr(config, "_attn_implementation_internal"):
                    visited.add(id(config))
                    yield config
                    remaining += [sub for name in config.sub_configs if (sub := getattr(config, name, None)) is not None]
