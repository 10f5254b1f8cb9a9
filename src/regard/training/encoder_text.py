"""How an encoder reads text: with a vocabulary trained here, or with the tokenizer of published weights.

Both give a text's ids with the tokens that mark its beginning and end, and are saved in the folder of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..files import write_text
from ..text.vocabulary import BOS, EOS, MASK, SPECIALS, Vocabulary, Word, read_tokenizer
from .tables import TEXT_VOCABULARY

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER = "tokenizer.json"
MASK_NAMES = ("[MASK]", "<mask>")  # what users write where a token is missing


class EncoderText(Protocol):
    """Text to ids and back. `mask` is the id of the mask token, None if there is none; `special` are the ids that are not text."""

    mask: int | None
    special: frozenset[int]

    def encode_all(self, texts: Sequence[str], context: int) -> list[list[int]]:
        """Return the ids of each text with the beginning and end tokens, at most `context`."""
        ...

    def piece(self, id: int) -> str:
        """Return one token as stored."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""
        ...

    def words(self, ids: Sequence[int]) -> list[Word]:
        """Group ids into words, without special tokens other than the mask."""
        ...

    def save(self, folder: Path) -> None:
        """Write it into the folder of a run."""
        ...


class VocabularyText:
    """A vocabulary trained here; a text is <s> … </s>."""

    mask: int | None = MASK
    special = frozenset(range(len(SPECIALS)))

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def encode_all(self, texts: Sequence[str], context: int) -> list[list[int]]:
        return [[BOS, *ids[: context - 2], EOS] for ids in self.vocabulary.encode_all([text.replace(*MASK_NAMES) for text in texts])]

    def piece(self, id: int) -> str:
        return self.vocabulary.piece(id)

    def decode(self, ids: Sequence[int]) -> str:
        return self.vocabulary.decode(ids)

    def words(self, ids: Sequence[int]) -> list[Word]:
        return [word for word in self.vocabulary.words(ids) if ids[word.start] not in self.special - {MASK}]

    def save(self, folder: Path) -> None:
        if not (folder / TEXT_VOCABULARY).exists():
            self.vocabulary.save(folder / TEXT_VOCABULARY)


class TokenizerText:
    """The tokenizer of a published BERT; a text is [CLS] … [SEP]."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer
        self.mask: int | None = next((id for name in MASK_NAMES if (id := tokenizer.token_to_id(name)) is not None), None)
        self.special = frozenset(id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special)
        self.mask_name = None if self.mask is None else tokenizer.id_to_token(self.mask)

    def encode_all(self, texts: Sequence[str], context: int) -> list[list[int]]:
        if self.mask_name is not None:
            for name in MASK_NAMES:
                texts = [text.replace(name, self.mask_name) for text in texts]
        rows = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        return [row if len(row) <= context else [*row[: context - 1], row[-1]] for row in rows]  # the end token is kept

    def piece(self, id: int) -> str:
        return str(self.tokenizer.id_to_token(id))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True)).removeprefix("##").strip()

    def words(self, ids: Sequence[int]) -> list[Word]:
        words: list[Word] = []
        for place, id in enumerate(ids):
            if id in self.special and id != self.mask:
                continue
            token = self.piece(id)
            if token.startswith("##") and words and words[-1].stop == place:
                words[-1] = Word(words[-1].text + token[2:], words[-1].start, place + 1)
            else:
                words.append(Word(token, place, place + 1))
        return words

    def save(self, folder: Path) -> None:
        write_text(folder / TOKENIZER, self.tokenizer.to_str())


def read_encoder_text(folder: Path) -> EncoderText:
    """Read the vocabulary of a run, or the tokenizer.json of a run or of published weights."""
    if (folder / TEXT_VOCABULARY).is_file():
        return VocabularyText(Vocabulary.load(folder / TEXT_VOCABULARY))
    if not (folder / TOKENIZER).is_file():
        raise ValueError(f"{folder} has neither {TEXT_VOCABULARY} nor {TOKENIZER}, so it cannot read a text; save its tokenizer there")
    return TokenizerText(read_tokenizer(folder / TOKENIZER))
