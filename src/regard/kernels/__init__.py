"""Ways to compute one attention: the readable truth, torch's own, tiles in plain torch, compiled tiles.

A kernel is picked by :func:`order`, fastest first; the first that does not refuse the spec runs it.
"""

from __future__ import annotations

import torch

from .fused import Fused
from .native import Native, instruction_set
from .reference import Reference
from .spec import Kernel, Result, Spec
from .streamed import Streamed

KERNELS: dict[str, Kernel] = {kernel.name: kernel for kernel in (Native(), Fused(), Streamed(), Reference())}
_COMPILED = (KERNELS["native"], KERNELS["fused"], KERNELS["streamed"])
_TORCH = (KERNELS["fused"], KERNELS["streamed"])
_SMALL = (KERNELS["fused"], KERNELS["native"], KERNELS["streamed"])
_HERE = instruction_set() is not None  # asked once: a compiled graph cannot call into the extension
SMALL = 1 << 22  # multiplications below which a call costs more than its arithmetic, and torch's own door is the shortest


def order(spec: Spec) -> tuple[Kernel, ...]:
    """The kernels `kernel="auto"` tries, fastest first. The dense reference is never among them."""
    if spec.query.device.type != "cpu" or not _HERE:
        return _TORCH
    # Torch follows gradients in C++, we in Python: with a gradient the shortest door stays shortest a little longer; but not in
    # bfloat16, where the backward of torch's CPU kernel takes many times as long as ours.
    if spec.needs_grad:
        small = spec.work < 4 * SMALL and spec.query.dtype != torch.bfloat16
    else:
        small = spec.work < SMALL and spec.mask is None
    return _SMALL if small else _COMPILED


__all__ = ["KERNELS", "SMALL", "Kernel", "Result", "Spec", "order"]
