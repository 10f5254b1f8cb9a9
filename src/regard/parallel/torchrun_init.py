"""Initialise torch.distributed in processes that torchrun started, also after it restarted them."""

from __future__ import annotations

import os

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous


def init_from_torchrun() -> None:
    """Start torch.distributed on gloo in a process of torchrun, on one machine; elsewhere, or once started, do nothing.

    When torchrun starts its processes again they share its store with the ones before, and may read a dead process's address in it
    before the living one has written its own. Each start therefore gets a part of the store for itself.
    """
    here = os.environ.get("GROUP_WORLD_SIZE") == "1" and "TORCHELASTIC_RESTART_COUNT" in os.environ  # one machine: one count for all
    if not here or int(os.environ.get("WORLD_SIZE", "1")) < 2 or dist.is_initialized():
        return
    store, rank, ranks = next(rendezvous("env://"))
    own = PrefixStore(f"start_{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    dist.init_process_group("gloo", store=own, rank=rank, world_size=ranks)


__all__ = ["init_from_torchrun"]
