"""regard: the attention mechanism for PyTorch. Compute it, train with it, inspect it in any model, predict its cost."""

from typing import TYPE_CHECKING, Any

from .attention import Attended, Plan, attend, explain, observe
from .biases import Alibi, Bias, RelativeBias
from .choices import Argmax, Choice, Entmax15, Sample, Softmax, Sparsemax, reinforce
from .layers import MultiHeadAttention
from .masks import (
    Mask,
    block_sparse,
    causal,
    dense,
    documents,
    everything,
    from_additive,
    from_hf,
    from_sdpa,
    from_spans,
    from_torch_mha,
    global_tokens,
    padding,
    per_head,
    prefix,
    window,
)
from .readings import At, Distance, Entropy, MaxLogit, Pooled, Reading, Received, Rows, Same, Sink, TopK, ValueNorm
from .scores import Additive, Bilinear, Dot, Gaussian, Lowered, ScaledDot, Score

if TYPE_CHECKING:
    from .sight.change import change
    from .sight.labels import label_heads
    from .sight.sighting import Sighting
    from .sight.watch import watch

__version__ = "0.1.0"

__all__ = [
    "Additive",
    "Alibi",
    "Argmax",
    "At",
    "Attended",
    "Bias",
    "Bilinear",
    "Choice",
    "Distance",
    "Dot",
    "Entmax15",
    "Entropy",
    "Gaussian",
    "Lowered",
    "Mask",
    "MaxLogit",
    "MultiHeadAttention",
    "Plan",
    "Pooled",
    "Reading",
    "Received",
    "RelativeBias",
    "Rows",
    "Same",
    "Sample",
    "ScaledDot",
    "Score",
    "Sighting",
    "Sink",
    "Softmax",
    "Sparsemax",
    "TopK",
    "ValueNorm",
    "attend",
    "block_sparse",
    "causal",
    "change",
    "dense",
    "documents",
    "everything",
    "explain",
    "from_additive",
    "from_hf",
    "from_sdpa",
    "from_spans",
    "from_torch_mha",
    "global_tokens",
    "label_heads",
    "observe",
    "padding",
    "per_head",
    "prefix",
    "reinforce",
    "watch",
    "window",
]


def __getattr__(name: str) -> Any:
    if name in ("Sighting", "change", "label_heads", "watch"):  # loaded on first use, to keep `import regard` short
        from . import sight

        return getattr(sight, name)
    if name in ("parallel", "zoo"):  # subpackages, likewise
        from importlib import import_module

        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
