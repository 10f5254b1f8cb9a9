"""Vocabularies of BPE, Unigram, character, word or mixed tokens, trained from lines of text.

A vocabulary wraps a `tokenizers` pipeline and is one JSON file on disk. Spaces are kept as the character "▁", so that joining the
tokens restores the text.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..files import MAX_JSON_BYTES, as_object, read_bytes, read_text, write_text
from .chinese import folding_table

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Kind = Literal["bpe", "unigram", "char", "word", "mixed"]

PAD, BOS, EOS, UNK, MASK = range(5)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>", "<mask>")
SPACE = "▁"
_INSTALL = 'vocabularies need the package "tokenizers": pip install "regard[text]"'


@dataclass(frozen=True)
class Word:
    """Consecutive tokens that form one word: its text, and the positions [start, stop) of its tokens.

    text: the word.
    start, stop: the positions.

    >>> Word("cat", 1, 3).text
    'cat'
    """

    text: str
    start: int
    stop: int


class Vocabulary:
    """A two-way map between text and token ids; ids 0–4 are <pad>, <s>, </s>, <unk> and <mask>.

    tokenizer: of the package tokenizers; `Vocabulary.train` makes one of texts, `Vocabulary.load` reads one.
    kind: "bpe", "unigram", "char", "word" or "mixed".
    fold: characters that are replaced before anything else, such as traditional Chinese ones by simplified ones.

    >>> v = Vocabulary.train(["the cat sat", "the dog sat"], kind="word")
    >>> v.decode(v.encode("the dog sat"))
    'the dog sat'
    >>> len(v)
    9
    """

    def __init__(self, tokenizer: Tokenizer, *, kind: Kind, fold: dict[str, str] | None = None) -> None:
        self.kind = kind
        self.fold = dict(fold or {})
        self._tokenizer = tokenizer
        self._translation = str.maketrans(self.fold)
        self._tokens: list[str] = [str(tokenizer.id_to_token(i)) for i in range(tokenizer.get_vocab_size())]

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        kind: Kind = "bpe",
        size: int = 8000,
        lowercase: bool = False,
        simplify: bool = False,
        min_count: int = 1,
    ) -> Vocabulary:
        """Train a vocabulary of at most `size` tokens on `lines`.

        kind      "bpe" (Sennrich et al. 2016, arXiv:1508.07909), "unigram" (Kudo 2018, arXiv:1804.10959), "char" or "word".
                  For Chinese, "char" makes every character a token; "unigram" finds words and parts of words; "mixed" makes every
                  Chinese character a token and BPE tokens of everything else, for models of both languages.
        lowercase convert all letters to small ones.
        simplify  convert traditional Chinese characters to simplified ones; the table is stored in the vocabulary.
        min_count tokens that occur less often become <unk> (for "char", "word", BPE merges and the characters of "mixed").
        """
        if kind not in get_args(Kind):
            raise ValueError(f"kind is {kind!r}; expected one of {', '.join(get_args(Kind))}")
        if size <= len(SPECIALS):
            raise ValueError(f"size is {size}; expected more than the {len(SPECIALS)} special tokens")
        texts = list(lines)
        fold = folding_table() if simplify else {}
        if fold:
            translation = str.maketrans(fold)
            texts = [text.translate(translation) for text in texts]
        alphabet = _frequent_characters(texts, lowercase, min_count) if kind == "mixed" else None
        tokenizer, trainer = _pipeline(kind, size=size, lowercase=lowercase, min_count=min_count, alphabet=alphabet)
        tokenizer.train_from_iterator(texts, trainer, length=len(texts))
        if kind == "unigram":
            tokenizer = _deterministic(tokenizer)
        characters = {c for token in tokenizer.get_vocab() for c in token}
        # Entries whose simplified form is not in the vocabulary are of no use.
        return cls(tokenizer, kind=kind, fold={old: new for old, new in fold.items() if new in characters})

    def __len__(self) -> int:
        return len(self._tokens)

    def encode(self, text: str) -> list[int]:
        """Return the ids of one text, without <s> and </s>."""
        ids: list[int] = self._tokenizer.encode(self._prepared(text)).ids
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of several texts, computed in parallel."""
        return [e.ids for e in self._tokenizer.encode_batch([self._prepared(t) for t in texts])]

    def _prepared(self, text: str) -> str:
        text = text.translate(self._translation)
        return text.strip() if self.kind == "mixed" else text

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special tokens are left out."""
        return "".join(self._tokens[i] for i in ids if i >= len(SPECIALS)).replace(SPACE, " ").strip(" ")

    def piece(self, id: int) -> str:
        """Return one token as stored, a leading space as "▁"."""
        return self._tokens[id]

    def unknown_characters(self, text: str) -> tuple[list[str], float]:
        """Return the characters of a text that are not in the vocabulary, and their share of the text without its spaces.

        >>> Vocabulary.train(["a cat"], kind="char").unknown_characters("a cab")
        (['b'], 0.25)

        In a vocabulary of words these are the characters of the words that are not in it.

        >>> Vocabulary.train(["a cat"], kind="word").unknown_characters("a cat sat")
        (['a', 's', 't'], 0.42857142857142855)
        """
        characters = [c for c in text if not c.isspace()]
        if self.kind == "word":
            prepared = self._prepared(text)
            encoded = self._tokenizer.encode(prepared)
            spans = [span for id, span in zip(encoded.ids, encoded.offsets, strict=True) if id == UNK]
            of_words = [c for start, end in spans for c in prepared[start:end] if not c.isspace()]
            return sorted(set(of_words)), len(of_words) / max(len(characters), 1)
        unknown = {c for c in set(characters) if UNK in self.encode(c)}
        return sorted(unknown), sum(c in unknown for c in characters) / max(len(characters), 1)

    def words(self, ids: Sequence[int]) -> list[Word]:
        """Group ids into words: tokens of one word are joined; punctuation and Chinese characters are words of their own.

        >>> v = Vocabulary.train(["low lower, lowest"], kind="char")
        >>> [w.text for w in v.words(v.encode("lower, low"))]
        ['lower', ',', 'low']
        """
        words: list[Word] = []
        text, start = "", 0
        for i, id in enumerate(ids):
            special = id < len(SPECIALS)
            token = self._tokens[id] if special else self._tokens[id].replace(SPACE, " ")
            joins = text.strip() and not token.startswith(" ") and not special and _joins(text[-1]) and _joins(token[0])
            if text.strip() and not joins:
                words.append(Word(text.strip(), start, i))
                text, start = "", i
            text += token
        if text.strip():
            words.append(Word(text.strip(), start, len(ids)))
        elif text and words:  # a space at the end belongs to the last word
            words[-1] = Word(words[-1].text, words[-1].start, len(ids))
        return words

    def to_json(self) -> str:
        """Return the vocabulary as JSON."""
        data = {"regard": "vocabulary", "kind": self.kind, "fold": self.fold, "tokenizer": json.loads(self._tokenizer.to_str())}
        return json.dumps(data, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Vocabulary:
        """Build a vocabulary from the output of `to_json`."""
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ImportError(_INSTALL) from error

        data = as_object(text, "this vocabulary")
        if data.get("regard") != "vocabulary":
            raise ValueError('this JSON is not a regard vocabulary: expected "regard": "vocabulary" in it')
        try:
            tokenizer = Tokenizer.from_str(json.dumps(data["tokenizer"]))
            if any(tokenizer.id_to_token(i) is None for i in range(tokenizer.get_vocab_size())):
                raise ValueError("its ids are not 0, 1, 2 …")
            return cls(tokenizer, kind=data["kind"], fold=data["fold"])
        except Exception as error:  # tokenizers raises nothing more specific
            raise ValueError(f"this vocabulary cannot be read ({type(error).__name__}: {str(error)[:200]})") from error

    def save(self, path: str | Path) -> None:
        """Write the vocabulary to a file; a write that fails leaves the old file."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary written by `save`."""
        try:
            return cls.from_json(read_bytes(path, MAX_JSON_BYTES).decode("utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def read_tokenizer(path: str | Path) -> Tokenizer:
    """Return the tokenizer in a tokenizer.json of the tokenizers library."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError(_INSTALL) from error

    text = read_text(path, MAX_JSON_BYTES)
    as_object(text, path)
    try:
        tokenizer = Tokenizer.from_str(text)
        tokenizer.encode("a")  # some damage shows only now
        return tokenizer
    except Exception as error:  # tokenizers raises nothing more specific
        raise ValueError(f"{path} is not a tokenizer of the tokenizers library ({str(error)[:200]})") from error


def _joins(character: str) -> bool:
    """Return whether a character joins its neighbours in a word: letters, digits and marks do, Chinese and punctuation do not."""
    return "CJK" not in unicodedata.name(character, "") and unicodedata.category(character)[0] in "LMN"


def _deterministic(tokenizer: Tokenizer) -> Tokenizer:
    """Return a Unigram tokenizer with its scores rounded and sorted, so that training gives the same result every time.

    The trainer gives rare characters scores just below all others, in an order that changes from run to run; here they get the same score.
    """
    from tokenizers import Tokenizer

    data = json.loads(tokenizer.to_str())
    entries = data["model"]["vocab"][len(SPECIALS) :]
    floor = min((score for token, score in entries if len(token) > 1), default=0.0)
    scores = {token: round(score if len(token) > 1 or score > floor + 0.01 else floor - 1.0, 6) for token, score in entries}
    data["model"]["vocab"][len(SPECIALS) :] = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return Tokenizer.from_str(json.dumps(data))


def _frequent_characters(texts: Sequence[str], lowercase: bool, min_count: int) -> int:
    """Return the number of characters that occur at least `min_count` times."""
    counts = Counter(c for text in texts for c in (text.lower() if lowercase else text))
    return sum(count >= min_count for count in counts.values())


def _pipeline(kind: Kind, *, size: int, lowercase: bool, min_count: int, alphabet: int | None = None) -> tuple[Tokenizer, Any]:
    """Return an untrained tokenizer of this kind and its trainer; `alphabet` is the largest number of characters of "mixed"."""
    try:
        from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
    except ImportError as error:
        raise ImportError(_INSTALL) from error

    specials = list(SPECIALS)
    steps = [normalizers.NFC(), normalizers.Replace(Regex(r"\p{Cf}+"), "")]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if kind == "char":
        tokenizer = Tokenizer(models.WordLevel(vocab={}, unk_token="<unk>"))
        # A character vocabulary keeps line breaks and runs of spaces, because language models are trained on plain text with it.
        tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        trainer: Any = trainers.WordLevelTrainer(vocab_size=size, min_frequency=min_count, special_tokens=specials, show_progress=False)
        return tokenizer, trainer
    if kind == "mixed":
        # The text around a <mask> is encoded as in a text without it: <mask> takes the space before it, as a token with "▁" does, and only
        # the beginning of a text gets a "▁" of its own.
        mask = AddedToken(SPECIALS[MASK], lstrip=True, normalized=False)
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(Regex(r"\s+"), " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first"),
                pre_tokenizers.Punctuation("isolated"),
                pre_tokenizers.Split(Regex(r"\p{Han}"), "isolated"),
            ]
        )
        with_mask = [*specials[:MASK], mask]
        trainer = trainers.BpeTrainer(
            vocab_size=size, min_frequency=max(min_count, 2), special_tokens=with_mask, limit_alphabet=alphabet, show_progress=False
        )
        return tokenizer, trainer
    tokenizer_steps = [*steps, normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    split = [pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always"), pre_tokenizers.Punctuation("isolated")]
    if kind == "word":
        tokenizer = Tokenizer(models.WordLevel(vocab={}, unk_token="<unk>"))
        trainer = trainers.WordLevelTrainer(vocab_size=size, min_frequency=min_count, special_tokens=specials, show_progress=False)
    elif kind == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=min_count, special_tokens=specials, show_progress=False)
    else:
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=specials, unk_token="<unk>", show_progress=False)
    tokenizer.normalizer = normalizers.Sequence(tokenizer_steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    return tokenizer, trainer
