"""Pieces of text and their numbers: BPE, Unigram, characters or words, trained from the user's own lines.

Every kind is a `tokenizers` pipeline underneath and one JSON file on disk. A space is kept as the visible mark "▁" at the
beginning of a word, so that joining the pieces gives the text back.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..files import write_text
from .chinese import folding_table

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Kind = Literal["bpe", "unigram", "char", "word"]

PAD, BOS, EOS, UNK, MASK = range(5)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>", "<mask>")
SPACE = "▁"
_NEEDED = 'vocabularies need the package "tokenizers": pip install "regard[text]"'


@dataclass(frozen=True)
class Word:
    """A run of pieces a reader sees as one word: its text, and the positions [start, stop) of its pieces."""

    text: str
    start: int
    stop: int


class Vocabulary:
    """A two-way map between text and token ids; ids 0–4 are <pad>, <s>, </s>, <unk> and <mask>.

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
        self._pieces: list[str] = [str(tokenizer.id_to_token(i)) for i in range(tokenizer.get_vocab_size())]

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
        """Learn a vocabulary of at most `size` pieces from `lines`.

        kind      "bpe" (Sennrich et al. 2016, arXiv:1508.07909), "unigram" (Kudo 2018, arXiv:1804.10959), "char" or "word".
                  Chinese: "char" gives one token a character; "unigram" finds words and parts of words.
        simplify  fold traditional Chinese characters into simplified ones; the table travels inside the vocabulary.
        min_count pieces seen less often become <unk> (for "char" and "word" and BPE merges).
        """
        if kind not in get_args(Kind):
            raise ValueError(f"kind is {kind!r}; expected one of {', '.join(get_args(Kind))}")
        if size <= len(SPECIALS):
            raise ValueError(f"size is {size}; a vocabulary needs more than its {len(SPECIALS)} special tokens")
        texts = list(lines)
        fold = folding_table() if simplify else {}
        if fold:
            translation = str.maketrans(fold)
            texts = [text.translate(translation) for text in texts]
        tokenizer, trainer = _pipeline(kind, size=size, lowercase=lowercase, min_count=min_count)
        tokenizer.train_from_iterator(texts, trainer, length=len(texts))
        if kind == "unigram":
            tokenizer = _settled(tokenizer)
        known = {c for piece in tokenizer.get_vocab() for c in piece}
        # Only the entries that lead to a known character are worth carrying.
        return cls(tokenizer, kind=kind, fold={old: new for old, new in fold.items() if new in known})

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Ids of one text, without <s> and </s>."""
        ids: list[int] = self._tokenizer.encode(text.translate(self._translation)).ids
        return ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, in parallel."""
        return [e.ids for e in self._tokenizer.encode_batch([t.translate(self._translation) for t in texts])]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids; the special tokens leave no trace."""
        return "".join(self._pieces[i] for i in ids if i >= len(SPECIALS)).replace(SPACE, " ").strip(" ")

    def piece(self, id: int) -> str:
        """One token as it is stored, a leading space shown as "▁"."""
        return self._pieces[id]

    def unknown_characters(self, text: str) -> tuple[list[str], float]:
        """The characters of a text that were never seen in training, and their share of it; spaces do not count.

        >>> Vocabulary.train(["a cat"], kind="char").unknown_characters("a cab")
        (['b'], 0.25)
        """
        characters = [c for c in text if not c.isspace()]
        unknown = {c for c in set(characters) if UNK in self.encode(c)}
        return sorted(unknown), sum(c in unknown for c in characters) / max(len(characters), 1)

    def words(self, ids: Sequence[int]) -> list[Word]:
        """The ids grouped as people read them: pieces of one word joined, punctuation and Chinese characters apart.

        >>> v = Vocabulary.train(["low lower, lowest"], kind="char")
        >>> [w.text for w in v.words(v.encode("lower, low"))]
        ['lower', ',', 'low']
        """
        words: list[Word] = []
        text, start = "", 0
        for i, id in enumerate(ids):
            piece = self._pieces[id]
            bare = piece if id < len(SPECIALS) else piece.replace(SPACE, " ")
            joins = text.strip() and not bare.startswith(" ") and id >= len(SPECIALS) and _sort(text[-1]) == _sort(bare[0]) == "letter"
            if text.strip() and not joins:
                words.append(Word(text.strip(), start, i))
                text, start = "", i
            text += bare
        if text.strip():
            words.append(Word(text.strip(), start, len(ids)))
        elif text and words:  # a space at the end belongs to the last word
            words[-1] = Word(words[-1].text, words[-1].start, len(ids))
        return words

    def to_json(self) -> str:
        """The whole vocabulary as one JSON text."""
        data = {"regard": "vocabulary", "kind": self.kind, "fold": self.fold, "tokenizer": json.loads(self._tokenizer.to_str())}
        return json.dumps(data, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Vocabulary:
        """The inverse of `to_json`."""
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ImportError(_NEEDED) from error

        data = json.loads(text)
        if not isinstance(data, dict) or data.get("regard") != "vocabulary":
            raise ValueError('this JSON is not a regard vocabulary (no "regard": "vocabulary" in it)')
        return cls(Tokenizer.from_str(json.dumps(data["tokenizer"])), kind=data["kind"], fold=data["fold"])

    def save(self, path: str | Path) -> None:
        """Write the vocabulary to a file: all of it or nothing."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary written by `save`."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (ValueError, KeyError) as error:
            raise ValueError(f"{path}: {error}") from error


def _sort(character: str) -> str:
    """Which characters stick together in a word: letters, digits and marks do; Chinese and punctuation stand alone."""
    if "CJK" in unicodedata.name(character, "") or unicodedata.category(character)[0] not in "LMN":
        return "apart"
    return "letter"


def _settled(tokenizer: Tokenizer) -> Tokenizer:
    """A Unigram model without what its trainer leaves to chance: the last digits of the scores, and the order of equal ones.

    Rare characters get scores just below all others, in an order that changes from run to run; here they share one.
    """
    from tokenizers import Tokenizer

    data = json.loads(tokenizer.to_str())
    pieces = data["model"]["vocab"][len(SPECIALS) :]
    floor = min((score for piece, score in pieces if len(piece) > 1), default=0.0)
    scores = {piece: round(score if len(piece) > 1 or score > floor + 0.01 else floor - 1.0, 6) for piece, score in pieces}
    data["model"]["vocab"][len(SPECIALS) :] = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return Tokenizer.from_str(json.dumps(data))


def _pipeline(kind: Kind, *, size: int, lowercase: bool, min_count: int) -> tuple[Tokenizer, Any]:
    """An untrained tokeniser of this kind and its trainer."""
    try:
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
    except ImportError as error:
        raise ImportError(_NEEDED) from error

    specials = list(SPECIALS)
    steps = [normalizers.NFC(), normalizers.Replace(Regex(r"\p{Cf}+"), "")]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if kind == "char":
        tokenizer = Tokenizer(models.WordLevel(vocab={}, unk_token="<unk>"))
        # A character vocabulary keeps line breaks and runs of spaces: it is what one trains on plain text.
        tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        trainer: Any = trainers.WordLevelTrainer(vocab_size=size, min_frequency=min_count, special_tokens=specials, show_progress=False)
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
