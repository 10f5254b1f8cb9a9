"""Predict the cost of a step with sequences sharded over ranks: time, bytes sent, overlap of sending and computing, memory per rank.

Every rank holds N/ranks tokens and all weights (or its shard of them, fully sharded). In each layer its block of keys and values is
sent to every rank whose queries attend to it, while the previous block is computed; in training the blocks are sent again and their
gradients are sent back in float32. Ranks are assumed equal with equal work (zigzag), and links to send and receive at full rate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from regard.cost.count.activations import inference_activations, training_activations
from regard.cost.count.flops import Step, flops, layer_groups, pairs, training_flops
from regard.cost.count.memory import cache_bytes, cache_per_token, summed, training_bytes, weight_bytes
from regard.cost.count.parameters import parameter_total
from regard.cost.count.roofline import Machine, traffic, training_traffic
from regard.cost.count.weights import Symbols
from regard.cost.model.sources import architecture
from regard.cost.quantity import Parts, Quantity, ratio, short, symbol, total
from regard.cost.workload import Workload, dtype_bytes
from regard.models.published.architecture import Architecture, ConfigError

__all__ = ["Spread", "ring_seconds", "spread"]

MAX_RANKS = 4_096


@dataclass(frozen=True, repr=False)
class Spread:
    """The predicted cost of one step over `ranks` ranks.

    link: bytes per second a rank can send. tokens: of a sequence, per rank. sent, memory: bytes a rank sends and needs, by part.
    """

    ranks: int
    link: float
    tokens: int
    fully_sharded: bool
    sent: Parts
    memory: Parts
    computing: float  # seconds of arithmetic (or of reading weights) per rank
    sending: float  # seconds of sending
    waiting: float  # seconds of sending that do not overlap with computing

    def __repr__(self) -> str:
        sent, peak = (short(amount.value, "B") for amount in (self.bytes_sent, self.peak))
        return f"Spread({self.ranks} ranks: {short(self.seconds, 's')}, {sent} sent and {peak} of memory per rank)"

    @property
    def seconds(self) -> float:
        """Time of the step."""
        return self.computing + self.waiting

    @property
    def overlap(self) -> float:
        """The fraction of the sending time that overlaps with computing; 1 if nothing is sent."""
        return 1.0 - self.waiting / self.sending if self.sending else 1.0

    @property
    def bytes_sent(self) -> Quantity:
        """Bytes that a rank sends."""
        return summed(self.sent)

    @property
    def peak(self) -> Quantity:
        """Peak memory of a rank in bytes."""
        return summed(self.memory)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields for JSON."""
        layout = {"ranks": self.ranks, "link": self.link, "tokens": self.tokens, "fully_sharded": self.fully_sharded}
        times = {name: getattr(self, name) for name in ("seconds", "computing", "sending", "waiting", "overlap")}
        sent, memory = ({name: part.to_dict() for name, part in parts.items()} for parts in (self.sent, self.memory))
        return {**layout, **times, "sent": sent, "memory": memory}


def ring_seconds(blocks: int, computing: float, sending: float) -> tuple[float, float]:
    """Return (total, waiting) seconds of ring attention over `blocks` blocks, each received while the previous one is computed.

    >>> ring_seconds(4, computing=1.0, sending=0.5)
    (4.0, 0.0)
    >>> ring_seconds(4, computing=1.0, sending=3.0)
    (10.0, 6.0)
    """
    waiting = max(blocks - 1, 0) * max(sending - computing, 0.0)
    return blocks * computing + waiting, waiting


def spread(
    source: object, workload: Workload | None = None, *, machine: Machine, ranks: int, link: float, fully_sharded: bool = False
) -> Spread:
    """Predict one step (a training step, or a forward pass over the context) over `ranks` ranks that send `link` bytes per second.

    >>> machine = Machine("given", flops=4e14, bandwidth=2e12)
    >>> predicted = spread("llama-3-8b", Workload(context=131_072, mode="train"), machine=machine, ranks=8, link=4e11, fully_sharded=True)
    >>> predicted.tokens, round(predicted.seconds, 1), round(predicted.overlap, 2)
    (16384, 7.0, 0.42)
    """
    if not 1 <= ranks <= MAX_RANKS or not link > 0:
        raise ConfigError(f"{ranks:,} ranks with a link of {link} bytes/s; expected 1 to {MAX_RANKS:,} ranks and a rate above 0")
    a, work = architecture(source), workload or Workload()
    if a.encoder_layers:
        raise ConfigError(f"{a.name} has an encoder and a decoder; sharded sequences are supported for models with one stack only")
    run = _Run(a, work, machine, ranks, link, fully_sharded)
    ring = _ring(run)
    weights = _weights_sent(run)
    weight_seconds = float(summed(weights).value) / link  # without overlap: the worst case
    sent = {name: part for name, part in {**_blocks_sent(run, ring), **weights}.items() if part.value}
    computing = ring.computing + _other_computing(run)
    sending, waiting = ring.sending + weight_seconds, ring.waiting + weight_seconds
    return Spread(ranks, link, run.tokens, fully_sharded, sent, _memory(run), computing, sending, waiting)


