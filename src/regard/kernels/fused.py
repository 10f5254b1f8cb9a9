"""torch's scaled_dot_product_attention, used only where it is exact and linear in memory.

Not used for dropout, for a value width other than the key's, for a bias or mask that it would need as an L×S tensor (there it
turns dense), for a last stride other than 1, and for non-finite keys or values under a causal mask (there it is wrong: one NaN
value spreads to earlier rows of its tile).

Axes: B batch, h heads, L queries, S keys, d width.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, is_grad_enabled
from torch.nn import functional

from ..choices import Softmax
from ..masks import Mask, causal
from ..tracing import compiling
from .kernel import Result, refuses_transforms
from .request import Request
from .second_order import differentiable_gradients
from .tiles import finite

_CAUSAL = (causal(), causal(align="start"))


def is_causal(mask: Mask | None, L: int, S: int) -> bool:
    """Whether the mask is exactly torch's ``is_causal`` mask."""
    return mask is not None and ((mask == _CAUSAL[0] and L == S) or mask == _CAUSAL[1])


class Fused:
    """torch's scaled_dot_product_attention."""

    name = "fused"

    def refuses(self, request: Request) -> str | None:
        B, h, L, S = request.sizes
        if type(request.choice) is not Softmax or request.sinks is not None:
            return "SDPA supports only a plain softmax"
        if request.score is not None or request.cap is not None or request.key_bias is not None:
            return "the score is not a plain dot product"
        if (why := refuses_transforms(request)) is not None:
            return why
        if isinstance(request.beta, Tensor):
            return "SDPA has no learned temperature"
        if request.dropout:
            return f"dropout makes SDPA dense ({B * h * L * S * request.query.element_size():,} bytes)"
        if request.bias is not None:
            return f"SDPA needs the bias as a dense tensor ({B * h * L * S * request.query.element_size():,} bytes)"
        if request.mask is not None and not is_causal(request.mask, L, S):
            return "SDPA needs this mask as a dense tensor"
        if request.query.shape[-1] != request.value.shape[-1]:
            return f"value width {request.value.shape[-1]} ≠ key width {request.query.shape[-1]} makes SDPA dense"
        if not (L and S and B and h and request.query.shape[-1]):
            return "an input is empty"
        for name, x in (("query", request.query), ("key", request.key), ("value", request.value)):
            if x.stride(-1) != 1:
                return f"the last stride of the {name} is {x.stride(-1)}, and SDPA's CPU kernel misreads that"
        if request.readings or request.needs_lse:
            return "SDPA returns neither the lse nor readings"
        if request.mask is not None and compiling():
            return "a graph cannot check that no hidden NaN or inf reaches the output of SDPA"
        if request.mask is not None and not (finite(request.key) and finite(request.value)):
            return "a hidden NaN or inf would reach the output of SDPA"
        return None

    def bytes(self, request: Request) -> int:
        B, h, L, _ = request.sizes
        total = B * h * L * (request.value.shape[-1] * request.value.element_size() + 4)
        if request.group > 1:
            total += (request.key.numel() + request.value.numel()) * request.group * request.key.element_size()
        if request.needs_grad:
            total += (request.query.numel() + request.group * (request.key.numel() + request.value.numel())) * request.query.element_size()
        return total

    def reason(self, request: Request) -> str:
        shape = "causal" if request.mask is not None else "unmasked"
        return f"plain {shape} softmax: torch SDPA is exact and linear in memory here"

    def run(self, request: Request) -> Result:
        scale = request.scale * float(request.beta)
        return Result(sdpa(request.query, request.key, request.value, request.mask, scale=scale, grouped=request.group > 1))


def sdpa(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask | None = None, *, scale: float | None = None, grouped: bool = False
) -> Tensor:
    """torch's scaled_dot_product_attention, whose gradient can here be differentiated again. A mask is torch's causal one."""
    output = functional.scaled_dot_product_attention(query, key, value, is_causal=mask is not None, scale=scale, enable_gqa=grouped)
    return output if compiling() else twice_differentiable(output)


def twice_differentiable(output: Tensor) -> Tensor:
    """The output of torch's scaled_dot_product_attention, whose gradient, if it has one, can now be differentiated again."""
    if (node := output.grad_fn) is not None:
        # As output.register_hook, in a fraction of its time: that makes a dict and a handle for every tensor.
        node._register_hook_dict(_HOOKED)
    return output


_FLASH = "ScaledDotProductFlashAttentionForCpuBackward0"  # torch defines no gradient of its gradient
_REPLACED = "regard replaces the gradient"


def _prepare_second_order(grad: Tensor) -> None:
    """Hook before SDPA's backward: where the gradient will be differentiated again, have it replaced by one that can be.

    A hook after it could do that alone, but would take four times as long in the backward passes that need nothing.
    """
    if is_grad_enabled():
        node: Any = torch._C._current_autograd_node()
        if node.name() == _FLASH and _REPLACED not in node.metadata:
            node.metadata[_REPLACED] = True
            query, mask = node._saved_query, _CAUSAL[1] if node._saved_is_causal else None  # freed after its backward
            scale = query.shape[-1] ** -0.5 if node._saved_scale is None else node._saved_scale
            request = Request(query, node._saved_key, node._saved_value, Softmax(), mask=mask, scale=scale)
            node.register_hook(partial(_second_order, request))


_HOOKED = torch.empty(0)  # holds the hooks that every output shares
_HOOKED._backward_hooks = {0: _prepare_second_order}


def _second_order(
    request: Request, grad_inputs: tuple[Tensor | None, ...], grad_outputs: tuple[Tensor | None, ...]
) -> tuple[Tensor | None, ...] | None:
    """Hook after SDPA's backward: its gradients, made anew so that they can be differentiated."""
    if not is_grad_enabled():
        return None
    grads = differentiable_gradients(request, request.inputs(), grad_outputs[0], None)
    return tuple(None if old is None else grad for old, grad in zip(grad_inputs, grads, strict=False))  # None: nobody asked for it
