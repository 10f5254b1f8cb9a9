"""How fast a machine could be at best: its arithmetic rate, its memory bandwidth, and which of the two binds.

Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance model".
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.cost.count.flops import Step, layer_groups
from regard.cost.count.memory import cache_per_token, cached_tokens, weight_bytes
from regard.cost.count.parameters import parameter_total
from regard.cost.count.weights import weights
from regard.cost.quantity import Quantity, ratio, symbol, total
from regard.cost.workload import OPTIMISERS, Workload, dtype_bytes
from regard.models.published.architecture import Architecture


@dataclass(frozen=True)
class Machine:
    """Peak rates: multiply-adds counted as 2 a second, and bytes read or written a second."""

    name: str
    flops: float
    bandwidth: float
    threads: int = 0  # 0: not measured, given


def traffic(a: Architecture, work: Workload, step: Step) -> dict[str, Quantity]:
    """Bytes a step must move at the least: each weight it uses once, the cache it reads, the keys and values it adds."""
    size = symbol("bytes", dtype_bytes(work.dtype))
    read = Quantity()
    for weight in weights(a):
        rows = step.rows(weight.rows)
        if not rows.value:
            continue
        entries = weight.matrix
        if weight.active is not None:  # every row brings its own experts, until all are in use
            entries = weight.active * rows if weight.active.value * rows.value < weight.matrix.value else weight.matrix
        read = read + entries * (weight.copies if weight.copies.value else weight.runs)
    found = {"weights": read * size}
    if a.causal:
        one = step.count("batch") * cache_per_token(a) * symbol("bytes", dtype_bytes(work.cache_dtype or work.dtype))
        if step.seen > step.new:
            before = symbol("before", step.seen - step.new)
            found["cache, read"] = total(layers * cached_tokens(window, before, "transformers") * one for window, layers in layer_groups(a))
        found["cache, written"] = symbol("layers", a.layers) * step.count("new") * one
        if a.encoder_layers and step.memory and not step.source:
            found["cross cache, read"] = symbol("layers", a.layers) * step.count("memory") * one
    return found


def training_traffic(a: Architecture, work: Workload) -> dict[str, Quantity]:
    """Bytes a training step must move at the least, the optimiser's step included."""
    numbers, master = parameter_total(a).named("parameters"), symbol("bytes", dtype_bytes(work.master))
    found = {
        "weights, read forward and backward": 2 * weight_bytes(a, work.dtype),
        "gradients, written and read": 2 * numbers * master,
        "weights, read and written": 2 * numbers * master,
    }
    states = OPTIMISERS[work.optimiser]
    return {**found, **({"optimiser states, read and written": 2 * states * numbers * master} if states else {})}


@dataclass(frozen=True)
class Roof:
    """The bound on one step: intensity (FLOPs a byte), the least seconds by arithmetic and by memory, and the larger."""

    intensity: Quantity
    arithmetic: Quantity
    memory: Quantity

    @property
    def seconds(self) -> float:
        return float(max(self.arithmetic.value, self.memory.value))

    @property
    def bound(self) -> str:
        return "arithmetic" if self.arithmetic.value >= self.memory.value else "memory"


def roof(flops: Quantity, moved: Quantity, machine: Machine) -> Roof:
    """The roofline bound of a step.

    >>> bound = roof(symbol("FLOPs", 4e12), symbol("moved", 1e9), Machine("given", flops=1e12, bandwidth=1e11))
    >>> bound.bound, bound.seconds
    ('arithmetic', 4.0)
    """
    work, bytes_moved = flops.named("FLOPs"), moved.named("moved")
    return Roof(
        ratio(work, bytes_moved), ratio(work, symbol("peak", machine.flops)), ratio(bytes_moved, symbol("bandwidth", machine.bandwidth))
    )