@dataclass(frozen=True)
class _Run:
    """One step of a model, and the ranks that share it."""

    a: Architecture
    work: Workload
    machine: Machine
    ranks: int
    link: float
    fully_sharded: bool

    @property
    def train(self) -> bool:
        return self.work.mode == "train"

    @property
    def tokens(self) -> int:
        """Tokens of a sequence per rank."""
        return -(-self.work.tokens(self.a) // self.ranks)

    @property
    def step(self) -> Step:
        tokens = self.work.tokens(self.a)
        return Step(self.work.batch, tokens, tokens, tokens if self.train or not self.a.causal else 1)

    @property
    def block(self) -> Quantity:
        """Elements of a rank's keys and values in one layer."""
        return symbol("batch", self.work.batch) * symbol("n", self.tokens) * cache_per_token(self.a)

    @property
    def size(self) -> Quantity:
        """Bytes per element."""
        return symbol("bytes", dtype_bytes(self.work.dtype))

    @property
    def others(self) -> Quantity:
        """Number of other ranks."""
        return (symbol("ranks", self.ranks) - 1).grouped()


@dataclass(frozen=True)
class _Ring:
    """Attention of all layers: bytes of keys and values sent in one pass, bytes of their gradients, and seconds per rank."""

    keys: Quantity
    gradients: Quantity
    computing: float
    sending: float
    waiting: float


def _ring(run: _Run) -> _Ring:
    """Sum ring attention over all layers, forward and in training backward."""
    keys, gradients = Quantity(), Quantity()
    computing, sending, waiting = 0.0, 0.0, 0.0
    for window, layers in layer_groups(run.a):
        blocks = run.ranks if window is None else min(run.ranks, -(-window // run.tokens) + 1)
        hops = run.others if blocks == run.ranks else symbol("blocks", blocks - 1)
        keys = keys + layers * hops * run.block * run.size
        if run.train:
            gradients = gradients + layers * hops * run.block * 4
        for block_computing, block_sending in _passes(run, window, blocks):
            seconds, waited = ring_seconds(blocks, block_computing, block_sending)
            computing += float(layers.value) * (seconds - waited)
            waiting += float(layers.value) * waited
            sending += float(layers.value) * (blocks - 1) * block_sending
    return _Ring(keys, gradients, computing, sending, waiting)


def _passes(run: _Run, window: int | None, blocks: int) -> list[tuple[float, float]]:
    """Return (seconds to compute, seconds to send) of one block of one layer: forward, and in training backward."""
    s, step = Symbols(run.a), run.step
    products = 2 * step.count("batch") * pairs(run.a, step, window, "needed") * s.heads * (s.head_dim + s.value_dim).grouped()
    computing = float(products.value) / run.ranks / blocks / run.machine.flops
    sending = float((run.block * run.size).value) / run.link
    if not run.train:
        return [(computing, sending)]
    # Backward: two gradients of each product and the scores recomputed; gradients of the block are sent back in float32.
    return [(computing, sending), (2.5 * computing, sending + float(run.block.value) * 4 / run.link)]


def _blocks_sent(run: _Run, ring: _Ring) -> Parts:
    if not run.train:
        return {"keys and values": ring.keys}
    return {"keys and values, forward": ring.keys, "keys and values, backward": ring.keys, "gradients of keys and values": ring.gradients}


def _weights_sent(run: _Run) -> Parts:
    """Return the bytes of weights and their gradients that a rank sends in a training step.

    Fully sharded: two all-gathers of the weights and one reduce-scatter of the gradients. Else: one all-reduce of the gradients.
    """
    if not run.train or run.ranks == 1:
        return {}
    weights = parameter_total(run.a).named("parameters") * symbol("bytes", dtype_bytes(run.work.master))
    name, times = ("parameters and their gradients", 3) if run.fully_sharded else ("gradients of the parameters", 2)
    return {name: ratio(times * run.others * weights, symbol("ranks", run.ranks))}


def _other_computing(run: _Run) -> float:
    """Return the seconds per rank for everything but attention's products: by arithmetic or by memory traffic, whichever takes longer."""
    a, work, step = run.a, run.work, run.step
    step_flops = training_flops(a, step, checkpointing=work.checkpointing) if run.train else flops(a, step)
    other_flops = float(total(part for name, part in step_flops.items() if not name.startswith(("scores", "weighted sum"))).value)
    moved = float(summed(training_traffic(a, work) if run.train else traffic(a, work, step)).value)
    return max(other_flops / run.ranks / run.machine.flops, moved / run.machine.bandwidth)


def _memory(run: _Run) -> Parts:
    """Return the bytes in memory of a rank: weights, activations of its n tokens, and blocks that are being sent or received."""
    a, work = run.a, replace(run.work, context=run.tokens, generate=0)
    parts = training_bytes(a, work) if run.train else {"weights": weight_bytes(a, work.dtype)}
    if run.fully_sharded:
        parts = {f"{name}, sharded": ratio(part, symbol("ranks", run.ranks)) for name, part in parts.items()}
    if run.train:
        parts |= {f"activations {name}": part for name, part in training_activations(a, work, "streamed").items()}
    else:
        parts |= {"key-value cache": total(cache_bytes(a, work).values())} if a.causal else {}
        parts["activations"] = inference_activations(a, work, "streamed")
    if run.ranks > 1:
        parts["blocks in transit"] = 2 * run.block * run.size + (4 * run.block * 4 if run.train else Quantity())
    return parts
