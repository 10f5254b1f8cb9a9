"""The tokenizer of a GGUF file, from its settings alone."""

import pytest
from tokenizers.pre_tokenizers import ByteLevel

from regard.models.published.gguf_tokenizer import tokenizer_of

PIECES = [*sorted(ByteLevel.alphabet()), "he", "hel", "11", "<|end|>"]
SETTINGS = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": PIECES,
    "tokenizer.ggml.merges": ["h e", "he l", "1 1"],
    "tokenizer.ggml.token_type": [1] * 259 + [3],
}


@pytest.mark.parametrize(("cut", "pieces"), [("smollm", ["hel", "l", "o", "1", "1"]), ("gpt-2", ["hel", "l", "o", "11"])])
def test_merges_and_digits(cut, pieces):
    made = tokenizer_of({**SETTINGS, "tokenizer.ggml.pre": cut}, where="x")
    assert made.encode("hello11").tokens == pieces


@pytest.mark.parametrize("text", ["hello 我爱中国", " two  spaces\n", "naïve é"])
def test_every_text_comes_back(text):
    made = tokenizer_of(SETTINGS, where="x")
    assert made.decode(made.encode(text).ids) == text


def test_marks_stand_for_themselves_and_leave_no_trace():
    made = tokenizer_of(SETTINGS, where="x")
    ids = made.encode("he<|end|>").ids
    assert ids == [256, 259]
    assert made.decode(ids) == "he"


def test_other_kinds_are_named():
    with pytest.raises(ValueError, match="has a tokenizer of the kind 'llama', 'default'"):
        tokenizer_of({**SETTINGS, "tokenizer.ggml.model": "llama"}, where="x.gguf")
