"""What a step costs when its sequences lie on several ranks: time, bytes sent, what of the sending is hidden, memory a rank.

Every rank holds N/ranks tokens and all the weights (or its share of them, fully sharded). In each layer its block of keys and values
goes to every rank that looks at it while the block before is computed; in training the blocks travel again and their gradients
go home in float32. Ranks are taken to be alike and to have equal work (zigzag), the link to carry its rate both ways at once.
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
from regard.cost.quantity import Parts, Quantity, ratio, symbol, total
from regard.cost.workload import Workload, dtype_bytes
from regard.models.published.architecture import Architecture, ConfigError

__all__ = ["Spread", "ring_seconds", "spread"]


@dataclass(frozen=True)
class Spread:
    """One step over so many ranks. `sent` are bytes a rank sends, `memory` bytes a rank needs, both by part."""

    ranks: int
    link: float
    tokens: int
    fully_sharded: bool
    sent: Parts
    memory: Parts
    computing: float  # seconds of arithmetic (or of reading weights) on a rank
    sending: float  # seconds the link is busy
    waiting: float  # seconds of them that nothing hides

    @property
    def seconds(self) -> float:
        return self.computing + self.waiting

    @property
    def overlap(self) -> float:
        """The share of the sending that computing hides: 1 where there is none."""
        return 1.0 - self.waiting / self.sending if self.sending else 1.0

    @property
    def bytes_sent(self) -> Quantity:
        return summed(self.sent)

    @property
    def peak(self) -> Quantity:
        return summed(self.memory)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        layout = {"ranks": self.ranks, "link": self.link, "tokens": self.tokens, "fully_sharded": self.fully_sharded}
        times = {name: getattr(self, name) for name in ("seconds", "computing", "sending", "waiting", "overlap")}
        sent, memory = ({name: part.to_dict() for name, part in parts.items()} for parts in (self.sent, self.memory))
        return {**layout, **times, "sent": sent, "memory": memory}


def ring_seconds(blocks: int, computing: float, sending: float) -> tuple[float, float]:
    """(seconds, seconds waited) of a ring of so many blocks: the own at once, each later one when it is there and the last is done.

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
    """Predict one step (a training step, or a forward pass over the context) over `ranks` ranks with a link of `link` bytes a second.

    >>> machine = Machine("given", flops=4e14, bandwidth=2e12)
    >>> found = spread("llama-3-8b", Workload(context=131_072, mode="train"), machine=machine, ranks=8, link=4e11, fully_sharded=True)
    >>> found.tokens, round(found.seconds, 1), round(found.overlap, 2)
    (16384, 7.0, 0.42)
    """
    if ranks < 1 or not link > 0:
        raise ConfigError(f"{ranks} ranks with a link of {link} bytes a second; expected at least 1 rank and a rate above 0")
    a, work = architecture(source), workload or Workload()
    if a.encoder_layers:
        raise ConfigError(f"{a.name} has an encoder and a decoder; sequences are sharded in models of one stack only")
    run = _Run(a, work, machine, ranks, link, fully_sharded)
    ring = _ring(run)
    weights = _weights_sent(run)
    unhidden = float(summed(weights).value) / link  # nothing hides it: the worst case
    sent = {name: part for name, part in {**_blocks_sent(run, ring), **weights}.items() if part.value}
    computing = ring.computing + _other_computing(run)
    return Spread(ranks, link, run.tokens, fully_sharded, sent, _memory(run), computing, ring.sending + unhidden, ring.waiting + unhidden)


