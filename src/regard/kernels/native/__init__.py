"""The compiled kernels: typed arguments into C++, dot and pair scores, masks as they are read, readings, torch operators."""

from __future__ import annotations

from .extension import instruction_set, missing_reason
from .kernel import Native

__all__ = ["Native", "instruction_set", "missing_reason"]
