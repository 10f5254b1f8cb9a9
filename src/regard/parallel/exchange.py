"""Blocks on their way between ranks: sent and received in the background, waited for with a limit.

At step s every rank hands its block to the rank s places on and takes the one of the rank s places back, so after P − 1 steps every
block was everywhere; where nobody wants a block it is not sent at all. Only a rank's own block is ever sent, so nothing is kept for
forwarding: a rank holds its own block, the one it works on, and the one that is arriving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .layout import place_in


class RingError(RuntimeError):
    """Ranks that do not fit together, are too slow, or are gone."""


class Exchange:
    """Point-to-point messages in a group; every wait ends within `timeout` seconds."""

    def __init__(self, group: dist.ProcessGroup | None, timeout: float) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}; expected a number of seconds above 0")
        self.group, self.timeout = group, timeout
        self.rank, self.ranks = place_in(group)
        self.sent_bytes = 0

    def post(self, to: int, sends: Sequence[Tensor], source: int, receives: Sequence[Tensor]) -> tuple[Posted, Posted]:
        """Start sending to one rank and receiving from another, in one batch; either may be nothing."""
        ops = [dist.P2POp(dist.isend, x, group=self.group, group_peer=to, tag=i) for i, x in enumerate(sends)]
        ops += [dist.P2POp(dist.irecv, x, group=self.group, group_peer=source, tag=i) for i, x in enumerate(receives)]
        try:
            works = dist.batch_isend_irecv(ops) if ops else []
        except RuntimeError as error:
            raise self._failed(f"could not reach rank {to} or rank {source}", error) from error
        self.sent_bytes += sum(x.nbytes for x in sends)
        if len(works) != len(ops):  # coalesced into one: both sides wait for it
            return Posted(self, works, sends, f"rank {to}"), Posted(self, works, receives, f"rank {source}")
        return Posted(self, works[: len(sends)], sends, f"rank {to} to take its block"), Posted(
            self, works[len(sends) :], receives, f"the block of rank {source}"
        )

    def blocks(
        self, mine: Sequence[Tensor], empty: Callable[[int], list[Tensor]], wanted: Callable[[int, int], bool]
    ) -> Iterator[tuple[int, Sequence[Tensor] | None]]:
        """Step by step, whose turn it is and that rank's block, this rank's own first; None where it is not wanted here.

        While one block is worked on, the next is on its way. empty(rank) makes the tensors a block arrives in; wanted(i, j) says whether
        rank i wants the block of rank j, and must say the same on every rank.
        """
        sent: list[Posted] = []
        mine = [x.contiguous() for x in mine]

        def start(step: int) -> tuple[list[Tensor] | None, Posted]:
            to, source = (self.rank + step) % self.ranks, (self.rank - step) % self.ranks
            into = empty(source) if wanted(self.rank, source) else None
            going, coming = self.post(to, mine if wanted(to, self.rank) else (), source, into or ())
            sent.append(going)
            return into, coming

        ahead = start(1) if self.ranks > 1 else None
        yield self.rank, mine if wanted(self.rank, self.rank) else None
        for step in range(1, self.ranks):
            assert ahead is not None
            into, coming = ahead
            coming.wait()
            ahead = start(step + 1) if step + 1 < self.ranks else None
            yield (self.rank - step) % self.ranks, into
            del into  # one block is worked on and one is on its way, no third is kept
        for going in sent:
            going.wait()

    def gather(self, numbers: Tensor) -> Tensor:
        """A small tensor of every rank, stacked: the one collective, and as limited in time as the rest."""
        if self.ranks == 1:
            return numbers.unsqueeze(0)
        found = [torch.empty_like(numbers) for _ in range(self.ranks)]
        work = self._started(lambda: dist.all_gather(found, numbers, group=self.group, async_op=True))
        Posted(self, [work], (), "the other ranks to make the same call").wait()
        return torch.stack(found)

    def sum(self, x: Tensor) -> Tensor:
        """The sum of a tensor over all ranks, in place."""
        return self._reduce(x, dist.ReduceOp.SUM)

    def max(self, x: Tensor) -> Tensor:
        """The largest over all ranks, in place."""
        return self._reduce(x, dist.ReduceOp.MAX)

    def _reduce(self, x: Tensor, how: Any) -> Tensor:
        if self.ranks > 1:
            work = self._started(lambda: dist.all_reduce(x, op=how, group=self.group, async_op=True))
            Posted(self, [work], (), "the other ranks' share of a sum").wait()
        return x

    def _started(self, start: Callable[[], Any]) -> Any:
        try:
            return start()
        except RuntimeError as error:
            raise self._failed("could not reach the other ranks", error) from error

    def _failed(self, what: str, error: Exception) -> RingError:
        told = str(error).strip().splitlines()
        return RingError(f"rank {self.rank} of {self.ranks} {what} ({told[0] if told else type(error).__name__})")


class Posted:
    """Messages under way. The tensors are kept alive until they are waited for."""

    def __init__(self, exchange: Exchange, works: Sequence[Any], tensors: Sequence[Tensor], of: str) -> None:
        self.exchange, self.works, self.tensors, self.of = exchange, works, tensors, of

    def wait(self) -> None:
        limit = self.exchange.timeout
        try:
            for work in self.works:
                work.wait(timedelta(seconds=limit))
        except RuntimeError as error:
            raise self.exchange._failed(
                f"waited for {self.of}, at most {limit:g} s, and gave up: a rank is stuck, much slower, or gone; "
                "look at the other ranks' output, or raise timeout= if they are only slow",
                error,
            ) from error
        self.works, self.tensors = (), ()


__all__ = ["Exchange", "Posted", "RingError"]
