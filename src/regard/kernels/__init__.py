"""The implementations of attention: the dense reference, torch's SDPA, tiles in plain torch, compiled tiles.

`request.py` is one validated call; `select.py` picks the fastest kernel that supports it.
"""

from __future__ import annotations

from .kernel import Kernel, Result, Selection
from .request import Request
from .select import KERNELS, execute, intercept

__all__ = ["KERNELS", "Kernel", "Request", "Result", "Selection", "execute", "intercept"]
