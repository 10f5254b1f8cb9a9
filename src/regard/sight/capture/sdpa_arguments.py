"""The arguments of scaled_dot_product_attention, as torch and transformers give them, as one of our requests.

Their masks are boolean (True = visible) or numbers added to the scores; ours is a mask and, apart from it, a bias.

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
ABSORBING = -1e30  # a score added to this is lost


class SplitMask(NamedTuple):
    """A boolean or additive mask, split into parts."""

    mask: Mask | None = None
    bias: Tensor | None = None
    flat: Tensor | None = None  # (…, L, 1) bool: rows whose scores are lost, so that all keys count alike


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
    """A softmax of scaled dot products as a request."""
    choice = Softmax() if sinks is None else Softmax(sinks=sinks)
    mask, bias, flat = split
    if flat is not None and sinks is not None:  # the sink, which nothing was added to, takes all
        visible = dense((~flat).expand(*flat.shape[:-1], key.shape[-2]))
        mask = visible if mask is None else mask & visible
    elif flat is not None:
        query = query.masked_fill(flat, 0.0)
        bias = None if bias is None else bias.masked_fill(flat, 0.0)
    score = ScaledDot(scale, cap)
    return Request.of(query, key, value, score=score, mask=mask, bias=bias, choice=choice, dropout=dropout, needs_lse=True)


class _MaskCache(threading.local):
    """The mask last split: all layers of a pass are given the same tensor."""

    attn_mask: Tensor | None = None
    conditions: tuple[object, ...] = ()
    split = SplitMask()


_cache = _MaskCache()


def clear_mask_cache() -> None:
    """Let go of the mask last split."""
    _cache.attn_mask, _cache.split = None, SplitMask()


def split_mask(attn_mask: Tensor | None, L: int, S: int, *, lowest: float = MASKED) -> SplitMask:
    """Split a boolean (True = visible) or additive mask into a mask and a bias. Numbers at or under `lowest` hide a key.

    A row that hides every key by finite numbers hides none: the numbers cancel, or swallow the scores and leave all keys alike.

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
    top = attn_mask.detach().amax(-1, keepdim=True)
    low = (top <= lowest) & (top > -torch.inf)
    if bool(low.any()):
        attn_mask = attn_mask - top.masked_fill(~low, 0)
    hidden = attn_mask.detach() <= lowest
    rest = attn_mask.masked_fill(hidden, 0.0)
    flat = low & (top <= ABSORBING)
    has_bias = bool((rest.detach() != 0).any()) or attn_mask.requires_grad
    return SplitMask(_as_mask(~hidden, L, S), rest if has_bias else None, flat if bool(flat.any()) else None)


def _as_mask(visible: Tensor, L: int, S: int) -> Mask | None:
    """A boolean pattern (…, L|1, S|1) as a mask; one row for all queries is padding."""
    if bool(visible.all()):
        return None
    visible = visible.expand(*visible.shape[:-1], S)
    if visible.shape[-2] == 1 and L != 1:
        rows = visible.reshape(-1, 1, 1, S) if visible.dim() < 4 else visible
        if rows.shape[1] == 1 or rows.stride(1) == 0 or bool((rows == rows[:, :1]).all()):
            return padding(rows[:, 0, 0])
        visible = visible.expand(*visible.shape[:-2], L, S)
    return dense(visible)
