"""The token ids a model was called with: taken from its arguments, joined over decoding steps, and turned into strings.

Axes: B batch, L tokens.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .trails import is_readable

# Arguments of integers, one for each token, that are not tokens.
_NOT_TOKENS = re.compile(r"^decoder_|mask|position|type|segment|label|cache|length|bbox|index", re.IGNORECASE)


class ForwardIds(NamedTuple):
    """The ids of one forward pass."""

    ids: Tensor | None  # (B, L): the tokens of the queries
    source: Tensor | None  # (B, S): the source of an encoder–decoder


def ids_of_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ForwardIds:
    """Return the token ids among the arguments of a model's call."""

    def is_ids(x: Any) -> bool:
        return isinstance(x, Tensor) and x.dim() == 2 and x.dtype in (torch.int64, torch.int32) and is_readable(x)

    input_ids = kwargs.get("input_ids")
    target = kwargs.get("decoder_input_ids")
    named = () if input_ids is not None else (x for name, x in kwargs.items() if not _NOT_TOKENS.search(name))
    unnamed = [x for x in (*args, *named) if is_ids(x)]
    if target is not None:
        return ForwardIds(target, input_ids if is_ids(input_ids) else (unnamed[0] if unnamed else None))
    if is_ids(input_ids):
        return ForwardIds(input_ids, None)
    return ForwardIds(unnamed[0] if unnamed else None, None)


def continues(text: Tensor | None, ids: Tensor, stop: int | None) -> bool:
    """Return whether a forward pass over `ids` whose last query is at position `stop` − 1 continues `text`, as a decoding step does."""
    return text is not None and stop == text.shape[1] + ids.shape[1] and text.shape[0] == ids.shape[0]


def token_strings(ids: Tensor, tokenizer: Any) -> list[list[str]]:
    """Turn ids (B, L) into one list of tokens per batch item.

    tokenizer: of transformers, one of regard's vocabularies, a function of an id, or None to show the ids themselves.

    >>> token_strings(torch.tensor([[7, 8]]), None)
    [['7', '8']]
    """
    rows = ids.tolist()
    if tokenizer is None:
        return [[str(i) for i in row] for row in rows]
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return [[token if isinstance(token, str) else str(token) for token in tokenizer.convert_ids_to_tokens(row)] for row in rows]
    to_token = tokenizer.piece if hasattr(tokenizer, "piece") else tokenizer
    return [[str(to_token(i)) for i in row] for row in rows]
