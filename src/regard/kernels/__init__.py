"""Ways to compute one attention: the readable truth, torch's own, tiles in plain torch, compiled tiles.

A kernel is picked by :func:`order`, fastest first; the first that does not refuse the spec runs it.
"""

from __future__ import annotations

from torch import Tensor

from .fused import Fused
from .native import Native, instruction_set
from .reference import Reference
from .spec import Kernel, Result, Spec
from .streamed import Streamed

KERNELS: dict[str, Kernel] = {kernel.name: kernel for kernel in (Native(), Fused(), Streamed(), Reference())}
_COMPILED = (KERNELS["native"], KERNELS["fused"], KERNELS["streamed"])
_TORCH = (KERNELS["fused"], KERNELS["streamed"])


def order(query: Tensor) -> tuple[Kernel, ...]:
    """The kernels `kernel="auto"` tries, fastest first. The dense reference is never among them."""
    return _COMPILED if query.device.type == "cpu" and instruction_set() is not None else _TORCH


__all__ = ["KERNELS", "Kernel", "Result", "Spec", "order"]
