"""A torch function mode that captures attention called by a directly imported name, and reports attention that cannot be captured.

torch switches the mode off inside its own Python functions, which is why `torch_calls` also replaces the names in torch.nn.functional.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .interception import READABLE_CALLS, thread
from .torch_calls import captured_multi_head, captured_sdpa, torch_multi_head, torch_sdpa

if TYPE_CHECKING:
    from .model_hooks import ModelHooks

_SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax}
_PRODUCT = {
    torch.matmul, torch.bmm, torch.mm, torch.einsum, torch.baddbmm,
    Tensor.matmul, Tensor.__matmul__, Tensor.bmm, Tensor.mm,
}  # fmt: skip
_SOFTMAX_SHAPE = "_regard_softmax"  # the attribute set on a tensor that came out of a softmax
_opaque: dict[Any, bool] = {}  # functions called so far: is it an attention whose weights are not accessible?


class AttentionMode(TorchFunctionMode):
    """Captures SDPA and multi-head attention, and reports every other attention that the block's model computes."""

    def __init__(self, block: ModelHooks) -> None:
        super().__init__()
        self.block = block

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if thread.handling or not self.block.covers(None):
            return func(*args, **kwargs)
        if func is torch_sdpa:
            return captured_sdpa(*args, **kwargs)
        if func is torch_multi_head:
            return captured_multi_head(*args, **kwargs)
        result = func(*args, **kwargs)
        if _is_opaque_attention(func):
            query = next((x for x in args if isinstance(x, Tensor)), None)
            shape = () if query is None else tuple(query.shape)
            advice = f"it calls {getattr(func, '__name__', func)}, which gives no weights; make it call {READABLE_CALLS}"
            self.block.report_missed(shape, advice)
        elif isinstance(result, Tensor):
            self._follow_softmax(func, args, kwargs, result)
        return result

    def _follow_softmax(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> None:
        """Report a softmax that is attention: over the last of four axes, or of two or three if its result enters a matrix product."""
        if func in _SOFTMAX:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if dim is None or dim % result.dim() != result.dim() - 1 or result.dim() < 2:
                return
            if result.dim() > 3:
                self.block.report_missed(tuple(result.shape))
            else:
                setattr(result, _SOFTMAX_SHAPE, tuple(result.shape))
            return
        first = args[0] if args else None
        if func in _PRODUCT:
            operands: Any = args[1:] if isinstance(first, str) else args
            operands = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
            shapes = [getattr(x, _SOFTMAX_SHAPE) for x in operands if hasattr(x, _SOFTMAX_SHAPE)]
            if shapes:
                self.block.report_missed(shapes[0])
        elif isinstance(first, Tensor) and hasattr(first, _SOFTMAX_SHAPE) and result is not first and result.numel() == first.numel():
            setattr(result, _SOFTMAX_SHAPE, getattr(first, _SOFTMAX_SHAPE))  # dropout, casts, reshapes


def _is_opaque_attention(func: Any) -> bool:
    """Return whether a function's name says attention: flex_attention, operations of flash_attn and xformers, torch's fused ones."""
    opaque = _opaque.get(func)
    if opaque is None:
        name = str(getattr(func, "__name__", func)).lower()
        opaque = _opaque[func] = "attention" in name or "flash_attn" in name
    return opaque
