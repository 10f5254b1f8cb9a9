"""Adaptive span: every head learns the length of its window. A different model, not an approximation of full attention.

Sukhbaatar et al. 2019, section 2: weights are ``m(x) exp(s) / Σ m(x) exp(s)`` with ``m(x) = clamp((R + z − x) / R, 0, 1)`` at distance x, a
span z learned per head and a ramp of width R. Here it is a bias, ln m, and a window mask per head; nothing is computed
outside the windows.

Axes: B batch, h heads, N tokens, D model width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.biases import Bias
from regard.layers.multihead import MultiHeadAttention
from regard.masks import Mask, per_head, window

__all__ = ["AdaptiveSpanAttention", "SoftSpan"]


class SoftSpan(Bias):
    """The bias ``ln m`` of each head's soft span: 0 within the span, −∞ beyond the ramp. Learns ``share`` (h,), a fraction of ``longest``.

    >>> span = SoftSpan(heads=1, longest=4, ramp=2, start=0.5)
    >>> span.tile(range(5, 6), range(6), 6, 6).exp().flatten().tolist()
    [0.0, 0.0, 0.5, 1.0, 1.0, 1.0]
    """

    def __init__(self, heads: int, longest: int, ramp: int = 32, *, start: float = 0.0) -> None:
        super().__init__()
        if longest < 1 or ramp < 1 or not 0 <= start <= 1:
            raise ValueError(f"longest={longest}, ramp={ramp}, start={start}; expected longest ≥ 1, ramp ≥ 1 and 0 ≤ start ≤ 1")
        self.longest, self.ramp = longest, ramp
        self.share = nn.Parameter(torch.full((heads,), float(start)))

    def spans(self) -> Tensor:
        """Each head's span z in tokens, (h,), within [0, longest]; a share outside [0, 1] still gets its gradient."""
        inside = self.share.clamp(0.0, 1.0)
        return self.longest * (self.share + (inside - self.share).detach())

    def windows(self) -> Mask:
        """The window mask of each head: visible exactly where m > 0."""
        reach = [math.ceil(z + self.ramp) - 1 for z in self.spans().tolist()]
        return per_head([window(size, size) for size in reach])

    def tile(
        self, rows: range, cols: range, L: int, S: int, *, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        # A tile has only l + s − 1 different offsets: each diagonal is computed once, and rows are shifted views of these values.
        first = cols.start - (rows.stop - 1 + S - L)
        distance = torch.arange(first, first + len(rows) + len(cols) - 1, device=device).abs()
        m = (self.ramp + self.spans().to(device=device, dtype=dtype).unsqueeze(-1) - distance) / self.ramp  # (h, l + s − 1)
        outside = m <= 0
        # log(1) in place of log(m ≤ 0), so that the gradient is 0 there and not NaN.
        diagonals = m.masked_fill(outside, 1.0).clamp(max=1.0).log().masked_fill(outside, -math.inf)
        return diagonals.unfold(-1, len(cols), 1).flip(-2).unsqueeze(0)  # (1, h, l, s)

    def check(self, heads: int) -> None:
        if self.share.numel() != heads:
            raise ValueError(f"SoftSpan was made for {self.share.numel()} heads but the query has {heads}; make it with heads={heads}")


class AdaptiveSpanAttention(nn.Module):
    """Self-attention whose heads learn their own span. Add ``cost · layer.span_cost()`` to the loss to keep them short.

    Each head computes only its own window, so short spans cost less. Causal use: pass ``mask=causal()``.

    Shapes: x (B, N, D) to (B, N, D).

    d_model: width of the inputs and outputs, D.
    heads: number of heads; must divide d_model.
    longest: the longest span a head can learn, in tokens.
    ramp: tokens over which the weight falls to zero at the end of a span.
    start: the spans at the beginning, as a share of the longest.
    bias: whether the projections have biases.
    dropout: on the attention weights.

    >>> layer = AdaptiveSpanAttention(32, heads=4, longest=100, ramp=8)
    >>> layer(torch.randn(2, 10, 32)).shape
    torch.Size([2, 10, 32])
    """

    def __init__(
        self, d_model: int, heads: int, longest: int, ramp: int = 32, *, start: float = 0.0, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, heads, bias=bias, dropout=dropout)
        self.span = SoftSpan(heads, longest, ramp, start=start)

    def forward(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        windows = self.span.windows()
        return self.attention(x, mask=windows if mask is None else windows & mask, bias=self.span)  # type: ignore[no-any-return]

    def span_cost(self) -> Tensor:
        """The mean span over heads, in tokens: the paper's ℓ1 penalty (equation 3)."""
        return self.span.spans().mean()
