"""A decoder block for one new token: what `Block` computes, as plain function calls.

Running a module costs more than the arithmetic of one token: a step of the shipped translators takes a third less time this way.

Axes: B batch, h heads, N tokens decoded so far, S source tokens, d head width, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import _has_any_global_hook

from regard.attention import attend
from regard.choices import Softmax
from regard.layers.cache import LayerCache
from regard.layers.multihead import MultiHeadAttention, Projected
from regard.masks import Mask
from regard.models.block import Block, Mlp
from regard.scores import ScaledDot

__all__ = ["PlainBlock"]

_Affine = tuple[Tensor, Tensor | None]  # weight and bias


@dataclass(frozen=True, eq=False)
class PlainBlock:
    """The weights of a decoder block in the order of their use. `of` says which blocks have one, `ready` whether it may be used now."""

    modules: tuple[nn.Module, ...]
    heads: int
    width: int  # d
    norms: tuple[tuple[Tensor, Tensor | None, float], ...]
    projections: tuple[_Affine, ...]  # query, key and value; out; query of the cross-attention; its out; MLP up and down

    @classmethod
    def of(cls, block: nn.Module) -> PlainBlock | None:
        """Return the plain form of a block; None for a block with options that `step` does not know.

        >>> from regard.models.block import BlockConfig
        >>> PlainBlock.of(Block(BlockConfig(d_model=8, heads=2, activation="relu"), cross=True).eval()) is None
        False
        >>> PlainBlock.of(Block(BlockConfig(d_model=8, heads=2, positions="rotary"), cross=True).eval()) is None
        True
        """
        if type(block) is not Block or block.post or type(block.mlp) is not Mlp or block.mlp.activation != "relu":
            return None
        attention, cross, mlp = block.attention, block.cross, block.mlp
        norms = (block.attention_norm, block.cross_norm, block.mlp_norm)
        linear = (attention.out_proj, cross.out_proj if cross is not None else None, mlp.up, mlp.down)
        if not (_plain(attention) and _plain(cross)) or any(type(part) is not nn.Linear for part in linear):
            return None
        if any(type(norm) is not nn.LayerNorm for norm in norms):
            return None
        assert cross is not None
        inner = attention.heads * attention.head_dim
        assert attention.in_proj_weight is not None
        assert cross.in_proj_weight is not None
        query_bias = None if cross.in_proj_bias is None else cross.in_proj_bias[:inner]
        return cls(
            tuple(block.modules()),
            attention.heads,
            attention.head_dim,
            tuple((norm.weight, norm.bias, norm.eps) for norm in norms),  # type: ignore[union-attr, misc]
            (
                (attention.in_proj_weight, attention.in_proj_bias),
                (attention.out_proj.weight, attention.out_proj.bias),
                (cross.in_proj_weight[:inner], query_bias),
                (cross.out_proj.weight, cross.out_proj.bias),
                (mlp.up.weight, mlp.up.bias),
                (mlp.down.weight, mlp.down.bias),
            ),
        )

    def ready(self) -> bool:
        """Return whether nobody would notice that the modules do not run: none has a hook, and none is in training mode."""
        return not (_has_any_global_hook() or any(m._forward_hooks or m._forward_pre_hooks or m.training for m in self.modules))

    def step(self, x: Tensor, cache: LayerCache, memory: Projected, memory_mask: Mask | None = None) -> Tensor:
        """Compute the block's output (B, 1, D) for the new token x (B, 1, D); its keys and values are appended to the cache.

        memory: keys and values of the source; memory_mask: which of them are visible, None for all.
        """
        B, _, D = x.shape
        into, out, cross_query, cross_out, up, down = self.projections
        first, second, third = self.norms
        parts = F.linear(_norm(x, D, first), *into).view(B, 3, self.heads, 1, self.width)
        query, key, value = parts.unbind(1)
        x = x + F.linear(_joined(attend(query, *cache.append(key, value)), B), *out)
        query = F.linear(_norm(x, D, second), *cross_query).view(B, self.heads, 1, self.width)
        x = x + F.linear(_joined(attend(query, *memory, mask=memory_mask), B), *cross_out)
        return x + F.linear(torch.relu(F.linear(_norm(x, D, third), *up)), *down)


def _plain(layer: nn.Module | None) -> bool:
    """Whether a layer is softmax attention with the scaled dot product, one key head a query head, and nothing else."""
    if type(layer) is not MultiHeadAttention or layer.in_proj_weight is None or layer.kv_heads != layer.heads:
        return False
    score, choice = layer.score, layer.choice
    plain_score = type(score) is ScaledDot and score.scale is None and score.cap is None
    plain_choice = type(choice) is Softmax and type(choice.temperature) is float and choice.temperature == 1.0 and choice.sinks is None
    return plain_score and plain_choice and layer.rotary is None and layer.bias_k is None and not layer.add_zero_attn


def _norm(x: Tensor, width: int, norm: tuple[Tensor, Tensor | None, float]) -> Tensor:
    weight, bias, eps = norm
    return torch.layer_norm(x, (width,), weight, bias, eps)


def _joined(heads: Tensor, batch: int) -> Tensor:
    """The heads' outputs (B, h, 1, d) side by side: (B, 1, h·d)."""
    return heads.transpose(1, 2).reshape(batch, 1, -1)
