"""Convert the arguments of scaled_dot_product_attention, as torch and transformers pass them, to a `Request`.

An `attn_mask` is boolean (True = visible) or a float tensor added to the scores; a `Request` has a mask and a separate bias.

Axes: B batch, h heads, L queries, S keys, d width.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import torch
from torch import Tensor

from ...choices import Softmax
from ...kernels.request import Request
from ...masks import Mask, dense, padding
from ...scores import ScaledDot

MASKED = -9999.0  # additive masks hide a key by −∞, the dtype's lowest number or −10,000
ABSORBING = -1e30  # adding a score to this changes nothing: rounding loses it


class SplitMask(NamedTuple):
    """A boolean or additive mask, split into a mask and a bias."""

    mask: Mask | None = None
    bias: Tensor | None = None
    uniform_rows: Tensor | None = None  # (…, L, 1) bool: rows that hide every key and lose their scores to rounding: all weigh the same


def sdpa_request(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    split: SplitMask,
    *,
    scale: float | None = None,
    cap: float | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
) -> Request:
    """Build the request of a softmax over scaled dot products."""
    choice = Softmax() if sinks is None else Softmax(sinks=sinks)
    mask, bias, uniform_rows = split
    if uniform_rows is not None:  # rows of padding: recorded as rows without keys; `CapturedAttention.uniform_rows` restores their output
        visible = dense((~uniform_rows).expand(*uniform_rows.shape[:-1], key.shape[-2]))
        mask = visible if mask is None else mask & visible
    score = ScaledDot(scale, cap)
    key, value = _same_heads(key, value)
    return Request.of(query, key, value, score=score, mask=mask, bias=bias, choice=choice, dropout=dropout, needs_lse=True)


def _same_heads(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat heads of keys or values if there are more of the others, which torch allows with grouped queries."""
    if min(key.dim(), value.dim()) < 3 or key.shape[-3] == value.shape[-3]:
        return key, value
    k, v = key.shape[-3], value.shape[-3]
    if k < v and v % k == 0:
        return key.repeat_interleave(v // k, -3), value
    return (key, value.repeat_interleave(k // v, -3)) if k % v == 0 else (key, value)


class _MaskCache(threading.local):
    """The mask split last: all layers of a forward pass get the same tensor."""

    attn_mask: Tensor | None = None
    conditions: tuple[object, ...] = ()
    split = SplitMask()


_cache = _MaskCache()


def clear_mask_cache() -> None:
    """Forget the mask split last, so that its memory is freed."""
    _cache.attn_mask, _cache.split = None, SplitMask()


def split_mask(attn_mask: Tensor | None, L: int, S: int, *, lowest: float = MASKED) -> SplitMask:
    """Split a boolean (True = visible) or additive mask into a mask and a bias. Values ≤ `lowest` hide a key.

    A row with a finite value ≤ `lowest` for every key hides none of them: softmax subtracts the common part, and values so low that
    rounding loses the scores make all keys weigh the same.

    >>> split_mask(torch.tensor([[0.0, -1e4], [0.0, 0.0]]), 2, 2).mask.dense(2, 2)[0, 0].int().tolist()
    [[1, 0], [1, 1]]
    """
    if attn_mask is None:
        return SplitMask()
    if attn_mask.requires_grad:
        return _split(attn_mask, L, S, lowest)
    conditions = (attn_mask._version if not attn_mask.is_inference() else 0, L, S, lowest)
    if _cache.attn_mask is not attn_mask or _cache.conditions != conditions:
        _cache.split, _cache.attn_mask, _cache.conditions = _split(attn_mask, L, S, lowest), attn_mask, conditions
    return _cache.split


def _split(attn_mask: Tensor, L: int, S: int, lowest: float) -> SplitMask:
    if attn_mask.dtype == torch.bool:
        return SplitMask(_as_mask(attn_mask, L, S))
    row_max = attn_mask.detach().amax(-1, keepdim=True)
    all_low = (row_max <= lowest) & (row_max > -torch.inf)
    if bool(all_low.any()):
        attn_mask = attn_mask - row_max.masked_fill(~all_low, 0)
    hidden = attn_mask.detach() <= lowest
    bias = attn_mask.masked_fill(hidden, 0.0)
    uniform_rows = all_low & (row_max <= ABSORBING)
    has_bias = bool((bias.detach() != 0).any()) or attn_mask.requires_grad
    return SplitMask(_as_mask(~hidden, L, S), bias if has_bias else None, uniform_rows if bool(uniform_rows.any()) else None)


def _as_mask(visible: Tensor, L: int, S: int) -> Mask | None:
    """Return a boolean tensor (…, L|1, S|1) as a mask, None if all keys are visible; one row for all queries and heads is padding."""
    if bool(visible.all()):
        return None
    if visible.shape[-2] == 1 and visible.dim() in (2, 4):
        rows = visible if visible.dim() == 4 else visible[None, None]
        if rows.shape[1] == 1 or rows.stride(1) == 0 or bool((rows == rows[:, :1]).all()):
            return padding(rows[:, 0, 0].expand(-1, S))
    return dense(visible)
