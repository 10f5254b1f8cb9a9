"""Capture the attention of torch: F.scaled_dot_product_attention and nn.MultiheadAttention; report TorchScript functions.

The functions of torch.nn.functional are replaced while a block is open; `torch_function_mode` captures calls by a directly
imported name.

Axes: B batch, h heads, L queries, S keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...kernels.kernel import Result
from ...masks import causal
from ..recompute import all_weights
from .captured import CapturedAttention, Execution
from .interception import describing, dispatch, handling, is_watched, observe_only, replace_attribute, thread
from .sdpa_arguments import ABSORBING, SplitMask, sdpa_request, split_mask
from .trails import UNREADABLE, is_readable

torch_sdpa: Callable[..., Tensor] = F.scaled_dot_product_attention
torch_multi_head: Callable[..., tuple[Tensor, Tensor | None]] = F.multi_head_attention_forward
_script_call: Callable[..., Any] = torch._C.ScriptFunction.__call__
SCRIPT = "it is TorchScript, whose operations cannot be seen; watch the model before torch.jit.script or torch.jit.trace"
_MULTI_HEAD_SIGNATURE = inspect.signature(torch_multi_head)


def patches() -> list[Callable[[], None]]:
    return [
        replace_attribute(F, "scaled_dot_product_attention", captured_sdpa),
        replace_attribute(F, "multi_head_attention_forward", captured_multi_head),
        replace_attribute(torch._C.ScriptFunction, "__call__", _reported_script),
    ]


def script_has_attention(graph: Any) -> bool:
    """Return whether the code of a TorchScript module or function calls attention, or products and a softmax."""
    code = str(graph)
    if "scaled_dot_product_attention" in code:
        return True
    return "softmax" in code and any(f"aten::{name}(" in code for name in ("matmul", "bmm", "einsum"))


def _reported_script(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a TorchScript function, whose operations cannot be seen; reported if it has attention."""
    if is_watched() and script_has_attention(function.inlined_graph):
        for block in thread.blocks:
            if block.covers(None):
                shape = next((tuple(x.shape) for x in args if isinstance(x, Tensor)), ())
                block.report_missed(shape, SCRIPT.replace("it is", f"it calls {function.name}, which is"))
    return _script_call(function, *args, **kwargs)


def captured_sdpa(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Replacement of F.scaled_dot_product_attention."""
    if not is_watched():
        return torch_sdpa(query, key, value, *args, **kwargs)
    return _capture_sdpa(query, key, value, *args, **kwargs)


def _capture_sdpa(
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
    def original() -> Tensor:
        return torch_sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)

    try:
        if not is_readable(query, key, value, *(() if attn_mask is None else (attn_mask,))):
            raise TypeError(UNREADABLE)
        with describing():
            split = _split_with_causal(attn_mask, is_causal, query.shape[-2], key.shape[-2])
            request = sdpa_request(query, key, value, split, scale=scale, dropout=dropout_p)
    except (ValueError, TypeError, RuntimeError) as error:  # nested tensors, shapes that torch accepts and regard does not
        for block in thread.blocks:
            if block.covers(None):
                advice = UNREADABLE if str(error) == UNREADABLE else f"its call of scaled_dot_product_attention is not supported ({error})"
                block.report_missed(_shape(query), advice)
        with handling():
            return original()

    def run_original() -> Execution:
        output = original()
        return Execution(Result(output.reshape(*request.query.shape[:3], output.shape[-1])), "sdpa")

    output: Tensor = request.restore(
        dispatch(CapturedAttention(request, run_original, cross=thread.cross, uniform_rows=split.uniform_rows)).output
    )
    return output


def _shape(x: Tensor) -> tuple[int, ...]:
    return () if x.is_nested else tuple(x.shape)


def _split_with_causal(attn_mask: Tensor | None, is_causal: bool, L: int, S: int) -> SplitMask:
    split = split_mask(attn_mask, L, S, lowest=ABSORBING)
    if not is_causal:
        return split
    return split._replace(mask=causal(align="start") if split.mask is None else split.mask & causal(align="start"))


def captured_multi_head(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """Replacement of F.multi_head_attention_forward, the function that nn.MultiheadAttention calls.

    With need_weights=False it calls SDPA and is captured there. With need_weights=True it computes the weights itself: then it runs
    unchanged, and a second time with need_weights=False to be observed.
    """
    if not is_watched():
        return torch_multi_head(*args, **kwargs)
    bound = _MULTI_HEAD_SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    before, thread.cross = thread.cross, bound.arguments["query"] is not bound.arguments["key"]
    try:
        return _capture_multi_head(bound, args, kwargs)
    finally:
        thread.cross = before


def _capture_multi_head(bound: inspect.BoundArguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
    if not bound.arguments["need_weights"]:
        return torch_multi_head(*args, **kwargs)
    with handling():
        original = torch_multi_head(*args, **kwargs)
    bound.arguments |= {"need_weights": False, "training": False}
    with observe_only() as observed:
        output, _ = torch_multi_head(*bound.args, **bound.kwargs)
    if any(captured.changed for captured in observed):
        weights = torch.cat([all_weights(captured.request) for captured in observed])  # (B, h, L, S)
        return output, weights.mean(1) if bound.arguments["average_attn_weights"] else weights
    if not (kwargs.get("training", True) and bound.arguments["dropout_p"]):
        error = float((original[0].detach() - output.detach()).abs().max()) if output.numel() else 0.0
        for captured in observed:
            for listener in captured.error_listeners:
                listener(error)
    return original
