"""Models built from attention: kernel regression, recurrent translators, Transformer, BERT, GPT, and a sentence-picking reader.

Each is imported on first use, because kernel regression needs scikit-learn and the others do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .bert import Bert, BertClassifier, BertConfig, hide_tokens
    from .block import BlockConfig
    from .gpt import Gpt, GptConfig
    from .kernel_regression import AveragePooling, NadarayaWatson, textbook_data
    from .reader import Reader, ReaderConfig
    from .sampling import next_token
    from .seq2seq import Bahdanau, FixedContext
    from .transformer import Transformer, TransformerConfig
    from .translator import Step, Translator

_MODULES = {
    "AveragePooling": "kernel_regression",
    "Bahdanau": "seq2seq",
    "Bert": "bert",
    "BertClassifier": "bert",
    "BertConfig": "bert",
    "BlockConfig": "block",
    "FixedContext": "seq2seq",
    "Gpt": "gpt",
    "GptConfig": "gpt",
    "NadarayaWatson": "kernel_regression",
    "Reader": "reader",
    "ReaderConfig": "reader",
    "Step": "translator",
    "Transformer": "transformer",
    "TransformerConfig": "transformer",
    "Translator": "translator",
    "hide_tokens": "bert",
    "next_token": "sampling",
    "textbook_data": "kernel_regression",
}

__all__ = [
    "AveragePooling",
    "Bahdanau",
    "Bert",
    "BertClassifier",
    "BertConfig",
    "BlockConfig",
    "FixedContext",
    "Gpt",
    "GptConfig",
    "NadarayaWatson",
    "Reader",
    "ReaderConfig",
    "Step",
    "Transformer",
    "TransformerConfig",
    "Translator",
    "hide_tokens",
    "next_token",
    "textbook_data",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)
