"""Convert the masks of other libraries (torch, transformers) to a `Mask`, where True = visible.

An additive (float) mask of only 0 and −∞ is a mask; one that also holds other numbers is a mask and a bias at once, and
`from_additive` separates them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.masks.algebra import everything
from regard.masks.mask import Mask
from regard.masks.patterns import causal
from regard.masks.stored import dense, padding

LEGACY_MASKED = -9999.0
"""Transformers has written a hidden key as −∞, as the dtype's hidden_below number, and as −10,000."""


def _tensor(mask: object, name: str) -> Tensor:
    if not isinstance(mask, Tensor):
        raise ValueError(f"{name} must be a tensor, but got {type(mask).__name__}")
    return mask


def _causal_bias(mask: Tensor) -> Mask | None:
    """The mask of torch's `causal_upper_left` and `causal_lower_right`, tensors without numbers; None for any other tensor."""
    if type(mask) is Tensor:
        return None
    from torch.nn.attention.bias import CausalBias, CausalVariant

    if not isinstance(mask, CausalBias):
        return None
    return causal(align="start" if mask.variant == CausalVariant.UPPER_LEFT else "end")


def _visible_in_additive(additive: Tensor, name: str, hidden_below: float = -torch.inf) -> Tensor:
    """The bool pattern of an additive mask; a ValueError if it also holds a bias."""
    visible = additive > hidden_below
    if bool(((additive != 0) & visible).any()) or bool(additive.isnan().any()):
        finite = additive[visible & (additive != 0)]
        example = float(finite[0]) if finite.numel() else float("nan")
        raise ValueError(
            f"{name} adds numbers such as {example:g} to the scores, so it is more than a mask; "
            "use `mask, bias = from_additive(...)` and pass both to attend"
        )
    return visible


def from_additive(attn_mask: Tensor) -> tuple[Mask, Tensor]:
    """Split a float mask that is added to the scores into (mask, bias): −∞ is hidden, all else is the bias (0 where hidden).

    attn_mask: (L, S), (h, L, S), (B|1, h|1, L|1, S|1): both parts broadcast from the right, as `attend` reads them. The bias keeps its
    shape, dtype and gradient.

    Returns the pair (mask, bias). Raises ValueError for a tensor that is not of floats.

    >>> mask, bias = from_additive(torch.tensor([[0.5, -torch.inf], [0.0, 2.0]]))
    >>> mask.dense(2, 2)[0, 0].int().tolist(), bias.tolist()
    ([[1, 0], [1, 1]], [[0.5, 0.0], [0.0, 2.0]])
    """
    additive = _tensor(attn_mask, "attn_mask")
    if not additive.is_floating_point():
        raise ValueError(
            f"an additive mask must be floating point, but got {additive.dtype}; use from_sdpa or from_torch_mha for bool masks"
        )
    if _causal_bias(additive) is not None:
        raise ValueError("attn_mask is a causal bias of torch, which adds no numbers; use from_sdpa for it")
    visible = additive.detach() != -torch.inf
    return dense(visible), additive.masked_fill(~visible, 0.0)


def from_sdpa(attn_mask: Tensor | None) -> Mask:
    """Convert the `attn_mask` of torch's scaled_dot_product_attention: bool with True = visible, or float with −∞ = hidden.

    attn_mask: (L, S), (h, L, S), (B|1, h|1, L|1, S|1) or with more axes in front: read as torch reads it, from the right.
    `is_causal=True` and `torch.nn.attention.bias.causal_upper_left` are `causal(align="start")`, `causal_lower_right` is `causal()`.

    Returns the mask. Raises ValueError for a float mask with numbers other than 0 and −∞: those are a bias, see :func:`from_additive`.

    >>> from_sdpa(torch.tensor([[0.0, -torch.inf]])).dense(1, 2).tolist()
    [[[[True, False]]]]
    """
    if attn_mask is None:
        return everything()
    attn_mask = _tensor(attn_mask, "attn_mask")
    if (named := _causal_bias(attn_mask)) is not None:
        return named
    if attn_mask.dtype == torch.bool:
        return dense(attn_mask)
    if not attn_mask.is_floating_point():
        raise ValueError(
            f"attn_mask must be bool or floating point, but got {attn_mask.dtype}; torch's SDPA refuses it too; convert with .bool()"
        )
    return dense(_visible_in_additive(attn_mask, "attn_mask"))


