"""Shard weights, gradients and optimiser states over the ranks (FSDP), by torch's `fully_shard`, and gather them again.

Zhao et al. 2023, "PyTorch FSDP"; Rajbhandari et al. 2020, "ZeRO", stage 3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn


def shard_parameters(model: nn.Module, device: torch.device) -> None:
    """Shard a model's parameters over all ranks, in place; each block separately, so that only one at a time is gathered."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from ..models.block import Block

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for module in model.modules():
        if isinstance(module, Block):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)


@contextlib.contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """Context manager: gather the parameters outside blocks (blocks gather theirs when they run), so that any method may be called."""
    from torch.distributed.fsdp import FSDPModule

    if not isinstance(model, FSDPModule):
        yield
        return
    model.unshard()
    try:
        yield
    finally:
        model.reshard()


@contextlib.contextmanager
def without_gradient_sync(model: nn.Module) -> Iterator[None]:
    """Context manager: accumulate gradients without exchanging them between ranks; for all but the last batch of a step."""
    model.set_requires_gradient_sync(False)  # type: ignore[operator]
    try:
        yield
    finally:
        model.set_requires_gradient_sync(True)  # type: ignore[operator]


def shard_like(x: Tensor, other: Tensor) -> Tensor:
    """Shard x like another tensor; unchanged where the other is not sharded."""
    if getattr(other, "full_tensor", None) is None:
        return x
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(other, DTensor)
    return distribute_tensor(x.to(other.device), other.device_mesh, other.placements, src_data_rank=None)


__all__ = ["gathered", "shard_like", "shard_parameters", "without_gradient_sync"]
