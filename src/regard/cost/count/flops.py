"""Floating-point operations by part; a multiplication and its addition count as 2.

Matrix products only: softmax, norms and activations are not counted (of order 1 operation a number, and bound by
memory). Causal attention is counted twice: what is really needed, and what a dense kernel does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from regard.cost.count.weights import Rows, Symbols, weights
from regard.cost.quantity import Quantity, quantity, smallest, symbol, total
from regard.models.published.architecture import Architecture

Kernel = Literal["needed", "dense"]


@dataclass(frozen=True)
class Step:
    """One run: the last `new` of `seen` tokens in each of `batch` sequences, next tokens read out after `logits` of them.

    `source` tokens of each sequence pass the encoder in this step; `memory` of them are attended to.
    """

    batch: int
    new: int
    seen: int
    logits: int
    source: int = 0
    memory: int = 0

    def count(self, name: Literal["batch", "new", "seen", "logits", "source", "memory"]) -> Quantity:
        """A number of the step as a symbol; N is the tokens seen."""
        value = getattr(self, name)
        if name != "batch" and value in (0, 1):
            return quantity(value)
        if name in ("new", "logits") and value == self.seen:
            name = "seen"
        return symbol({"seen": "N", "memory": "source"}.get(name, name), value)

    def rows(self, which: Rows) -> Quantity:
        """How many rows pass a weight."""
        names: dict[str, Quantity] = {
            "tokens": self.count("new"),
            "source": self.count("source"),
            "cache": self.count("seen"),
            "logits": self.count("logits"),
            "first": quantity(1),
            "none": quantity(0),
        }
        return self.count("batch") * names[which]


def layer_groups(a: Architecture) -> Iterator[tuple[int | None, Quantity]]:
    """The layers by window: (window or None, how many)."""
    counts = Counter(a.windows)
    for window, number in counts.items():
        if len(counts) == 1:
            yield window, symbol("layers", number)
        else:
            yield window, symbol("full_layers" if window is None else f"layers_of_{window}", number)


def pairs(a: Architecture, step: Step, window: int | None, kernel: Kernel) -> Quantity:
    """How many query-key pairs a head computes in one sequence.

    >>> tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5)
    >>> prompt = Step(batch=1, new=6, seen=6, logits=1)
    >>> print(pairs(tiny, prompt, None, "needed"))
    N · (N + 1) / 2 = 6 · (6 + 1) / 2 = 21
    >>> pairs(tiny, prompt, 2, "needed").value, pairs(tiny, prompt, 2, "dense").value
    (11, 36)
    """
    new, seen = step.count("new"), step.count("seen")
    before = step.seen - step.new
    if not a.causal or kernel == "dense":
        if window is not None and before:  # a sliding cache holds no more than a window, whatever the kernel
            return new * (new + smallest(symbol("before", before), symbol("window", window) - 1)).grouped()
        return new * seen
    if step.new == 1:
        return seen if window is None else smallest(seen, symbol("window", window))
    if window is None or window >= step.seen:
        triangle = new * (new + 1).grouped() / 2
        return new * symbol("before", before) + triangle if before else triangle
    width = symbol("window", window)
    growing = max(0, min(step.new, window - before))  # rows that do not yet fill their window
    if not growing:
        return new * width
    early = width if not before and growing == window else symbol("growing", growing)
    start = early * (early + 1).grouped() / 2 + (early * symbol("before", before) if before else 0)
    return start + (new - early).grouped() * width


def flops(a: Architecture, step: Step, kernel: Kernel = "needed") -> dict[str, Quantity]:
    """FLOPs of one forward run by part.

    >>> tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5)
    >>> work = flops(tiny, Step(batch=1, new=3, seen=3, logits=3))
    >>> work["query"].value, work["scores"].value
    (96, 48)
    """
    found: dict[str, Quantity] = {}
    for weight in weights(a):
        matrix = weight.matrix if weight.active is None else weight.active
        found[weight.part] = found.get(weight.part, Quantity()) + 2 * step.rows(weight.rows) * matrix * weight.runs
    for name, count in attention_flops(a, step, kernel).items():
        found[name] = count
    return {part: count for part, count in found.items() if count.value}


def attention_flops(a: Architecture, step: Step, kernel: Kernel) -> dict[str, Quantity]:
    """The two products that grow with N²: scores (query · key) and the weighted sum of values."""
    s, batch = Symbols(a), step.count("batch")
    looks = [(pairs(a, step, window, kernel), layers) for window, layers in layer_groups(a)]
    if a.encoder_layers:
        looks.append((step.count("source") * step.count("source"), s.encoder_layers))
        looks.append((step.count("new") * step.count("memory"), s.layers))
    return {
        "scores": total(2 * batch * seen * s.head_dim * s.heads * layers for seen, layers in looks),
        "weighted sum": total(2 * batch * seen * s.value_dim * s.heads * layers for seen, layers in looks),
    }


def training_flops(a: Architecture, step: Step, kernel: Kernel = "needed", *, checkpointing: bool = False) -> dict[str, Quantity]:
    """FLOPs of forward and backward by part: a matrix product has two gradients, each as dear as itself.

    What is needed at the least: the streamed kernels compute the scores once more in the backward pass. Checkpointing
    runs every layer again, but for its last map where nothing later needs that map's output (torch stops early there).
    """
    work = {part: 3 * count for part, count in flops(a, step, kernel).items()}
    if kernel == "needed":
        work["scores, again"] = attention_flops(a, step, kernel)["scores"]
    if checkpointing:
        work["checkpointing"] = _again(a, step, kernel)
    return work


def _again(a: Architecture, step: Step, kernel: Kernel) -> Quantity:
    """The layers' forward pass once more."""
    ends = ("embedding projection", "head", "unembedding", "pooler")
    runs = [w for w in weights(a) if w.part not in ends and not (w.last and a.norm_place == "before")]
    maps = total(2 * step.rows(w.rows) * (w.matrix if w.active is None else w.active) * w.runs for w in runs)
    return maps.named("layer maps") + total(count.named(name) for name, count in attention_flops(a, step, kernel).items())
