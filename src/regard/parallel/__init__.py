"""Ring attention: one sequence sharded over several ranks, which exchange keys and values.

    torchrun --nproc-per-node 4 your_program.py

Every rank holds a part of the positions (`shard`), calls `attend` with it, and gets the output of its own queries, as if one
process had computed the whole. Tested on gloo (CPU); written for nccl as well.
"""

from .attention import attend, observe
from .exchange import RingError
from .layout import Layout, shard, unshard

__all__ = ["Layout", "RingError", "attend", "observe", "shard", "unshard"]
