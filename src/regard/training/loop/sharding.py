"""Context-parallel training: each batch is shared by several ranks, each with a part of every sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from ...parallel.attention import TIMEOUT
from ...parallel.layout import place_in, shard
from ...parallel.sequence import sharded
from .trainer import Trainable


@dataclass(frozen=True)
class Sharding:
    """The ranks that share a batch, and methods to run a model on this rank's part of it."""

    group: dist.ProcessGroup | None
    timeout: float = TIMEOUT

    def part(self, x: Tensor) -> Tensor:
        """Return this rank's part of sequences (B, L, …)."""
        return shard(x, 1, group=self.group)

    def run(self, model: nn.Module, ids: Tensor, *arguments: Tensor) -> Tensor:
        """Return the model's output for this rank's part of ids (B, L), with attention to all parts."""
        with sharded(model, ids.shape[1], group=self.group, timeout=self.timeout):
            output: Tensor = model(self.part(ids), *arguments)
            return output


ShardedLoss = Callable[[Any, nn.Module, Any, Sharding], tuple[Tensor, int]]


class ShardedTask:
    """A task whose batches are each shared by `ranks` ranks; evaluation and samples run on one process, as without sharding.

    loss    (task, model, batch, sharding) → the loss summed over this rank's tokens, and their number

    Ranks 0 … ranks − 1 share the first batch of a step, ranks … 2·ranks − 1 the second, and so on.
    """

    def __init__(self, task: Trainable, loss: ShardedLoss, ranks: int, *, timeout: float = TIMEOUT) -> None:
        world = place_in(None)[1]
        if ranks < 1 or world % ranks:
            raise ValueError(
                f"context parallelism over {ranks} ranks needs a multiple of {ranks} processes, but there are {world}; "
                f"start with: torchrun --nproc-per-node {ranks} -m regard train …"
            )
        self.task, self.ranks_a_batch, self._loss = task, ranks, loss
        group = None
        for first in range(0, world, ranks) if world > 1 else ():
            members = list(range(first, first + ranks))
            candidate = dist.new_group(members)  # collective: every process must create every group
            if dist.get_rank() in members:
                group = candidate
        self.sharding = Sharding(group, timeout)

    @property
    def model(self) -> nn.Module:
        return self.task.model

    def batches(self, epoch: int) -> Sequence[Any]:
        return self.task.batches(epoch)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        return self._loss(self.task, model, batch, self.sharding)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return self.task.evaluate(model)

    def samples(self, model: nn.Module) -> str:
        return self.task.samples(model)


__all__ = ["ShardedLoss", "ShardedTask", "Sharding"]
