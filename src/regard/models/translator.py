"""The interface of sequence-to-sequence models that training and decoding use.

Axes: B batch, S source positions, T target positions, V words of the target vocabulary.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from torch import Tensor


class State(Protocol):
    """The state of a decoder after the words it has read, one row per sentence or hypothesis."""

    def select(self, index: Tensor) -> Self:
        """Return rows `index` (N,) of this state; beam search repeats, drops and reorders hypotheses with it."""
        ...


@dataclass(frozen=True, eq=False)
class Step:
    """The result of one decoder step.

    logits: of the next word, (B, V).
    state: the decoder's new state, to be given to the next step.
    alignment: attention weights on the source, (B, S); None where they were not asked for.

    >>> import torch
    >>> Step(torch.zeros(1, 5), state=None).alignment is None
    True
    """

    logits: Tensor
    state: Any
    alignment: Tensor | None = None


class Translator(Protocol):
    """The interface of a model that encodes a source and decodes a target, one word at a time (`start`, `step`) or all at
    once (when called).

    >>> from regard.models import Bahdanau
    >>> all(hasattr(Bahdanau, method) for method in ("encode", "start", "step"))
    True
    """

    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        """Encode source (B, S) with `lengths` (B,); return the memory that `start` takes, of the model's own type."""
        ...

    def start(self, memory: Any) -> Any:
        """Return the decoder's state before the first word."""
        ...

    def step(self, state: Any, token: Tensor, *, align: bool = True) -> Step:
        """Read the previous word `token` (B,) in a `state` and predict the next. align=False: the alignment is not needed."""
        ...

    def hard_attention(self) -> AbstractContextManager[None]:
        """Return a context in which all attention weight goes to the source position with the largest weight."""
        ...

    def __call__(self, source: Tensor, lengths: Tensor, target: Tensor, *, keep: Tensor | None = None) -> Tensor:
        """Compute logits with teacher forcing.

        target (B, T) begins with <s> and lacks its last word. Returns (B, T, V), or (N, V) for the N positions where `keep` (B, T) is True.
        """
        ...
