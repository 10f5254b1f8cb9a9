"""Composable masks: which keys each query sees. True always means visible.

>>> from regard.masks import causal, global_tokens, window
>>> longformer = causal() & window(2, 0) | global_tokens([0])
>>> longformer
causal() & window(2, 0) | global_tokens([0])
>>> print(longformer.draw(6, 6))
████████████
████········
██████······
████████····
██··██████··
██····██████
"""

from regard.masks.algebra import everything
from regard.masks.documents import documents
from regard.masks.extra_keys import ExtraKeys
from regard.masks.heads import per_head
from regard.masks.importers import from_additive, from_hf, from_sdpa, from_torch_mha
from regard.masks.mask import Mask
from regard.masks.patterns import causal, global_tokens, prefix, window
from regard.masks.ranges import MAX_SPANS
from regard.masks.rule import rule
from regard.masks.stored import block_sparse, dense, from_spans, padding

__all__ = [
    "MAX_SPANS",
    "ExtraKeys",
    "Mask",
    "block_sparse",
    "causal",
    "dense",
    "documents",
    "everything",
    "from_additive",
    "from_hf",
    "from_sdpa",
    "from_spans",
    "from_torch_mha",
    "global_tokens",
    "padding",
    "per_head",
    "prefix",
    "rule",
    "window",
]
