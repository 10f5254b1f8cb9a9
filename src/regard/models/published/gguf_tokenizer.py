"""The tokenizer stored in a GGUF file, built with the `tokenizers` package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# GGUF's names of pre-tokenizers, and whether they split numbers into single digits.
_PRE_TOKENIZERS = {"gpt-2": False, "default": False, "smollm": True, "starcoder": True}
_CONTROL = 3  # the token_type of special tokens such as <|im_start|>


def tokenizer_of(settings: Mapping[str, Any], *, where: str) -> Tokenizer:
    """Build a byte-level BPE tokenizer from the `tokenizer.ggml.*` settings of a GGUF file; `where` is its path, for errors."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind, pre_tokenizer = settings.get("tokenizer.ggml.model"), settings.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or pre_tokenizer not in _PRE_TOKENIZERS:
        raise ValueError(
            f"{where} has a tokenizer of the kind {kind!r}, {pre_tokenizer!r}; "
            f"expected byte-level BPE, 'gpt2', with one of {', '.join(map(repr, _PRE_TOKENIZERS))}"
        )
    tokens: list[str] = settings["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in settings["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    digits, byte_level = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level] if _PRE_TOKENIZERS[pre_tokenizer] else [byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    types = settings.get("tokenizer.ggml.token_type", ())
    special = [token for token, kind in zip(tokens, types, strict=False) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer
