"""Readings: exact statistics of the attention weights, computed tile by tile in O(N · k) memory, without storing the weights.

A reading receives every tile of weights once, normalised, detached and before dropout. ``observe(..., readings=[Entropy(),
TopK(4)])`` returns the results by name in ``Attended.readings``. A reading object holds only its settings; its running totals
are in the state that ``start`` creates. `Entropy`, `Received` and `MaxLogit` can be differentiated: ``Entropy(grad=True)``.
"""

from __future__ import annotations

from .heaviest import MAX_COMPILED_TOP, NormWeighted, Top, TopK, ValueNorm
from .reading import CompiledPass, Reading, Shape, Total
from .sums import Differentiable, Entropy, MaxLogit, Received, RowMass, Sink
from .where import At, Distance, Pooled, Profile, Rows, Same

__all__ = [
    "MAX_COMPILED_TOP",
    "At",
    "CompiledPass",
    "Differentiable",
    "Distance",
    "Entropy",
    "MaxLogit",
    "NormWeighted",
    "Pooled",
    "Profile",
    "Reading",
    "Received",
    "RowMass",
    "Rows",
    "Same",
    "Shape",
    "Sink",
    "Top",
    "TopK",
    "Total",
    "ValueNorm",
]
