"""Exchange blocks between ranks: sent and received asynchronously, with a timeout.

At step s rank r sends its block to rank r + s and receives that of rank r − s, so after P − 1 steps every rank had every block; a
block that is not needed is not sent. Only a rank's own block is ever sent, so a rank holds three blocks at most: its own, the one
it computes with, and the one being received.
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
    """Ranks that make different calls, time out, or have exited.

    >>> issubclass(RingError, RuntimeError)
    True
    """


class Exchange:
    """Messages between the ranks of a group; every wait ends within `timeout` seconds."""

    def __init__(self, group: dist.ProcessGroup | None, timeout: float) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}; expected a number of seconds above 0")
        self.group, self.timeout = group, timeout
        self.rank, self.ranks = place_in(group)
        self.sent_bytes = 0

    def post(self, to: int, sends: Sequence[Tensor], source: int, receives: Sequence[Tensor]) -> tuple[Posted, Posted]:
        """Start sending to one rank and receiving from another, in one batch; either list may be empty."""
        ops = [dist.P2POp(dist.isend, x, group=self.group, group_peer=to, tag=i) for i, x in enumerate(sends)]
        ops += [dist.P2POp(dist.irecv, x, group=self.group, group_peer=source, tag=i) for i, x in enumerate(receives)]
        try:
            works = dist.batch_isend_irecv(ops) if ops else []
        except RuntimeError as error:
            raise self._failed(f"could not reach rank {to} or rank {source}", error) from error
        self.sent_bytes += sum(x.nbytes for x in sends)
        if len(works) != len(ops):  # the backend merged them into one operation, which both wait for
            return Posted(self, works, sends, f"rank {to}"), Posted(self, works, receives, f"rank {source}")
        return Posted(self, works[: len(sends)], sends, f"rank {to} to take its block"), Posted(
            self, works[len(sends) :], receives, f"the block of rank {source}"
        )

    def blocks(
        self, own: Sequence[Tensor], empty: Callable[[int], list[Tensor]], needs: Callable[[int, int], bool]
    ) -> Iterator[tuple[int, Sequence[Tensor] | None]]:
        """Yield every rank and its block, this rank's own first; None for a block that is not needed here.

        While the caller computes with one block, the next is being received. empty(rank) creates the tensors to receive into;
        needs(i, j) is whether rank i needs the block of rank j, and must be the same on every rank.
        """
        sent: list[Posted] = []
        own = [x.contiguous() for x in own]

        def start(step: int) -> tuple[list[Tensor] | None, Posted]:
            to, source = (self.rank + step) % self.ranks, (self.rank - step) % self.ranks
            block = empty(source) if needs(self.rank, source) else None
            sending, receiving = self.post(to, own if needs(to, self.rank) else (), source, block or ())
            sent.append(sending)
            return block, receiving

        pending = start(1) if self.ranks > 1 else None
        yield self.rank, own if needs(self.rank, self.rank) else None
        for step in range(1, self.ranks):
            assert pending is not None
            block, receiving = pending
            receiving.wait()
            pending = start(step + 1) if step + 1 < self.ranks else None
            yield (self.rank - step) % self.ranks, block
            del block  # free it before the next one is allocated
        for sending in sent:
            sending.wait()

    def gather(self, numbers: Tensor) -> Tensor:
        """A small tensor of every rank, stacked along a new first axis."""
        if self.ranks == 1:
            return numbers.unsqueeze(0)
        gathered = [torch.empty_like(numbers) for _ in range(self.ranks)]
        work = self._started(lambda: dist.all_gather(gathered, numbers, group=self.group, async_op=True))
        Posted(self, [work], (), "the other ranks to make the same call").wait()
        return torch.stack(gathered)

    def sum(self, x: Tensor) -> Tensor:
        """The sum of a tensor over all ranks, in place."""
        return self._reduce(x, dist.ReduceOp.SUM)

    def max(self, x: Tensor) -> Tensor:
        """The largest over all ranks, in place."""
        return self._reduce(x, dist.ReduceOp.MAX)

    def _reduce(self, x: Tensor, operation: Any) -> Tensor:
        if self.ranks > 1:
            work = self._started(lambda: dist.all_reduce(x, op=operation, group=self.group, async_op=True))
            Posted(self, [work], (), "the other ranks in an all-reduce").wait()
        return x

    def _started(self, start: Callable[[], Any]) -> Any:
        """Start a collective; a failure becomes a RingError."""
        try:
            return start()
        except RuntimeError as error:
            raise self._failed("could not reach the other ranks", error) from error

    def _failed(self, failure: str, error: Exception) -> RingError:
        lines = str(error).strip().splitlines()
        return RingError(f"rank {self.rank} of {self.ranks} {failure} ({lines[0] if lines else type(error).__name__})")


class Posted:
    """Asynchronous messages. The tensors are kept alive until `wait` returns."""

    def __init__(self, exchange: Exchange, works: Sequence[Any], tensors: Sequence[Tensor], awaited: str) -> None:
        self.exchange, self.works, self.tensors, self.awaited = exchange, works, tensors, awaited

    def wait(self) -> None:
        """Wait until the messages are sent or received; raise RingError after the timeout."""
        limit = self.exchange.timeout
        try:
            for work in self.works:
                work.wait(timedelta(seconds=limit))
        except RuntimeError as error:
            raise self.exchange._failed(
                f"waited for {self.awaited} and timed out after {limit:g} s: a rank is stuck, much slower, or has exited; "
                "check the other ranks' output, or raise timeout= if they are only slow",
                error,
            ) from error
        self.works, self.tensors = (), ()


__all__ = ["Exchange", "Posted", "RingError"]
