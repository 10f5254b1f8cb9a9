"""Key-value attention over any score: ``att((K, V), q) = Σ_n softmax(s(k_n, q)) v_n``, without projections.

Axes: B batch, L queries, S keys, dq, dk, dv their widths.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention import Attended, attend, observe
from regard.choices import Choice, Softmax
from regard.masks import Mask
from regard.readings import Reading
from regard.scores import ScaledDot, Score

__all__ = ["KeyValueAttention"]


class KeyValueAttention(nn.Module):
    """Attention to key-value pairs with any score and choice. Without values, the keys are used: soft attention ``Σ_n α_n x_n``.

    Shapes: query (…, L, dq), key (…, S, dk), value (…, S, dv) to (…, L, dv).

    score, choice: as in :func:`regard.attend`.
    dropout: on the attention weights, in training mode.

    >>> import regard
    >>> layer = KeyValueAttention(regard.Additive(3, 5, hidden=8))
    >>> layer(torch.randn(2, 4, 3), torch.randn(2, 6, 5), torch.randn(2, 6, 7)).shape
    torch.Size([2, 4, 7])
    """

    def __init__(self, score: Score | None = None, choice: Choice | None = None, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.score = ScaledDot() if score is None else score
        self.choice = Softmax() if choice is None else choice
        self.dropout = dropout

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor | None = None, *, mask: Mask | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        value = key if value is None else value
        dropout = self.dropout if self.training else 0.0
        return attend(query, key, value, score=self.score, choice=self.choice, mask=mask, dropout=dropout, generator=generator)

    def observe(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        *,
        mask: Mask | None = None,
        generator: torch.Generator | None = None,
        readings: Sequence[Reading] = (),
    ) -> Attended:
        """As `forward`, and also return the lse, the keys a hard choice picked and the readings.

        Arguments as in `regard.observe`.
        """
        value = key if value is None else value
        return observe(
            query,
            key,
            value,
            score=self.score,
            choice=self.choice,
            mask=mask,
            dropout=self.dropout if self.training else 0.0,
            generator=generator,
            readings=readings,
        )

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}" if self.dropout else ""
