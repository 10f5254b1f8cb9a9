"""regard: the attention mechanism for PyTorch. Compute it, train with it, inspect it in any model, predict its cost.

    regard.attend(q, k, v, mask=regard.causal())      attention; `observe` returns its weights' readings too, `explain` the kernel
    regard.open("zh-en-transformer")                  a trained model: shipped, added, a run's folder or published weights
    with regard.watch(model) as seen: …               the attention of any PyTorch model
    regard.cost.plan("gpt3")                          parameters, FLOPs and memory, each number with its formula

Names are imported on first use, so that `import regard`, and a command that computes nothing, does not import torch.
"""

from typing import TYPE_CHECKING

from .lazy_names import lazy_names

if TYPE_CHECKING:
    from . import cost, demos, kernels, layers, masks, models, parallel, sight, text, training, zoo  # noqa: F401
    from .attention import Attended, Plan, attend, explain, observe
    from .biases import Alibi, Bias, RelativeBias
    from .choices import Argmax, Choice, Entmax, Entmax15, Sample, Softmax, Sparsemax, TopKSoftmax, reinforce
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
        rule,
        window,
    )
    from .readings import At, Distance, Entropy, MaxLogit, Pooled, Reading, Received, Rows, Same, Sink, TopK, ValueNorm
    from .scores import Additive, Bilinear, Dot, Gaussian, Lowered, ScaledDot, Score
    from .sight.change import change
    from .sight.labels import label_heads
    from .sight.replace import replace
    from .sight.sighting import Sighting
    from .sight.watch import watch
    from .zoo import open

__version__ = "0.2.0"

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
    "Entmax",
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
    "TopKSoftmax",
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
    "open",
    "padding",
    "per_head",
    "prefix",
    "reinforce",
    "replace",
    "rule",
    "watch",
    "window",
]

_NAMES = {  # module → the public names it defines
    "attention": "Attended Plan attend explain observe",
    "biases": "Alibi Bias RelativeBias",
    "choices": "Argmax Choice Entmax Entmax15 Sample Softmax Sparsemax TopKSoftmax reinforce",
    "layers": "MultiHeadAttention",
    "masks": "Mask block_sparse causal dense documents everything from_additive from_hf from_sdpa from_spans from_torch_mha global_tokens "
    "padding per_head prefix rule window",
    "readings": "At Distance Entropy MaxLogit Pooled Reading Received Rows Same Sink TopK ValueNorm",
    "scores": "Additive Bilinear Dot Gaussian Lowered ScaledDot Score",
    "sight.change": "change",
    "sight.labels": "label_heads",
    "sight.replace": "replace",
    "sight.sighting": "Sighting",
    "sight.watch": "watch",
    "zoo": "open",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_SUBMODULES = {module.split(".")[0] for module in _NAMES} | {"cost", "demos", "kernels", "models", "parallel", "text", "training"}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, _SUBMODULES)
