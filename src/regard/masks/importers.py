"""Masks as other libraries write them, turned to ours: True = may look.

Each importer gives a Mask. Additive (float) masks that hold nothing but 0 and −∞ are masks; one that also holds other numbers is a mask
and a bias at once, and `from_additive` takes it apart.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.masks.mask import Mask, everything
from regard.masks.stored import dense, padding

LEGACY_MASKED = -9999.0
"""Transformers has written "may not look" as −∞, the dtype's lowest number, and −10,000."""


def _tensor(given: object, name: str) -> Tensor:
    if not isinstance(given, Tensor):
        raise ValueError(f"{name} must be a tensor, but got {type(given).__name__}")
    return given


def _switches(additive: Tensor, name: str, lowest: float = -torch.inf) -> Tensor:
    """The bool pattern of an additive mask that carries no bias."""
    may = additive > lowest
    if bool(((additive != 0) & may).any()) or bool(additive.isnan().any()):
        finite = additive[may & (additive != 0)]
        example = float(finite[0]) if finite.numel() else float("nan")
        raise ValueError(
            f"{name} adds numbers such as {example:g} to the scores, so it is more than a mask; "
            "use `mask, bias = from_additive(...)` and pass both to attend"
        )
    return may


def from_additive(attn_mask: Tensor) -> tuple[Mask, Tensor]:
    """A float mask that is added to the scores → (mask, bias): −∞ may not look, all else is the bias (0 where masked).

    attn_mask: (L, S), (B, L, S) or (B|1, h|1, L, S). The bias keeps its shape, dtype and gradient.

    >>> mask, bias = from_additive(torch.tensor([[0.5, -torch.inf], [0.0, 2.0]]))
    >>> mask.dense(2, 2)[0, 0].int().tolist(), bias.tolist()
    ([[1, 0], [1, 1]], [[0.5, 0.0], [0.0, 2.0]])
    """
    given = _tensor(attn_mask, "attn_mask")
    if not given.is_floating_point():
        raise ValueError(f"an additive mask must be floating point, but got {given.dtype}; use from_sdpa or from_torch_mha for bool masks")
    may = given.detach() != -torch.inf
    return dense(may), given.masked_fill(~may, 0.0)


def from_sdpa(attn_mask: Tensor | None) -> Mask:
    """The `attn_mask` of torch's scaled_dot_product_attention: bool True = may look, or float with −∞ = may not.

    attn_mask: (L, S), (B, L, S) or (B|1, h|1, L, S). `is_causal=True` is `causal(align="start")`.

    >>> from_sdpa(torch.tensor([[0.0, -torch.inf]])).dense(1, 2).tolist()
    [[[[True, False]]]]
    """
    if attn_mask is None:
        return everything()
    given = _tensor(attn_mask, "attn_mask")
    if given.dtype == torch.bool:
        return dense(given)
    if not given.is_floating_point():
        raise ValueError(
            f"attn_mask must be bool or floating point, but got {given.dtype}; torch's SDPA refuses it too; convert with .bool()"
        )
    return dense(_switches(given, "attn_mask"))


def from_torch_mha(attn_mask: Tensor | None = None, key_padding_mask: Tensor | None = None, num_heads: int | None = None) -> Mask:
    """The masks of torch.nn.MultiheadAttention and the nn.Transformer layers: bool True = may NOT look, or float with −∞.

    attn_mask: (L, S), or (B·h, L, S) with `num_heads` = h. key_padding_mask: (B, S), or (S,) for one sequence; True = padding.

    >>> from_torch_mha(torch.tensor([[False, True], [False, False]])).dense(2, 2)[0, 0].int().tolist()
    [[1, 0], [1, 1]]
    """
    mask = everything()
    if attn_mask is not None:
        may = _torch_may(attn_mask, "attn_mask")
        if may.ndim == 3:
            if num_heads is None or num_heads < 1 or may.shape[0] % num_heads:
                raise ValueError(
                    f"attn_mask is (B·h, L, S) with B·h = {may.shape[0]}, but num_heads is {num_heads}; pass the layer's num_heads"
                )
            may = may.reshape(may.shape[0] // num_heads, num_heads, *may.shape[1:])
        elif may.ndim != 2:
            raise ValueError(f"attn_mask must be (L, S) or (B·num_heads, L, S), but got shape {tuple(may.shape)}")
        mask = mask & dense(may)
    if key_padding_mask is not None:
        keep = _torch_may(key_padding_mask, "key_padding_mask")
        if keep.ndim not in (1, 2):
            raise ValueError(f"key_padding_mask must be (B, S) or (S,), but got shape {tuple(keep.shape)}")
        mask = mask & padding(keep if keep.ndim == 2 else keep[None])
    return mask


def _torch_may(given: object, name: str) -> Tensor:
    found = _tensor(given, name)
    if found.dtype == torch.bool:
        return ~found
    if not found.is_floating_point():
        raise ValueError(f"{name} must be bool (True = may not look) or floating point, but got {found.dtype}; convert with .bool()")
    return _switches(found, name)


def from_hf(attention_mask: Tensor | None) -> Mask:
    """The `attention_mask` of transformers: (B, S) with 1 = keep, or (B, 1|h, L, S) bool (True = may look) or additive.

    In the additive form 0 may look, and −∞, the dtype's lowest number or anything ≤ −9,999 may not.

    >>> from_hf(torch.tensor([[1, 1, 0]])).dense(1, 3).int().tolist()
    [[[[1, 1, 0]]]]
    """
    if attention_mask is None:
        return everything()
    given = _tensor(attention_mask, "attention_mask")
    if given.ndim not in (2, 4):
        raise ValueError(f"attention_mask must be (B, S) or (B, heads, L, S), but got shape {tuple(given.shape)}")
    if given.ndim == 4 and given.is_floating_point():
        return dense(_switches(given, "attention_mask", LEGACY_MASKED))
    keep = given != 0
    if given.dtype != torch.bool and bool((given != keep).any()):
        raise ValueError(
            "attention_mask holds numbers other than 0 and 1; if they number packed documents, use documents(ids) & padding(ids > 0)"
        )
    return padding(keep) if given.ndim == 2 else dense(keep)
