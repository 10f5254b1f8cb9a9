"""Initialise torch.distributed in processes that torchrun started, also after it restarted them."""

from __future__ import annotations

import os

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous


def init_from_torchrun() -> None:
    """Initialise torch.distributed on gloo in processes of torchrun on one machine; do nothing elsewhere, or if it is initialised.

    Processes that torchrun restarts share its store with the previous ones, and may read the address of a dead process in it. Each
    restart therefore uses a prefix of its own.
    """
    one_machine = os.environ.get("GROUP_WORLD_SIZE") == "1" and "TORCHELASTIC_RESTART_COUNT" in os.environ  # the same count on all ranks
    if not one_machine or int(os.environ.get("WORLD_SIZE", "1")) < 2 or dist.is_initialized():
        return
    store, rank, ranks = next(rendezvous("env://"))
    prefixed = PrefixStore(f"start_{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    dist.init_process_group("gloo", store=prefixed, rank=rank, world_size=ranks)


__all__ = ["init_from_torchrun"]
