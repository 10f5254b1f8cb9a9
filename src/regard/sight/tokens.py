"""Token ids as a tokeniser's pieces."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def pieces(ids: Tensor, tokenizer: Any) -> list[list[str]]:
    """Ids (B, L) as pieces, per batch item: by a transformers tokenizer, one of ours, a function of an id, or else as numbers.

    >>> import torch
    >>> pieces(torch.tensor([[7, 8]]), None)
    [['7', '8']]
    """
    rows = ids.tolist()
    if tokenizer is None:
        return [[str(i) for i in row] for row in rows]
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return [[piece if isinstance(piece, str) else str(piece) for piece in tokenizer.convert_ids_to_tokens(row)] for row in rows]
    name = tokenizer.piece if hasattr(tokenizer, "piece") else tokenizer
    return [[str(name(i)) for i in row] for row in rows]
