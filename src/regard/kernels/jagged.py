"""Jagged nested tensors: sequences of different lengths without padding, run as packed documents.

Axes: B sequences, h heads, d width; N all positions of all sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..masks import documents, everything

Packed = tuple[Tensor, Tensor, Tensor, dict[str, Any], Callable[[Tensor], Tensor]]


def pack(query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any]) -> Packed:
    """Jagged (B, h, length, d), as torch's SDPA takes them, as one packed sequence (1, h, N, d); and how to unpack the output.

    A mask must be the same for every sequence, whatever its length: causal() or a window, where queries and keys have equal lengths.
    """
    if not (query.is_nested and key.is_nested and value.is_nested):
        raise ValueError("some of query, key and value are nested tensors and some are not; pass all three jagged or none")
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.layout != torch.jagged or x.dim() != 4:
            raise ValueError(
                f"{name} is a nested tensor of {x.dim()} axes and layout {x.layout}; expected torch.jagged (batch, heads, length, d)"
            )
    if options.get("bias") is not None:
        raise ValueError("a bias by position has no meaning for jagged tensors, whose positions start anew in every sequence; pad them")
    queries, keys = query.transpose(1, 2), key.transpose(1, 2)  # (B, length, h, d)
    same = torch.equal(_offsets(queries), _offsets(keys))
    own = documents(_ids(queries)) if same else documents(_ids(queries), _ids(keys))
    mask = options.get("mask")
    if mask is not None and mask != everything() and (not same or mask.lead != (1, 1) or mask.size != (None, None)):
        raise ValueError(
            f"mask={mask!r} cannot be read in packed sequences; use causal() or a window with equal lengths of queries and keys"
        )
    packed = tuple(x.transpose(1, 2).values().transpose(0, 1).unsqueeze(0) for x in (query, key, value))

    def unpack(output: Tensor) -> Tensor:  # (1, h, N, dv)
        flat = output.squeeze(0).transpose(0, 1)
        nested: Tensor = torch.nested.nested_tensor_from_jagged(flat, _offsets(queries))
        return nested.transpose(1, 2)

    return *packed, {**options, "mask": own if mask is None else own & mask}, unpack  # type: ignore[return-value]


def _offsets(x: Tensor) -> Tensor:
    offsets: Tensor = x.offsets()  # type: ignore[attr-defined]  # of a nested tensor
    return offsets


def _ids(x: Tensor) -> Tensor:
    """The number of the sequence each packed position belongs to, (N,)."""
    lengths = _offsets(x).diff()
    return torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)


__all__ = ["pack"]
