"""Recover queries and keys from scores that a model computed itself, so that weights are recomputed from them and not from the scores.

Axes: B batch, h heads, L queries, S keys, d width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...choices import Softmax
from ...kernels.request import Request
from ...masks import dense
from .contractions import Arrangement, Contraction
from .trails import Product

_CHECKED_ROWS = 8
_MASKED = -900.0  # an added number as low masks a key


def recovered_request(product: Product | None, arrangement: Arrangement, scores: Tensor, value: Tensor) -> Request | None:
    """Return scale · q·kᵀ + bias as a request, if it reproduces the scores (B, h, L, S) where they are visible; None otherwise."""
    if product is None or not arrangement.shape[3]:
        return None
    factors = _queries_and_keys(product.factors, arrangement)
    if factors is None:
        return None
    query, key = factors
    try:
        bias = _bias(product, arrangement.shape)
    except RuntimeError:  # shapes that do not broadcast to (B, h, L, S)
        return None
    largest = scores.detach().amax(-1, keepdim=True)
    visible = (scores.detach() - largest >= _MASKED) & (largest > -1e30)
    if not _reproduces(scores.detach(), visible, query.detach(), key.detach(), bias, product.scale):
        return None
    rows_lost = bool((~visible).all(-1).any())  # their weights do not follow from queries and keys
    if rows_lost:
        return None
    mask = None if bool(visible.all()) else dense(_smallest(visible))
    return Request(query, key, value, Softmax(), scale=product.scale, mask=mask, bias=bias, needs_lse=True)


def _queries_and_keys(c: Contraction, arrangement: Arrangement) -> tuple[Tensor, Tensor] | None:
    """Return the factors of the scores as (B, h, L, d) and (B, h, S, d); None if their axes are not those of a plain product."""
    B, h, L, S = arrangement.shape
    if c.left_axes[-2:] != ("i", "k"):
        return _from_einsum(c, (B, h, L, S))
    if c.right.dim() < 2:
        return None
    query, key = c.left, c.right.mT
    if query.shape[-2:] != (L, query.shape[-1]) or key.shape[-2] != S:
        return None
    lead = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    if lead.numel() != B * h or (len(lead) > 1 and lead[-1] != h):
        return None
    return tuple(x.expand(*lead, *x.shape[-2:]).reshape(B, h, *x.shape[-2:]) for x in (query, key))  # type: ignore[return-value]


def _from_einsum(c: Contraction, sizes: tuple[int, int, int, int]) -> tuple[Tensor, Tensor] | None:
    """The same for einsum("bhid,bhjd->bhij") and its like, whose result has the axes batch, head, query, key in this order."""
    if len(c.out_axes) != 4 or set(c.left_axes) & set(c.right_axes) != {*c.out_axes[:2], *(set(c.left_axes) - set(c.out_axes))}:
        return None
    summed = [a for a in c.left_axes if a not in c.out_axes]
    batch, head, row, column = c.out_axes
    if len(summed) != 1 or row not in c.left_axes or column not in c.right_axes:
        return None
    query = c.left.permute([c.left_axes.index(a) for a in (batch, head, row, summed[0])])
    key = c.right.permute([c.right_axes.index(a) for a in (batch, head, column, summed[0])])
    fits = query.shape[:3] == sizes[:3] and key.shape[:3] == (*sizes[:2], sizes[3])
    return (query, key) if fits else None


def _bias(product: Product, sizes: tuple[int, int, int, int]) -> Tensor | None:
    """Return the sum of what was added to the product, (B|1, h|1, L|1, S|1), without masked keys; None if that is zero."""
    B, h = sizes[:2]
    total: Tensor | None = None
    for factor, x in product.added:
        if x.dim() == 3 and x.shape[0] == B * h and B * h > 1:
            x = x.reshape(B, h, *x.shape[1:])
        x = x.reshape((1,) * (4 - x.dim()) + tuple(x.shape)) if x.dim() < 4 else x
        if x.dim() != 4 or any(n not in (1, size) for n, size in zip(x.shape, sizes, strict=True)):
            raise RuntimeError("an added tensor does not broadcast")
        x = x.masked_fill(x < _MASKED, 0.0) * factor if x.is_floating_point() else x * factor
        total = x if total is None else total + x
    return None if total is None or not bool((total.detach() != 0).any()) else total


def _reproduces(scores: Tensor, visible: Tensor, query: Tensor, key: Tensor, bias: Tensor | None, scale: float) -> bool:
    """Compare a few rows of every head with the scores."""
    L = scores.shape[2]
    rows = torch.arange(0, L, max(1, L // _CHECKED_ROWS), device=scores.device)
    made = (query.index_select(2, rows).float() * scale) @ key.float().mT
    if bias is not None:
        made = made + (bias if bias.shape[2] == 1 else bias.index_select(2, rows)).float()
    expected, seen = scores.index_select(2, rows).float(), visible.index_select(2, rows)
    tolerance = 1e-4 if scores.dtype in (torch.float32, torch.float64) and query.dtype != torch.bfloat16 else 5e-2
    error = (made - expected).abs() / (1 + expected.abs())
    return bool((error.masked_fill(~seen, 0) <= tolerance).all())


def _smallest(visible: Tensor) -> Tensor:
    """Drop the batch and head axes along which a mask does not differ."""
    for axis in (1, 0):
        first = visible.narrow(axis, 0, 1)
        if visible.shape[axis] > 1 and bool((visible == first).all()):
            visible = first
    return visible
