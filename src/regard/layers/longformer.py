"""Longformer: sliding-window attention plus a few global tokens. Exact, with work linear in N.

Beltagy, Peters and Cohan 2020, sections 3.1 and 3.2.

Axes: B batch, h heads, N tokens, G global tokens, D model width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.layers.multihead import MultiHeadAttention
from regard.masks import Mask, dense, global_tokens, window

__all__ = ["LongformerAttention"]


class LongformerAttention(nn.Module):
    """Self-attention in a window of ``reach`` tokens on each side, and to and from global tokens.

    ``own_global_maps`` gives the rows of global tokens query, key and value projections of their own (``wide``), as in the published
    models; otherwise one set serves both. Other tokens always attend to global ones with the ordinary projections. Causal use: pass
    ``mask=causal()``.

    Shapes: x (B, N, D) to (B, N, D); global_ids (G,) positions for every sequence, or (B, G) with −1 in unused slots.

    d_model: width of the inputs and outputs, D.
    heads: number of heads; must divide d_model.
    reach: how many tokens each side of the window has.
    own_global_maps: whether rows of global tokens have projections of their own.
    bias: whether the projections have biases.
    dropout: on the attention weights.

    >>> layer = LongformerAttention(32, heads=4, reach=2, own_global_maps=True)
    >>> layer(torch.randn(2, 10, 32), global_ids=[0]).shape
    torch.Size([2, 10, 32])
    """

    def __init__(
        self, d_model: int, heads: int, reach: int, *, own_global_maps: bool = False, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.reach = reach
        self.near = MultiHeadAttention(d_model, heads, bias=bias, dropout=dropout)
        self.wide: MultiHeadAttention | None = None
        if own_global_maps:
            self.wide = MultiHeadAttention(d_model, heads, bias=bias, dropout=dropout)
            self.wide.out_proj = self.near.out_proj  # one W_o for both

    def pattern(self, global_ids: Sequence[int] | Tensor | None = None, mask: Mask | None = None) -> Mask:
        """The mask of this layer: True = visible.

        global_ids: positions of the global tokens.
        mask: combined with it.

        >>> print(LongformerAttention(8, 1, reach=1).pattern([0]).draw(4, 4))
        ████████
        ██████··
        ████████
        ██··████
        """
        pattern = window(self.reach, self.reach)
        if global_ids is not None:
            pattern = pattern | global_tokens(global_ids)
        return pattern if mask is None else pattern & mask

    def forward(self, x: Tensor, global_ids: Sequence[int] | Tensor | None = None, *, mask: Mask | None = None) -> Tensor:
        out: Tensor = self.near(x, mask=self.pattern(global_ids, mask))
        if self.wide is None or global_ids is None:
            return out
        ids = torch.as_tensor(global_ids, device=x.device)
        if not ids.numel():
            return out
        ids = ids.expand(x.shape[0], -1)  # (B, G)
        used = ids >= 0
        rows = ids.clamp(min=0)
        global_x = x.gather(1, rows.unsqueeze(-1).expand(-1, -1, x.shape[-1]))  # (B, G, D)
        global_out = self.wide(global_x, x, mask=None if mask is None else _rows(mask, rows, x.shape[1]))
        batch = torch.arange(x.shape[0], device=x.device).unsqueeze(-1).expand_as(ids)
        return out.index_put((batch[used], ids[used]), global_out[used])

    def extra_repr(self) -> str:
        return f"reach={self.reach}"


def _rows(mask: Mask, rows: Tensor, N: int) -> Mask:
    """The rows (B, G) of an N × N mask as a mask of their own: O(G · N)."""
    positions, index = torch.unique(rows, return_inverse=True)
    tiles = [mask.tile(range(p, p + 1), range(N), N, N, device=rows.device) for p in positions.tolist()]
    lead = mask.lead
    patterns = [
        torch.full((1, 1, 1, 1), t == "all", device=rows.device).expand(*lead, 1, N) if isinstance(t, str) else t.expand(*lead, 1, N)
        for t in tiles
    ]
    table = torch.cat(patterns, 2).expand(rows.shape[0], -1, -1, -1)  # (B, h|1, U, N)
    return dense(table.gather(2, index[:, None, :, None].expand(-1, table.shape[1], -1, N)))
