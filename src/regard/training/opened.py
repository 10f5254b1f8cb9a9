"""A trained model ready to read texts: what every opened model offers, whatever it was trained for.

    inputs = opened.inputs("some text")       what the model is called with
    opened.tokens(inputs)                     the pieces these inputs are made of
    opened.run(opened.cut(inputs, 100))       the model's output for the first hundred of them

Axes: L tokens of a text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Pieces = list[list[str]] | None  # the tokens of every row of a batch


class OpenedModel(ABC):
    """A model and what it needs to read a text. Subclasses add what the model is for: `translate`, `generate`, `answer` …

    limit   how many tokens it reads at once (of a story: sentences); None for any number
    """

    model: nn.Module
    limit: int | None = None

    @abstractmethod
    def inputs(self, text: str, *, target: str | None = None) -> Any:
        """What the model is called with to read a text. `target` is what a translator is to have written; by default it translates."""

    @abstractmethod
    def tokens(self, inputs: Any) -> tuple[Pieces, Pieces]:
        """The tokens of inputs, and of the source they are written from where there is one."""

    @abstractmethod
    def cut(self, inputs: Any, length: int) -> Any:
        """The first `length` tokens of inputs."""

    @abstractmethod
    def length(self, inputs: Any) -> int:
        """How many tokens inputs have."""

    @torch.no_grad()
    def run(self, inputs: Any) -> Any:
        """The model's output for inputs."""
        if isinstance(inputs, Mapping):
            return self.model(**inputs)
        return self.model(*inputs) if isinstance(inputs, tuple) else self.model(inputs)

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return next(self.model.parameters()).device


class TokenModel(OpenedModel):
    """A model that is called with token ids (1, L)."""

    def __init__(self, model: Any) -> None:
        self.model: Any = model
        config = getattr(model, "config", getattr(getattr(model, "bert", None), "config", None))
        if config is not None and getattr(config, "positions", None) == "learned":  # there is no embedding for later positions
            self.limit = config.context

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of a text."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each token as the vocabulary stores it."""

    def inputs(self, text: str, *, target: str | None = None) -> Tensor:
        ids = self.encode(text)
        if not ids:
            raise ValueError("the text has no tokens; give at least one word")
        return torch.tensor([ids], device=self.device)

    def tokens(self, inputs: Tensor) -> tuple[Pieces, Pieces]:
        return [self.pieces(inputs[0].tolist())], None

    def cut(self, inputs: Tensor, length: int) -> Tensor:
        return inputs[:, :length]

    def length(self, inputs: Tensor) -> int:
        return int(inputs.shape[1])


class TextGenerator(TokenModel):
    """A language model: it continues a prompt. `stops` are the ids that end a text."""

    stops: frozenset[int] = frozenset()

    @abstractmethod
    def text(self, prompt: str, ids: list[int], new: list[int]) -> str:
        """The text of a prompt, whose ids are known, and of the new ids that follow it."""

    def generate(
        self,
        prompt: str,
        *,
        max_new: int = 200,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> str:
        """The prompt and what follows it, up to a token that ends a text."""
        ids = self.encode(prompt)
        return self.text(prompt, ids, self.extend(ids, max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed))

    def extend(self, ids: Sequence[int], *, max_new: int, seed: int | None = None, **options: Any) -> list[int]:
        """The ids that follow `ids`, `max_new` at most."""
        if not hasattr(self.model, "generate"):
            raise ValueError(f"a {type(self.model).__name__} reads in both directions and cannot write on; use a language model")
        prompt = torch.tensor([list(ids)], dtype=torch.int64, device=self.device)
        generator = None if seed is None else torch.Generator(self.device).manual_seed(seed)
        out = self.model.generate(prompt, max_new=max_new, generator=generator, stop=self.stops or None, **options)
        new: list[int] = out[0, len(ids) :].tolist()
        return new


__all__ = ["OpenedModel", "Pieces", "TextGenerator", "TokenModel"]
