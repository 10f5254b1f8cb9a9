"""Count floating-point operations by part; a multiplication and its addition count as 2.

Only matrix products are counted, not softmax, norms and activations, which are bound by memory bandwidth. Causal attention is
counted in two ways: the FLOPs that are needed, and those of a dense kernel.
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
    """The sizes of one forward pass over a batch."""

    batch: int  # sequences
    new: int  # tokens of a sequence that are computed in this step
    context: int  # tokens of a sequence so far, the new ones included
    logits: int  # positions of a sequence whose logits are computed
    source: int = 0  # tokens of a sequence that the encoder reads in this step
    memory: int = 0  # encoder outputs that cross-attention attends to

    def count(self, name: Literal["batch", "new", "context", "logits", "source", "memory"]) -> Quantity:
        """Return one of the sizes as a symbol; N is the context."""
        value = getattr(self, name)
        if name != "batch" and value in (0, 1):
            return quantity(value)
        if name in ("new", "logits") and value == self.context:
            name = "context"
        return symbol({"context": "N", "memory": "source"}.get(name, name), value)

    def rows(self, which: Rows) -> Quantity:
        """Return how many rows a weight is applied to."""
        names: dict[str, Quantity] = {
            "tokens": self.count("new"),
            "source": self.count("source"),
            "cache": self.count("context"),
            "logits": self.count("logits"),
            "first": quantity(1),
            "none": quantity(0),
        }
        return self.count("batch") * names[which]


def layer_groups(a: Architecture) -> Iterator[tuple[int | None, Quantity]]:
    """Iterate over (window, number of layers with it); None is full attention."""
    counts = Counter(a.windows)
    for window, number in counts.items():
        if len(counts) == 1:
            yield window, symbol("layers", number)
        else:
            yield window, symbol("full_layers" if window is None else f"layers_of_{window}", number)


def pairs(a: Architecture, step: Step, window: int | None, kernel: Kernel) -> Quantity:
    """Return how many query-key pairs a head computes in one sequence.

    >>> tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5)
    >>> prompt = Step(batch=1, new=6, context=6, logits=1)
    >>> print(pairs(tiny, prompt, None, "needed"))
    N · (N + 1) / 2 = 6 · (6 + 1) / 2 = 21
    >>> pairs(tiny, prompt, 2, "needed").value, pairs(tiny, prompt, 2, "dense").value
    (11, 36)
    """
    new, context = step.count("new"), step.count("context")
    before = step.context - step.new
    if not a.causal or kernel == "dense":
        if window is not None and before:  # the cache of a sliding window holds no more than the window, whatever the kernel
            return new * (new + smallest(symbol("before", before), symbol("window", window) - 1)).grouped()
        return new * context
    if step.new == 1:
        return context if window is None else smallest(context, symbol("window", window))
    if window is None or window >= step.context:
        triangle = new * (new + 1).grouped() / 2
        return new * symbol("before", before) + triangle if before else triangle
    width = symbol("window", window)
    growing = max(0, min(step.new, window - before))  # rows with fewer visible keys than the window
    if not growing:
        return new * width
    early = width if not before and growing == window else symbol("growing", growing)
    start = early * (early + 1).grouped() / 2 + (early * symbol("before", before) if before else 0)
    return start + (new - early).grouped() * width


def flops(a: Architecture, step: Step, kernel: Kernel = "needed") -> dict[str, Quantity]:
    """Return the FLOPs of one forward pass by part.

    >>> tiny = Architecture("tiny", layers=1, width=4, heads=2, vocabulary=5)
    >>> work = flops(tiny, Step(batch=1, new=3, context=3, logits=3))
    >>> work["query"].value, work["scores"].value
    (96, 48)
    """
    counts: dict[str, Quantity] = {}
    for weight in weights(a):
        matrix = weight.matrix if weight.active is None else weight.active
        counts[weight.part] = counts.get(weight.part, Quantity()) + 2 * step.rows(weight.rows) * matrix * weight.runs
    counts |= attention_flops(a, step, kernel)
    return {part: count for part, count in counts.items() if count.value}


def attention_flops(a: Architecture, step: Step, kernel: Kernel) -> dict[str, Quantity]:
    """Return the FLOPs of the two products that grow with N²: scores (query · key) and the weighted sum of values."""
    s, batch = Symbols(a), step.count("batch")
    pair_counts = [(pairs(a, step, window, kernel), layers) for window, layers in layer_groups(a)]
    if a.encoder_layers:
        pair_counts.append((step.count("source") * step.count("source"), s.encoder_layers))
        pair_counts.append((step.count("new") * step.count("memory"), s.layers))
    return {
        "scores": total(2 * batch * count * s.head_dim * s.heads * layers for count, layers in pair_counts),
        "weighted sum": total(2 * batch * count * s.value_dim * s.heads * layers for count, layers in pair_counts),
    }


def training_flops(a: Architecture, step: Step, kernel: Kernel = "needed", *, checkpointing: bool = False) -> dict[str, Quantity]:
    """Return the FLOPs of forward and backward by part: a matrix product has two gradients, each as expensive as itself.

    The streamed kernels ("needed") also recompute the scores in the backward pass. Checkpointing runs every layer again, except its last
    projection where its output is not needed (torch's checkpoint stops early there).
    """
    work = {part: 3 * count for part, count in flops(a, step, kernel).items()}
    if kernel == "needed":
        work["scores, recomputed"] = attention_flops(a, step, kernel)["scores"]
    if checkpointing:
        work["checkpointing"] = _recomputed_layers(a, step, kernel)
    return work


def _recomputed_layers(a: Architecture, step: Step, kernel: Kernel) -> Quantity:
    """Return the FLOPs of running all layers forward once more."""
    outside_layers = ("embedding projection", "head", "unembedding", "pooler")
    recomputed = [w for w in weights(a) if w.part not in outside_layers and not (w.last and a.norm_place == "before")]
    projections = total(2 * step.rows(w.rows) * (w.matrix if w.active is None else w.active) * w.runs for w in recomputed)
    return projections.named("layer projections") + total(count.named(name) for name, count in attention_flops(a, step, kernel).items())