@dataclass(frozen=True)
class _Run:
    """One step of a model, and the ranks it is spread over."""

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
        """Tokens of a sequence on one rank."""
        return -(-self.work.tokens(self.a) // self.ranks)

    @property
    def step(self) -> Step:
        tokens = self.work.tokens(self.a)
        return Step(self.work.batch, tokens, tokens, tokens if self.train or not self.a.causal else 1)

    @property
    def block(self) -> Quantity:
        """Numbers of a rank's keys and values in a layer."""
        return symbol("batch", self.work.batch) * symbol("n", self.tokens) * cache_per_token(self.a)

    @property
    def size(self) -> Quantity:
        return symbol("bytes", dtype_bytes(self.work.dtype))

    @property
    def others(self) -> Quantity:
        return (symbol("ranks", self.ranks) - 1).grouped()


@dataclass(frozen=True)
class _Ring:
    """Attention of all layers: bytes of keys and values sent in one pass, of their gradients, and seconds on a rank."""

    keys: Quantity
    gradients: Quantity
    computing: float
    sending: float
    waiting: float


def _ring(run: _Run) -> _Ring:
    keys, gradients = Quantity(), Quantity()
    computing, busy, waiting = 0.0, 0.0, 0.0
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
            busy += float(layers.value) * (blocks - 1) * block_sending
    return _Ring(keys, gradients, computing, busy, waiting)


def _passes(run: _Run, window: int | None, blocks: int) -> list[tuple[float, float]]:
    """(seconds to compute, seconds to send) one block of one layer: forward, and in training backward."""
    s, step = Symbols(run.a), run.step
    products = 2 * step.count("batch") * pairs(run.a, step, window, "needed") * s.heads * (s.head_dim + s.value_dim).grouped()
    computing = float(products.value) / run.ranks / blocks / run.machine.flops
    sending = float((run.block * run.size).value) / run.link
    if not run.train:
        return [(computing, sending)]
    # Backward: two gradients of each product, and the scores once more; the gradients go home in float32.
    return [(computing, sending), (2.5 * computing, sending + float(run.block.value) * 4 / run.link)]


def _blocks_sent(run: _Run, ring: _Ring) -> Parts:
    if not run.train:
        return {"keys and values": ring.keys}
    return {"keys and values, forward": ring.keys, "keys and values, backward": ring.keys, "their gradients": ring.gradients}


def _weights_sent(run: _Run) -> Parts:
    """Bytes of the weights and their gradients a training step sends.

    Gathered whole for forward and backward and summed into parts, or summed everywhere: as much as passes a rank of a ring.
    """
    if not run.train or run.ranks == 1:
        return {}
    weights = parameter_total(run.a).named("parameters") * symbol("bytes", dtype_bytes(run.work.master))
    name, times = ("parameters and their gradients", 3) if run.fully_sharded else ("gradients of the parameters", 2)
    return {name: ratio(times * run.others * weights, symbol("ranks", run.ranks))}


def _other_computing(run: _Run) -> float:
    """Seconds of a rank for all but attention's products: arithmetic, or the bytes it must move if they take longer."""
    a, work, step = run.a, run.work, run.step
    done = training_flops(a, step, checkpointing=work.checkpointing) if run.train else flops(a, step)
    rest = float(total(part for name, part in done.items() if not name.startswith(("scores", "weighted sum"))).value)
    moved = float(summed(training_traffic(a, work) if run.train else traffic(a, work, step)).value)
    return max(rest / run.ranks / run.machine.flops, moved / run.machine.bandwidth)


def _memory(run: _Run) -> Parts:
    """What a rank holds of a sequence of n tokens, its weights, and the blocks on their way."""
    a, work = run.a, replace(run.work, context=run.tokens, generate=0)
    parts = training_bytes(a, work) if run.train else {"weights": weight_bytes(a, work.dtype)}
    if run.fully_sharded:
        parts = {f"{name}, a share": ratio(part, symbol("ranks", run.ranks)) for name, part in parts.items()}
    if run.train:
        parts |= {f"activations {name}": part for name, part in training_activations(a, work, "streamed").items()}
    else:
        parts |= {"key-value cache": summed(cache_bytes(a, work))} if a.causal else {}
        parts["activations"] = inference_activations(a, work, "streamed")
    if run.ranks > 1:
        parts["blocks under way"] = 2 * run.block * run.size + (4 * run.block * 4 if run.train else Quantity())
    return parts
