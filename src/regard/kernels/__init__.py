"""Ways to compute one attention: the dense reference, torch's own, tiles in plain torch, compiled tiles.

`request.py` is one call written out, `select.py` picks the kernel that runs it: the fastest that does not refuse.
"""

from __future__ import annotations

from .kernel import Kernel, Result, Selection
from .request import Request
from .select import KERNELS, execute, intercept

__all__ = ["KERNELS", "Kernel", "Request", "Result", "Selection", "execute", "intercept"]
