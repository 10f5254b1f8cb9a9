"""Text for models: vocabularies, pairs of texts from files, batches, and alignments of words."""

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names
from .pairs import Pair, read_lines, read_pairs
from .vocabulary import BOS, EOS, MASK, PAD, UNK, Vocabulary, Word

if TYPE_CHECKING:
    from .alignment import draw, word_alignment
    from .batches import bucketed, padded

__all__ = [
    "BOS",
    "EOS",
    "MASK",
    "PAD",
    "UNK",
    "Pair",
    "Vocabulary",
    "Word",
    "bucketed",
    "draw",
    "padded",
    "read_lines",
    "read_pairs",
    "word_alignment",
]

if not TYPE_CHECKING:  # these need torch, reading a file does not
    __getattr__, __dir__ = lazy_names(
        __name__, {"draw": "alignment", "word_alignment": "alignment", "bucketed": "batches", "padded": "batches"}
    )
