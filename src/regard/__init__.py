"""regard: the attention mechanism as real software. Compute it, train with it, see it in any model, know what it costs."""

from .attention import Attended, Plan, attend, explain, observe
from .biases import Alibi, Bias, RelativeBias
from .choices import Argmax, Choice, Entmax15, Sample, Softmax, Sparsemax, reinforce
from .masks import (
    Mask,
    block_sparse,
    causal,
    dense,
    documents,
    everything,
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

__version__ = "0.1.0"
