"""Copying words of the source into the target: a mixture of the model's own words and the source words its attention is on.

Axes: B batch, T target positions, S source positions, V words, n width of a state.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..attention import attend
from ..masks import Mask
from ..scores import Score

_SMALLEST = 1e-10  # probability of a word that is neither likely nor in the source, so that its logarithm is finite


class Copying(nn.Module):
    """Compute log p(y) of the mixture of generating and copying.

        p(y) = (1 − c) · softmax(logits)_y + c · Σ_j α_j [x_j = y]          c = sigmoid(w · s + b)

    x_j are the source words, whose ids must be those of the target vocabulary (one shared vocabulary); α are attention weights.

    See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks" (arXiv:1704.04368), section 2.2.

    >>> copying = Copying(4)
    >>> logits, state, weights = torch.zeros(1, 2, 6), torch.zeros(1, 2, 4), torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    >>> p = copying(logits, state, weights, torch.tensor([[3, 5]])).exp()
    >>> torch.allclose(p.sum(-1), torch.ones(1, 2))
    True
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 1)
        nn.init.zeros_(self.gate.bias)

    def forward(self, logits: Tensor, state: Tensor, weights: Tensor, source: Tensor) -> Tensor:
        """Mix logits (B, T, V) with weights (B, T, S) on source ids (B, S); `state` (B, T, n) decides how much is copied."""
        copied = torch.sigmoid(self.gate(state).float())  # (B, T, 1)
        p = (1 - copied) * logits.float().softmax(-1)
        ids = source[:, None].expand_as(weights)
        return p.scatter_add(-1, ids, copied * weights.float()).clamp_min(_SMALLEST).log()


def attention_weights(query: Tensor, key: Tensor, *, score: Score, mask: Mask) -> Tensor:
    """Return weights (B, T, S) that gradients flow through: attention whose values are the unit vectors, one for each source position.

    query (B, T, d) and key (B, S, d), with one head.
    """
    unit = torch.eye(key.shape[1], dtype=key.dtype, device=key.device).expand(len(key), 1, -1, -1)
    return attend(query[:, None], key[:, None], unit, score=score, mask=mask)[:, 0]
