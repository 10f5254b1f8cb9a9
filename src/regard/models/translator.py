"""What a sequence-to-sequence model offers to training and decoding.

Axes: B batch, S source positions, T target positions, V words of the target vocabulary.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from torch import Tensor


class State(Protocol):
    """Where a decoder stands after the words it has read; one row a sentence."""

    def select(self, index: Tensor) -> Self:
        """Rows `index` (N,) of this state: how a beam repeats, drops and reorders its hypotheses."""
        ...


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a decoder: logits (B, V) for the next word, the state after it, and where it looked, (B, S) or None."""

    logits: Tensor
    state: Any
    alignment: Tensor | None = None


class Translator(Protocol):
    """A model that reads a source and writes a target, a word at a time (`start`, `step`) or all at once (calling it)."""

    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        """Read source (B, S) with `lengths` (B,); what is returned is the model's own memory of it."""
        ...

    def start(self, memory: Any) -> Any:
        """The decoder's state before the first word."""
        ...

    def step(self, state: Any, token: Tensor) -> Step:
        """Read the previous word `token` (B,) and predict the next."""
        ...

    def hard_attention(self) -> AbstractContextManager[None]:
        """Within this, every target word reads only the source position with the largest weight; nothing changes without attention."""
        ...

    def __call__(self, source: Tensor, lengths: Tensor, target: Tensor, *, keep: Tensor | None = None) -> Tensor:
        """Teacher forcing: target (B, T) begins with <s> and lacks its last word; logits (B, T, V), or (N, V) where `keep` (B, T) is."""
        ...
