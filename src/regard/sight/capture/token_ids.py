"""The token ids a model was called with: found in its arguments, joined over the steps of a generation, and written as strings.

Axes: B batch, L tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class ForwardIds(NamedTuple):
    """The ids of one forward pass."""

    ids: Tensor | None  # (B, L): what the queries are made from
    source: Tensor | None  # (B, S): the source of an encoder–decoder


def ids_of_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ForwardIds:
    """The token ids among the arguments of a model's call."""

    def is_ids(x: Any) -> bool:
        return isinstance(x, Tensor) and x.dim() == 2 and x.dtype in (torch.int64, torch.int32)

    input_ids = kwargs.get("input_ids")
    target = kwargs.get("decoder_input_ids")
    unnamed = [x for x in (*args, *(() if input_ids is not None else kwargs.values())) if is_ids(x)]
    if target is not None:
        return ForwardIds(target, input_ids if is_ids(input_ids) else (unnamed[0] if unnamed else None))
    if is_ids(input_ids):
        return ForwardIds(input_ids, None)
    return ForwardIds(unnamed[0] if unnamed else None, None)


def continues(text: Tensor | None, ids: Tensor, keys: int | None) -> bool:
    """Whether a pass over `ids` that attends to this many keys goes on with the text before it, as a step of a generation does."""
    return text is not None and keys == text.shape[1] + ids.shape[1] and text.shape[0] == ids.shape[0]


def token_strings(ids: Tensor, tokenizer: Any) -> list[list[str]]:
    """Ids (B, L) as tokens, per batch item: by a transformers tokenizer, one of ours, a function of an id, or else as numbers.

    >>> token_strings(torch.tensor([[7, 8]]), None)
    [['7', '8']]
    """
    rows = ids.tolist()
    if tokenizer is None:
        return [[str(i) for i in row] for row in rows]
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return [[token if isinstance(token, str) else str(token) for token in tokenizer.convert_ids_to_tokens(row)] for row in rows]
    name = tokenizer.piece if hasattr(tokenizer, "piece") else tokenizer
    return [[str(name(i)) for i in row] for row in rows]
