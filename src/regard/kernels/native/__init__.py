"""The compiled kernels: C++ for dot-product, additive and Gaussian scores, with masks and readings, also as torch operators."""

from __future__ import annotations

from .extension import instruction_set, missing_reason
from .kernel import Native
from .single_query import single_query

__all__ = ["Native", "instruction_set", "missing_reason", "single_query"]
