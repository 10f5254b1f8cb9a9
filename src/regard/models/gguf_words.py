"""The tokenizer inside a GGUF file, made with the `tokenizers` package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# How text is cut before its bytes are merged, by the name GGUF gives it: whether every digit stands alone.
_CUTS = {"gpt-2": False, "default": False, "smollm": True, "starcoder": True}
_CONTROL = 3  # the token_type of marks such as <|im_start|>, which stand for themselves in a text


def tokenizer_of(settings: Mapping[str, Any], *, where: str) -> Tokenizer:
    """A byte-level BPE tokenizer from the `tokenizer.ggml.*` settings of a GGUF file."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind, cut = settings.get("tokenizer.ggml.model"), settings.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or cut not in _CUTS:
        raise ValueError(
            f"{where} has a tokenizer of the kind {kind!r}, {cut!r}; byte-level BPE ('gpt2') cut by {', '.join(map(repr, _CUTS))} is read"
        )
    pieces: list[str] = settings["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in settings["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges))
    digits, by_bytes = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, by_bytes] if _CUTS[cut] else [by_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    types = settings.get("tokenizer.ggml.token_type", ())
    marks = [piece for piece, sort in zip(pieces, types, strict=False) if sort == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in marks])
    return tokenizer
