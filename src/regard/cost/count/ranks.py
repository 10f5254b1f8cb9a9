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
from regard.cost.quantity import Quantity, ratio, symbol, total
from regard.cost.workload import Workload, dtype_bytes
from regard.models.published.architecture import Architecture, ConfigError

Parts = dict[str, Quantity]


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

        def plain(parts: Parts) -> dict[str, Any]:
            return {name: {"value": x.value, "formula": x.formula, "numbers": x.numbers} for name, x in parts.items()}

        times = {name: getattr(self, name) for name in ("seconds", "computing", "sending", "waiting", "overlap")}
        given = {"ranks": self.ranks, "link": self.link, "tokens": self.tokens, "fully_sharded": self.fully_sharded}
        return {**given, **times, "sent": plain(self.sent), "memory": plain(self.memory)}


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
    tokens = work.tokens(a)
    n, P = -(-tokens // ranks), symbol("ranks", ranks)
    train = work.mode == "train"
    size = symbol("bytes", dtype_bytes(work.dtype))
    held = symbol("batch", work.batch) * symbol("n", n) * cache_per_token(a)  # numbers of a rank's keys and values in a layer
    step = Step(work.batch, tokens, tokens, tokens if train or not a.causal else 1)

    keys, gradients = Quantity(), Quantity()
    attending, busy, waiting = 0.0, 0.0, 0.0
    for window, layers in layer_groups(a):
        blocks = ranks if window is None else min(ranks, -(-window // n) + 1)
        hops = (P - 1).grouped() if blocks == ranks else symbol("blocks", blocks - 1)
        keys = keys + layers * hops * held * size
        s = Symbols(a)
        products = 2 * step.count("batch") * pairs(a, step, window, "needed") * s.heads * (s.head_dim + s.value_dim).grouped()
        one = float(products.value) / ranks / blocks / machine.flops  # seconds for one block in one layer
        out = float((held * size).value) / link
        # Backward: two gradients of each product, and the scores once more.
        passes = [(1.0, out), *([(2.5, out + float(held.value) * 4 / link)] if train else [])]
        for factor, sending in passes:
            seconds, waited = ring_seconds(blocks, factor * one, sending)
            attending += float(layers.value) * (seconds - waited)
            waiting += float(layers.value) * waited
            busy += float(layers.value) * (blocks - 1) * sending
        if train:
            gradients = gradients + layers * hops * held * 4
    sent = {"keys and values": keys}
    if train:
        sent = {"keys and values, forward": keys, "keys and values, backward": keys, "their gradients": gradients}
        weights = parameter_total(a).named("parameters") * symbol("bytes", dtype_bytes(work.master))
        # Gathered whole for forward and backward and summed into parts, or summed everywhere: as much as passes a rank of a ring.
        times = 3 if fully_sharded else 2
        sent["parameters and their gradients" if fully_sharded else "gradients of the parameters"] = (
            ratio(times * (P - 1).grouped() * weights, P) if ranks > 1 else Quantity()
        )
        last = float(list(sent.values())[-1].value) / link
        busy, waiting = busy + last, waiting + last  # not hidden: the worst case
    sent = {name: x for name, x in sent.items() if x.value}
    work_done = training_flops(a, step, checkpointing=work.checkpointing) if train else flops(a, step)
    rest = float(total(x for name, x in work_done.items() if not name.startswith(("scores", "weighted sum"))).value)
    moved = float(summed(training_traffic(a, work) if train else traffic(a, work, step)).value)
    computing = attending + max(rest / ranks / machine.flops, moved / machine.bandwidth)
    memory = _memory(a, replace(work, context=n, generate=0), P, held, size, fully_sharded)
    return Spread(ranks, link, n, fully_sharded, sent, memory, computing, busy, waiting)


def _memory(a: Architecture, work: Workload, ranks: Quantity, held: Quantity, size: Quantity, fully_sharded: bool) -> Parts:
    """What a rank holds of a sequence of n tokens, its weights, and the blocks on their way."""
    train = work.mode == "train"
    lasting = training_bytes(a, work) if train else {"weights": weight_bytes(a, work.dtype)}
    if fully_sharded:
        lasting = {f"{name}, a share": ratio(x, ranks) for name, x in lasting.items()}
    if train:
        lasting |= {f"activations {name}": x for name, x in training_activations(a, work, "streamed").items()}
    else:
        lasting |= {"key-value cache": summed(cache_bytes(a, work))} if a.causal else {}
        lasting["activations"] = inference_activations(a, work, "streamed")
    if ranks.value > 1:
        lasting["blocks under way"] = 2 * held * size + (4 * held * 4 if train else Quantity())
    return lasting


__all__ = ["Spread", "ring_seconds", "spread"]
