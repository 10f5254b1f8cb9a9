"""The compiled extension `regard._native`, or None where the package was installed without it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regard._native as compiled
else:
    try:
        compiled = importlib.import_module("regard._native")
    except ImportError:  # built without a compiler: `streamed` and `fused` are used instead
        compiled = None


def instruction_set() -> str | None:
    """The instruction set the compiled kernels run with; None if this installation has none.

    >>> instruction_set() in (None, "baseline", "avx2", "avx512", "avx512_bf16", "neon")
    True
    """
    return None if compiled is None else compiled.instruction_set()


__all__ = ["compiled", "instruction_set"]
