"""Training tasks whose sequences are sharded: each batch is read by several ranks, each of which holds a part of every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from ..training.tasks.lm import LanguageTask
from ..training.tasks.mlm import MaskedTask
from .attention import TIMEOUT
from .layout import place_in, shard
from .sequence import sharded

_IGNORED = -100


class ShardedTask:
    """A language-model or masked-token task over `ranks` ranks a batch; evaluation and samples stay the task's own, on one process.

    Ranks 0 … ranks − 1 share the first batch of a step, the next as many the second, and so on.
    """

    def __init__(self, task: Any, ranks: int, *, timeout: float = TIMEOUT) -> None:
        world = place_in(None)[1]
        if not isinstance(task, LanguageTask | MaskedTask):
            raise ValueError(f"{type(task).__name__} has no sharded form; context parallelism is for the tasks lm and mlm")
        if ranks < 1 or world % ranks:
            raise ValueError(
                f"context parallelism over {ranks} ranks needs a multiple of {ranks} processes, but there are {world}; "
                f"start with: torchrun --nproc-per-node {ranks} -m regard train …"
            )
        self.task, self.ranks_a_batch, self.timeout = task, ranks, timeout
        self.group = None
        for first in range(0, world, ranks) if world > 1 else ():
            members = list(range(first, first + ranks))
            made = dist.new_group(members)  # every process takes part in making every group
            if dist.get_rank() in members:
                self.group = made

    @property
    def model(self) -> nn.Module:
        return self.task.model

    def batches(self, epoch: int) -> Sequence[Any]:
        return self.task.batches(epoch)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return self.task.evaluate(model)

    def samples(self, model: nn.Module) -> str:
        return self.task.samples(model)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        """The loss summed over this rank's tokens, and how many they are."""
        smoothing = self.task.config.training.smoothing
        device = next(model.parameters()).device
        if isinstance(self.task, LanguageTask):
            batch = batch.to(device, non_blocking=True)
            ids, targets = batch[:, :-1], batch[:, 1:]
            logits = self._run(model, ids)
            wanted = shard(targets, 1, group=self.group).flatten()
            loss = F.cross_entropy(logits.flatten(0, 1).float(), wanted, reduction="sum", label_smoothing=smoothing)
            return loss, wanted.numel()
        hidden = self._run(model, batch.ids.to(device), batch.lengths.to(device))
        targets = shard(batch.targets.to(device), 1, group=self.group)
        keep = targets != _IGNORED
        bare: Any = getattr(model, "module", model)
        logits, wanted = bare.unmask(hidden[keep]), targets[keep]
        return F.cross_entropy(logits.float(), wanted, reduction="sum", label_smoothing=smoothing), len(wanted)

    def _run(self, model: nn.Module, ids: Tensor, *rest: Tensor) -> Tensor:
        with sharded(model, ids.shape[1], group=self.group, timeout=self.timeout):
            found: Tensor = model(shard(ids, 1, group=self.group), *rest)
            return found


__all__ = ["ShardedTask"]
