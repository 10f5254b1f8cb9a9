"""Measure: this machine's own curves of time and memory over N, beside the formulas'."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .bench import Bench

SIZES = (256, 512, 1024, 2048)


def measure(bench: Bench, seconds: float = 4.0) -> dict[str, Any]:
    """Run projections, dense attention and ours over N, and take the system's word for the memory."""
    from ...cost import growth

    bench.progress.tell(0.02)
    bench.threads_for(SIZES[-1])
    found = growth.measure(sizes=SIZES, budget=seconds)
    shown = asdict(found)
    shown["formulas"] = {name: {"value": q.value, "formula": q.formula, "numbers": q.numbers} for name, q in found.formulas.items()}
    shown["took"] = shown.pop("seconds")
    return shown
