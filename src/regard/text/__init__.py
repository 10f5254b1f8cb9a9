"""Text for models: vocabularies, pairs of texts from files, batches, and alignments of words."""

from .alignment import draw, word_alignment
from .batches import bucketed, padded
from .pairs import Pair, read_lines, read_pairs
from .vocabulary import BOS, EOS, MASK, PAD, UNK, Vocabulary, Word

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
