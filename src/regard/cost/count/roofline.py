"""The roofline bound: the least time of a step, by peak arithmetic rate or by memory bandwidth.

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
    """Peak rates of a machine: FLOP/s (a multiply-add counts as 2) and bytes read or written per second.

    name: what reports call it.
    flops, bandwidth: the two rates.
    threads: how many were used; 0: the rates were given, not measured.

    >>> Machine("a laptop", flops=2e11, bandwidth=4e10).threads
    0
    """

    name: str
    flops: float
    bandwidth: float
    threads: int = 0  # 0: the rates were given, not measured


def traffic(a: Architecture, work: Workload, step: Step) -> dict[str, Quantity]:
    """Return the fewest bytes a step can move: each weight it uses once, the cache it reads, the keys and values it appends."""
    size = symbol("bytes", dtype_bytes(work.dtype))
    read = Quantity()
    for weight in weights(a):
        rows = step.rows(weight.rows)
        if not rows.value:
            continue
        entries = weight.matrix
        if weight.active is not None:  # each row may be routed to other experts, until all are in use
            entries = weight.active * rows if weight.active.value * rows.value < weight.matrix.value else weight.matrix
        read = read + entries * (weight.copies if weight.copies.value else weight.runs)
    parts = {"weights": read * size}
    if a.causal:
        per_token = step.count("batch") * cache_per_token(a) * symbol("bytes", dtype_bytes(work.cache_dtype or work.dtype))
        if step.context > step.new:
            before = symbol("before", step.context - step.new)
            groups = layer_groups(a)
            parts["cache, read"] = total(layers * cached_tokens(window, before, "transformers") * per_token for window, layers in groups)
        parts["cache, written"] = symbol("layers", a.layers) * step.count("new") * per_token
        if a.encoder_layers and step.memory and not step.source:
            parts["cross cache, read"] = symbol("layers", a.layers) * step.count("memory") * per_token
    return parts


def training_traffic(a: Architecture, work: Workload) -> dict[str, Quantity]:
    """Return the fewest bytes a training step can move, the optimiser's step included."""
    numbers, master = parameter_total(a).named("parameters"), symbol("bytes", dtype_bytes(work.master))
    parts = {
        "weights, read forward and backward": 2 * weight_bytes(a, work.dtype),
        "gradients, written and read": 2 * numbers * master,
        "weights, read and written": 2 * numbers * master,
    }
    states = OPTIMISERS[work.optimiser]
    return {**parts, **({"optimiser states, read and written": 2 * states * numbers * master} if states else {})}


@dataclass(frozen=True)
class Roof:
    """The bound on one step: intensity (FLOPs per byte), and the least seconds by arithmetic and by memory."""

    intensity: Quantity
    arithmetic: Quantity
    memory: Quantity

    @property
    def seconds(self) -> float:
        """The least time of the step."""
        return float(max(self.arithmetic.value, self.memory.value))

    @property
    def bound(self) -> str:
        """What limits the step: "arithmetic" or "memory"."""
        return "arithmetic" if self.arithmetic.value >= self.memory.value else "memory"


def roof(flops: Quantity, moved: Quantity, machine: Machine) -> Roof:
    """Return the roofline bound of a step.

    >>> bound = roof(symbol("FLOPs", 4e12), symbol("moved", 1e9), Machine("given", flops=1e12, bandwidth=1e11))
    >>> bound.bound, bound.seconds
    ('arithmetic', 4.0)
    """
    work, bytes_moved = flops.named("FLOPs"), moved.named("moved")
    return Roof(
        ratio(work, bytes_moved), ratio(work, symbol("peak", machine.flops)), ratio(bytes_moved, symbol("bandwidth", machine.bandwidth))
    )
