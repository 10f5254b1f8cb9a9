"""Convert tensors to the records that C++ reads: addresses, strides, sizes and numbers.

Axes: B batch, h heads, k key heads, L queries, S keys, R ranges, d width, dv value width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .extension import compiled

if TYPE_CHECKING:
    from regard._native import Pattern, Scores, Spans, View

DTYPES: dict[torch.dtype, str] = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
_TYPES = {} if compiled is None else {dtype: getattr(compiled.Type, name) for dtype, name in DTYPES.items()}


def view(x: Tensor) -> View:
    """The address and strides of a tensor of four axes."""
    return compiled.View(x.data_ptr(), *x.stride())


def address(x: Tensor | None) -> int:
    """The address of a tensor's data; 0 for None."""
    return 0 if x is None else x.data_ptr()


class ScoreRecord(NamedTuple):
    """The first argument of every compiled kernel, and converted tensors that must stay alive while it is used."""

    scores: Scores
    key_bias: Tensor | None  # float32 (B, h, 1, S)
    sinks: Tensor | None  # float32 (h,)


def score_record(
    query: Tensor,  # (B, h, L, d)
    key: Tensor,  # (B, k, S, d)
    value: Tensor,  # (B, k, S, dv)
    *,
    key_bias: Tensor | None = None,  # (B, k, S)
    sinks: Tensor | None = None,  # (h,)
    mask: Tensor | None = None,  # as returned by `masks.kernel_mask`
    scale: float = 1.0,
    cap: float = 0.0,
    beta: float = 1.0,
    dropout: float = 0.0,
    seed: int = 0,
) -> ScoreRecord:
    """The scores β · cap(scale · q·k + key_bias) over the visible keys, as C++ reads them. cap 0 means none."""
    B, h, L, d = query.shape
    k, S = key.shape[1:3]
    if key_bias is not None:
        if k != h:
            key_bias = key_bias.repeat_interleave(h // k, 1)
        key_bias = key_bias.detach().float().unsqueeze(2)
    if sinks is not None:
        sinks = sinks.detach().float().contiguous()
    spans, pattern = _mask_records(mask)
    record = compiled.Scores(
        _TYPES[query.dtype],
        B,
        h,
        k,
        L,
        S,
        d,
        value.shape[3],
        view(query),
        view(key),
        view(value),
        None if key_bias is None else view(key_bias),
        spans,
        pattern,
        address(sinks),
        scale,
        cap,
        beta,
        dropout,
        seed,
    )
    return ScoreRecord(record, key_bias, sinks)


def _mask_records(mask: Tensor | None) -> tuple[Spans | None, Pattern | None]:
    """Ranges, int32 (B|1, h|1, L, R, 2), or a pattern, bool (B|1, h|1, L, S); broadcast axes get a stride of 0."""
    if mask is None:
        return None, None
    batch, head, row = (stride if size > 1 else 0 for stride, size in zip(mask.stride()[:3], mask.shape[:3], strict=True))
    if mask.dtype == torch.bool:
        return None, compiled.Pattern(mask.data_ptr(), batch, head, row, mask.stride(3))
    return compiled.Spans(mask.data_ptr(), batch, head, row, mask.stride(3), mask.shape[3]), None


def empty_output(query: Tensor, width: int) -> Tensor:
    """Uninitialised (B, h, L, dv) with the query's memory layout: (B, L, h, d) in memory lets heads be merged without a copy."""
    B, h, L, _ = query.shape
    if query.stride(1) < query.stride(2):
        return query.new_empty(B, L, h, width).transpose(1, 2)
    return query.new_empty(B, h, L, width)


__all__ = ["DTYPES", "ScoreRecord", "address", "empty_output", "score_record", "view"]
