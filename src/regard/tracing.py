"""Whether torch is recording or transforming a computation, so that the numbers in a tensor cannot be read and C++ cannot be called."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad


def transform(x: Tensor) -> str | None:
    """What must see every torch operation on x, in words; None for an ordinary tensor. Graphs of torch.compile are `compiling`.

    >>> transform(torch.zeros(2)) is None
    True
    >>> transform(torch.zeros(2, device="meta"))
    'a meta tensor'
    """
    return None if torch.compiler.is_compiling() else eager_transform(x)


def eager_transform(x: Tensor) -> str | None:
    """`transform`, where it is known that no graph is being recorded."""
    if torch._C._are_functorch_transforms_active():
        return "a torch.func transform"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation"
    if x.is_meta:
        return "a meta tensor"
    return "a fake tensor" if type(x) is not Tensor and hasattr(x, "fake_mode") else None


def compiling() -> bool:
    """Whether a graph of torch.compile or torch.export is being recorded."""
    return bool(torch.compiler.is_compiling())


def readable(x: Tensor) -> bool:
    """Whether Python may read the numbers of x."""
    return not torch.compiler.is_compiling() and transform(x) is None


def outlives_trace(x: Tensor) -> bool:
    """Whether x may be cached: a tensor made while torch.func or a graph is recorded belongs to that recording."""
    return type(x) is Tensor and (torch.compiler.is_compiling() or not torch._C._functorch.is_functorch_wrapped_tensor(x))


def batched_gradient(x: Tensor | None) -> bool:
    """Whether x is many gradients at once, as `torch.autograd.grad(is_grads_batched=True)` passes them to a backward."""
    return x is not None and torch._C._functorch.is_legacy_batchedtensor(x)


__all__ = ["batched_gradient", "compiling", "eager_transform", "outlives_trace", "readable", "transform"]
