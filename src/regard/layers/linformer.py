"""Linformer: keys and values are projected along the sequence to a fixed number, and every token attends to those. O(N · rank).

An approximation, good where the attention matrix is nearly low-rank; :meth:`LinformerAttention.error` measures it against exact
attention. Wang et al. 2020, section 4.

Axes: B batch, h heads, N tokens, r rank, d head width, D model width.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from regard.layers.multihead import MultiHeadAttention, Projected
from regard.masks import padding

__all__ = ["LinformerAttention"]


class LinformerAttention(nn.Module):
    """Self-attention of N tokens to ``rank`` linear combinations of them: ``softmax(Q (E K)ᵀ / √d) (F V)``, E and F (rank, length) learned.

    No causal mask: every combination contains later tokens. Sequences shorter than ``length`` use the first columns and, in proportion,
    the first rows.

    Shapes: x (B, N, D) to (B, N, D), N ≤ length.

    d_model: width of the inputs and outputs, D.
    heads: number of heads; must divide d_model.
    length: the longest sequence.
    rank: how many combinations.
    shared: whether E and F are one matrix.
    start: how E and F begin: "mean", each row averages a segment of the sequence (exact when keys and values are constant on the segments),
        or "random", the paper's Gaussian.
    bias: whether the projections have biases.
    dropout: on the attention weights.

    Raises ValueError for a rank above the length or another `start`.

    >>> LinformerAttention(32, heads=4, length=128, rank=16)(torch.randn(2, 100, 32)).shape
    torch.Size([2, 100, 32])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        length: int,
        rank: int,
        *,
        shared: bool = False,
        start: Literal["mean", "random"] = "mean",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 1 <= rank <= length:
            raise ValueError(f"rank is {rank} and length {length}; expected 1 ≤ rank ≤ length")
        if start not in ("mean", "random"):
            raise ValueError(f"start is {start!r}; expected 'mean' or 'random'")
        self.length, self.rank = length, rank
        self.attention = MultiHeadAttention(d_model, heads, bias=bias, dropout=dropout)
        self.E = nn.Parameter(_mixing(rank, length, start))
        self.F = self.E if shared else nn.Parameter(_mixing(rank, length, start))

    def forward(self, x: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        """Project x (B, N, D), then attend. ``lengths`` (B,) excludes padding from the combinations, and hides those of padding alone."""
        N = x.shape[1]
        if self.length < N:
            raise ValueError(f"x has {N} tokens but this layer was made for at most {self.length}; make it with length={N}")
        projected = self.attention.project(x)
        used, mask, keep = -(-self.rank * N // self.length), None, None
        if lengths is not None:
            lengths = lengths.to(x.device)
            keep = torch.arange(N, device=x.device) < lengths.unsqueeze(-1)  # (B, N)
            mask = padding(-(-self.rank * lengths // self.length))
        mixed = Projected(_mix(self.E[:used, :N], projected.key, keep), _mix(self.F[:used, :N], projected.value, keep))
        return self.attention(x, mixed, mask=mask)  # type: ignore[no-any-return]

    @torch.no_grad()
    def error(self, x: Tensor) -> float:
        """The relative error ‖this − exact‖ / ‖exact‖, where exact is full attention with the same projections."""
        exact = self.attention(x)
        return float((self(x) - exact).norm() / exact.norm())

    def extra_repr(self) -> str:
        return f"length={self.length}, rank={self.rank}"


def _mix(matrix: Tensor, x: Tensor, keep: Tensor | None) -> Tensor:
    """Linear combinations (B, h, r, d) of keys or values x (B, h, N, d)."""
    if keep is not None:
        x = x.masked_fill(~keep[:, None, :, None], 0.0)
    return matrix.to(x.dtype) @ x


def _mixing(rank: int, length: int, start: str) -> Tensor:
    if start == "random":
        return torch.randn(rank, length) / math.sqrt(rank)
    segments = nn.functional.one_hot(torch.arange(length) * rank // length, rank).mT.to(torch.get_default_dtype())
    return segments / segments.sum(-1, keepdim=True)
