"""regard's functions with the signatures of torch's and entmax's, for their own tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.bias import CausalBias

import regard


def sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention; options: scale, enable_gqa (regard shares heads without being asked to)."""
    causal_bias = isinstance(attn_mask, CausalBias)
    if is_causal and causal_bias:
        raise ValueError("CausalBias should not be used with causal=True")
    if is_causal and attn_mask is not None:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    mask, bias = (regard.causal(align="start") if is_causal else None), None
    if attn_mask is not None and (causal_bias or attn_mask.dtype == torch.bool):
        mask = regard.from_sdpa(attn_mask)
    elif attn_mask is not None:
        mask, bias = regard.from_additive(attn_mask)
    return regard.attend(query, key, value, score=regard.ScaledDot(options.get("scale")), mask=mask, bias=bias, dropout=dropout_p)


def multi_head(layer: torch.nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """The output of a torch.nn.MultiheadAttention, computed by `regard.MultiHeadAttention.from_torch`."""
    ours = regard.MultiHeadAttention.from_torch(layer)
    batched = query.dim() == 3
    parts = [x if batched else x.unsqueeze(int(not layer.batch_first)) for x in (query, key, value)]
    q, k, v = (x if layer.batch_first else x.transpose(0, 1) for x in parts)
    mask = regard.from_torch_mha(options.get("attn_mask"), options.get("key_padding_mask"), layer.num_heads)
    out = ours(q, (k, v), mask=mask)
    out = out if layer.batch_first else out.transpose(0, 1)
    return out if batched else out.squeeze(int(not layer.batch_first))


def _along(choice: regard.Choice, x: Tensor, dim: int) -> Tensor:
    return choice(x.movedim(dim, -1).unsqueeze(-2)).squeeze(-2).movedim(-1, dim)


def sparsemax(X: Tensor, dim: int = -1, k: int | None = None) -> Tensor:
    return _along(regard.Sparsemax(), X, dim)


def entmax15(X: Tensor, dim: int = -1, k: int | None = None) -> Tensor:
    return _along(regard.Entmax15(), X, dim)


def sparsemax_bisect(X: Tensor, dim: int = -1, n_iter: int = 50, ensure_sum_one: bool = True) -> Tensor:
    return _along(regard.Sparsemax(), X, dim)


def entmax_bisect(X: Tensor, alpha: float | Tensor = 1.5, dim: int = -1, n_iter: int = 50, ensure_sum_one: bool = True) -> Tensor:
    """An alpha for every row: rows become heads."""
    if not isinstance(alpha, Tensor) or alpha.numel() == 1:
        return _along(regard.Entmax(alpha.reshape(()) if isinstance(alpha, Tensor) else alpha), X, dim)
    rows = X.movedim(dim, -1)
    alphas = alpha.expand(*X.movedim(dim, -1)[..., :1].movedim(-1, dim).shape).movedim(dim, -1).reshape(-1)
    out = regard.Entmax(alphas)(rows.reshape(-1, 1, rows.shape[-1]))
    return out.reshape(rows.shape).movedim(-1, dim)


class Sparsemax(torch.nn.Module):
    def __init__(self, dim: int = -1, k: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, X: Tensor) -> Tensor:
        return sparsemax(X, self.dim)


class Entmax15(Sparsemax):
    def forward(self, X: Tensor) -> Tensor:
        return entmax15(X, self.dim)