def from_torch_mha(attn_mask: Tensor | None = None, key_padding_mask: Tensor | None = None, num_heads: int | None = None) -> Mask:
    """Convert the masks of torch.nn.MultiheadAttention and the nn.Transformer layers: bool with True = HIDDEN, or float with −∞.

    attn_mask: (L, S), or (B·h, L, S) with `num_heads`.
    key_padding_mask: (B, S), or (S,) for one sequence; True = padding.
    num_heads: h, needed for an attn_mask of three axes.

    Returns the mask. Raises ValueError for shapes that do not fit together.

    >>> from_torch_mha(torch.tensor([[False, True], [False, False]])).dense(2, 2)[0, 0].int().tolist()
    [[1, 0], [1, 1]]
    """
    mask = everything()
    if attn_mask is not None:
        visible = _visible_in_torch_mha(attn_mask, "attn_mask")
        if visible.ndim == 3:
            if num_heads is None or num_heads < 1 or visible.shape[0] % num_heads:
                raise ValueError(
                    f"attn_mask is (B·h, L, S) with B·h = {visible.shape[0]}, but num_heads is {num_heads}; pass the layer's num_heads"
                )
            visible = visible.reshape(visible.shape[0] // num_heads, num_heads, *visible.shape[1:])
        elif visible.ndim != 2:
            raise ValueError(f"attn_mask must be (L, S) or (B·num_heads, L, S), but got shape {tuple(visible.shape)}")
        mask = mask & dense(visible)
    if key_padding_mask is not None:
        keep = _visible_in_torch_mha(key_padding_mask, "key_padding_mask")
        if keep.ndim not in (1, 2):
            raise ValueError(f"key_padding_mask must be (B, S) or (S,), but got shape {tuple(keep.shape)}")
        mask = mask & padding(keep if keep.ndim == 2 else keep[None])
    return mask


def _visible_in_torch_mha(mask: object, name: str) -> Tensor:
    tensor = _tensor(mask, name)
    if tensor.dtype == torch.bool:
        return ~tensor
    if not tensor.is_floating_point():
        raise ValueError(f"{name} must be bool (True = hidden) or floating point, but got {tensor.dtype}; convert with .bool()")
    return _visible_in_additive(tensor, name)


def from_hf(attention_mask: Tensor | None) -> Mask:
    """Convert the `attention_mask` of transformers: 1 = keep.

    In the additive form 0 is visible; −∞, the dtype's smallest number and anything ≤ −9,999 are hidden.

    attention_mask: (B, S) with 1 = keep, or (B, 1|h, L, S) bool (True = visible) or additive; None: everything is visible.

    Returns the mask. Raises ValueError for another number of axes, or whole numbers other than 0 and 1.

    >>> from_hf(torch.tensor([[1, 1, 0]])).dense(1, 3).int().tolist()
    [[[[1, 1, 0]]]]
    """
    if attention_mask is None:
        return everything()
    attention_mask = _tensor(attention_mask, "attention_mask")
    if attention_mask.ndim not in (2, 4):
        raise ValueError(f"attention_mask must be (B, S) or (B, heads, L, S), but got shape {tuple(attention_mask.shape)}")
    if attention_mask.ndim == 4 and attention_mask.is_floating_point():
        return dense(_visible_in_additive(attention_mask, "attention_mask", LEGACY_MASKED))
    keep = attention_mask != 0
    if attention_mask.dtype != torch.bool and bool((attention_mask != keep).any()):
        raise ValueError(
            "attention_mask holds numbers other than 0 and 1; if they number packed documents, use documents(ids) & padding(ids > 0)"
        )
    return padding(keep) if attention_mask.ndim == 2 else dense(keep)
