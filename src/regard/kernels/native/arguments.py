"""Convert tensors to the records that C++ reads: addresses, strides, sizes and numbers.

Axes: B batch, h heads, k key heads, L queries, S keys, R ranges, d width, dv value width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .extension import compiled

if TYPE_CHECKING:
    from regard._native import Pattern, Scores, Spans, Type, View

DTYPES: dict[torch.dtype, str] = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
TYPES = {} if compiled is None else {dtype: getattr(compiled.Type, name) for dtype, name in DTYPES.items()}
_KINDS = {} if compiled is None else {name: getattr(compiled.ScoreKind, name) for name in ("dot", "additive", "gaussian")}


def view(x: Tensor) -> View:
    """The address and strides of a tensor of four axes."""
    return compiled.View(x.data_ptr(), *x.stride())


def address(x: Tensor | None) -> int:
    """The address of a tensor's data; 0 for None."""
    return 0 if x is None else x.data_ptr()


class ScoreRecord(NamedTuple):
    """The first argument of every compiled kernel, and converted tensors that must stay alive while it is used."""

    scores: Scores
    sinks: Tensor | None  # float32 (h,)
    others: tuple[Tensor | None, ...]


def score_record(
    query: Tensor,  # (B, h, L, d)
    key: Tensor,  # (B, k, S, d)
    value: Tensor,  # (B, k, S, dv)
    *,
    key_bias: Tensor | None = None,  # (B, k, S)
    bias: Tensor | None = None,  # (B|1, h|1, L|1, S|1), or `Bias.diagonals`, (h|1, L + S − 1)
    sinks: Tensor | None = None,  # (h,)
    betas: Tensor | None = None,  # () or (h,), in place of beta
    vector: Tensor | None = None,  # (d,): the score is additive
    kind: str = "dot",
    mask: Tensor | None = None,  # as returned by `masks.kernel_mask`
    scale: float = 1.0,
    cap: float = 0.0,
    beta: float = 1.0,
    dropout: float = 0.0,
    seed: int = 0,
) -> ScoreRecord:
    """The scores β · (cap(scale · q·k + key_bias) + bias) over the visible keys, as C++ reads them. cap 0 means none."""
    B, h, L, d = query.shape
    k, S = key.shape[1:3]
    if key_bias is not None:
        if k != h:
            key_bias = key_bias.repeat_interleave(h // k, 1)
        key_bias = key_bias.detach().float().unsqueeze(2)
    if sinks is not None:
        sinks = sinks.detach().float().contiguous()
    if betas is not None:
        betas = betas.detach().float().expand(h).contiguous()
    if vector is not None:
        vector = vector.float().contiguous()
    bias, bias_view, bias_type = _bias_record(bias, L)
    spans, pattern = _mask_records(mask)
    record = compiled.Scores(
        TYPES[query.dtype],
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
        bias_view,
        bias_type,
        spans,
        pattern,
        address(sinks),
        address(betas),
        _KINDS[kind],
        address(vector),
        scale,
        cap,
        beta,
        dropout,
        seed,
    )
    return ScoreRecord(record, sinks, (key_bias, bias, betas, vector))


def _bias_record(bias: Tensor | None, L: int) -> tuple[Tensor | None, View | None, Type]:
    """The bias, in a dtype that C++ reads; its address and strides, 0 along broadcast axes; and its dtype."""
    if bias is None:
        return None, None, TYPES[torch.float32]
    bias = bias.detach() if bias.dtype in DTYPES else bias.detach().float()
    if bias.dim() == 2:
        bias = bias.float().contiguous()
        return bias, diagonal_view(bias, bias.stride(0) if bias.shape[0] > 1 else 0, L), TYPES[torch.float32]
    return bias, broadcast_view(bias), TYPES[bias.dtype]


def broadcast_view(x: Tensor) -> View:
    """The address and strides of a tensor of four axes; 0 where an axis has size 1."""
    return compiled.View(x.data_ptr(), *(stride if size > 1 else 0 for stride, size in zip(x.stride(), x.shape, strict=True)))


def diagonal_view(diagonals: Tensor, head: int, L: int, batch: int = 0) -> View:
    """Vectors of L + S − 1 numbers as C++ reads them, as (B, h, L, S): a step along a row moves forwards, one down a column backwards."""
    return compiled.View(diagonals.data_ptr() + (L - 1) * diagonals.element_size(), batch, head, -1, 1)


def _mask_records(mask: Tensor | None) -> tuple[Spans | None, Pattern | None]:
    """Ranges, int32 (B|1, h|1, L, R, 2), or a pattern, bool (B|1, h|1, L, S); broadcast axes get a stride of 0."""
    if mask is None:
        return None, None
    sizes, strides = mask.shape, mask.stride()
    batch, head, row = strides[0] if sizes[0] > 1 else 0, strides[1] if sizes[1] > 1 else 0, strides[2] if sizes[2] > 1 else 0
    if mask.dtype == torch.bool:
        return None, compiled.Pattern(mask.data_ptr(), batch, head, row, strides[3])
    return compiled.Spans(mask.data_ptr(), batch, head, row, strides[3], sizes[3]), None


def empty_output(query: Tensor, width: int) -> Tensor:
    """Uninitialised (B, h, L, dv) with the query's memory layout: (B, L, h, d) in memory lets heads be merged without a copy."""
    B, h, L, _ = query.shape
    if query.stride(1) < query.stride(2):
        return query.new_empty(B, L, h, width).transpose(1, 2)
    return query.new_empty(B, h, L, width)


__all__ = ["DTYPES", "TYPES", "ScoreRecord", "address", "broadcast_view", "diagonal_view", "empty_output", "score_record", "view"]
