"""Attention beyond one process: the sequence on several ranks, keys and values travelling between them.

    torchrun --nproc-per-node 4 your_program.py

Every rank holds a part of the positions (`shard`), calls `attend` with it, and gets the output of its own queries, exactly as if one
process had seen everything. Runs on gloo (CPU) and is written for nccl.
"""

from .attention import attend, observe
from .exchange import RingError
from .layout import Layout, shard, unshard

__all__ = ["Layout", "RingError", "attend", "observe", "shard", "unshard"]
