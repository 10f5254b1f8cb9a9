"""A decoding step: one query per head against all keys, with as little as possible between the caller and the kernel.

Axes: B batch, h heads, k key heads, S keys, d width, dv value width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...tracing import transform
from .arguments import TYPES
from .extension import compiled


def single_query(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor | None:
    """softmax(scale · q·kᵀ) · v for query (B, h, 1, d), key (B, k, S, d), value (B, k, S, dv): (B, 1, h, dv), contiguous.

    None where this does not apply: another shape, device or dtype, a gradient, torch.compile. What the shapes must be is not explained
    here; the general path does that.

    >>> q, k = torch.randn(1, 4, 1, 8), torch.randn(1, 2, 5, 8)
    >>> out = single_query(q, k, k, 0.3)
    >>> out is None or out.shape == (1, 1, 4, 8)
    True
    """
    if compiled is None or torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or transform(query) is not None:
        return None
    sizes, key_sizes, value_sizes, kind = query.shape, key.shape, value.shape, TYPES.get(query.dtype)
    if (
        kind is None
        or not len(sizes) == len(key_sizes) == len(value_sizes) == 4
        or sizes[2] != 1
        or key_sizes[:3] != value_sizes[:3]
        or sizes[0] != key_sizes[0]
        or sizes[3] != key_sizes[3]
        or not key_sizes[1]
        or sizes[1] % key_sizes[1]
        or not query.dtype == key.dtype == value.dtype
        or not (query.is_cpu and key.is_cpu and value.is_cpu)
        or (torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad))
        or not (sizes[0] and sizes[3] and key_sizes[2] and value_sizes[3])
        or torch.is_autocast_enabled("cpu")
    ):
        return None
    out = query.new_empty(sizes[0], 1, sizes[1], value_sizes[3])
    compiled.single_query(
        kind,
        query.data_ptr(),
        sizes,
        query.stride(),
        key.data_ptr(),
        key_sizes,
        key.stride(),
        value.data_ptr(),
        value_sizes[3],
        value.stride(),
        out.data_ptr(),
        scale,
        torch.get_num_threads(),
    )
    return out


__all__ = ["single_query"]
