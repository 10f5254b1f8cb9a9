"""Run a model's own attention layers on regard's kernels, weights and all: `regard.replace(model)`.

Axes: B batch, h heads, L queries, S keys, D model width, d head width.
"""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import attend
from ..masks import Mask, causal, from_torch_mha
from ..masks.importers import from_additive
from .capture.transformers_calls import NAME, register

__all__ = ["ReplacedMultiheadAttention", "replace"]


class ReplacedMultiheadAttention(nn.MultiheadAttention):
    """A `torch.nn.MultiheadAttention` whose weighted sum is computed by `regard.attend`. Parameters, arguments and results are the same.

    Where the weights themselves are asked for (need_weights=True) torch computes them, L×S for every head.
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        extra = self.bias_k is not None or self.add_zero_attn
        if need_weights or extra or query.is_nested:
            return super().forward(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
        batched, parts = query.dim() == 3, [query, key, value]
        if not batched:
            parts = [x.unsqueeze(0 if self.batch_first else 1) for x in parts]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        q, k, v = self._heads(*(x if self.batch_first else x.transpose(0, 1) for x in parts))
        mask, bias = _masks(attn_mask, key_padding_mask, self.num_heads, is_causal)
        mixed = attend(q, k, v, mask=mask, bias=bias, dropout=self.dropout if self.training else 0.0)
        out = self.out_proj(mixed.transpose(1, 2).flatten(2))  # (B, L, D)
        out = out if self.batch_first else out.transpose(0, 1)
        return (out if batched else out.squeeze(0 if self.batch_first else 1)), None

    def _heads(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """(B, L, D) each → (B, h, L, d)."""
        if self._qkv_same_embed_dim:
            weights: Any = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        projected = [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]
        return [x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in projected]


def _masks(attn_mask: Tensor | None, padding: Tensor | None, heads: int, is_causal: bool) -> tuple[Mask | None, Tensor | None]:
    """torch's masks as a mask and a bias; `is_causal` says that attn_mask is the causal one, so it need not be read."""
    bias: Tensor | None = None
    mask: Mask | None = None
    if attn_mask is not None and is_causal:
        mask, attn_mask = causal(align="start"), None
    for tensor in (attn_mask, None if padding is None else padding[:, None, None]):
        if tensor is not None and tensor.is_floating_point():
            shaped = tensor.unflatten(0, (-1, heads)) if tensor is attn_mask and tensor.dim() == 3 else tensor
            part, added = from_additive(shaped)
            mask, bias = part if mask is None else mask & part, added if bias is None else bias + added
    hidden = from_torch_mha(
        None if attn_mask is None or attn_mask.is_floating_point() else attn_mask,
        None if padding is None or padding.is_floating_point() else padding,
        heads,
    )
    return hidden if mask is None else mask & hidden, bias


def _stay_on_forward(module: nn.Module, arguments: Any) -> None:
    """A forward pre-hook, because torch's encoder layers skip the forward of an attention without hooks in evaluation mode."""


def replace(model: nn.Module) -> nn.Module:
    """Replace the attention of a model by regard's, in place: every torch.nn.MultiheadAttention, and that of Hugging Face models.

    Weights stay where they are, so optimizers, hooks and state dicts keep working, and outputs agree to rounding. Hugging Face models get
    the attention implementation "regard".

    model: a model whose attention is computed by nn.MultiheadAttention or by transformers.

    Returns the same model. Raises ValueError if it has no attention that can be replaced.

    >>> model = replace(nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), 2))
    >>> type(model.layers[0].self_attn).__name__
    'ReplacedMultiheadAttention'
    """
    layers = [m for m in model.modules() if type(m) is nn.MultiheadAttention]
    for layer in layers:
        layer.__class__ = ReplacedMultiheadAttention
        layer.register_forward_pre_hook(_stay_on_forward)
    already = any(isinstance(m, ReplacedMultiheadAttention) for m in model.modules())
    switched = False
    if "transformers" in sys.modules:
        from transformers import PreTrainedModel

        for part in model.modules():
            if isinstance(part, PreTrainedModel) and getattr(part, "_supports_sdpa", False):
                register()
                part.set_attn_implementation(NAME)
                switched = True
    if not layers and not switched and not already:
        raise ValueError(
            f"{type(model).__name__} has no torch.nn.MultiheadAttention and is no Hugging Face model with the attention interface; "
            "call regard.attend in its layers instead"
        )
    return model
