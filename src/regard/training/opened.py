"""The interface of a trained model with its tokenizer, the same for every task.

    inputs = opened.inputs("some text")       the arguments of the model
    opened.tokens(inputs)                     the tokens of these inputs
    opened.run(opened.cut(inputs, 100))       the model's output for the first hundred of them

Axes: L tokens of a text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .results import Prefix, Prefixes

TokenRows = list[list[str]] | None  # the tokens of every row of a batch


class OpenedModel(ABC):
    """A model with what it needs to process a text. Subclasses add the methods of their task: `translate`, `generate`, `answer` …

    model: the PyTorch model itself.
    limit: the longest input in tokens (for a story: in sentences); None for no limit

    >>> import regard
    >>> opened = regard.open("shakespeare")
    >>> opened.length(opened.inputs("ROMEO:"))
    6
    """

    model: nn.Module
    limit: int | None = None

    @abstractmethod
    def inputs(self, text: str, *, target: str | None = None) -> Any:
        """Return the arguments of the model for a text. `target` is the target text of a translator; None: its own translation."""

    @abstractmethod
    def tokens(self, inputs: Any) -> tuple[TokenRows, TokenRows]:
        """Return the tokens of inputs, and those of the source if the model is an encoder–decoder."""

    @abstractmethod
    def cut(self, inputs: Any, length: int) -> Any:
        """Return inputs cut to their first `length` tokens."""

    @abstractmethod
    def length(self, inputs: Any) -> int:
        """Return the number of tokens of inputs."""

    @torch.no_grad()
    def run(self, inputs: Any) -> Any:
        """Return the model's output for inputs."""
        if isinstance(inputs, Mapping):
            return self.model(**inputs)
        return self.model(*inputs) if isinstance(inputs, tuple) else self.model(inputs)

    def __repr__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return f"{type(self).__name__}({type(self.model).__name__}, {parameters:,} parameters, on {self.device})"

    @property
    def device(self) -> torch.device:
        """The device of the model's weights."""
        return next(self.model.parameters()).device


class TokenModel(OpenedModel):
    """A model that is called with token ids (1, L)."""

    def __init__(self, model: Any) -> None:
        self.model: Any = model
        config = getattr(model, "config", getattr(getattr(model, "bert", None), "config", None))
        if config is not None and getattr(config, "positions", None) == "learned":  # there are no embeddings for later positions
            self.limit = config.context

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""

    @abstractmethod
    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Return each token as the vocabulary stores it."""

    def inputs(self, text: str, *, target: str | None = None) -> Tensor:
        ids = self.encode(text)
        if not ids:
            raise ValueError("the text has no tokens; give at least one word")
        return torch.tensor([ids], device=self.device)

    def tokens(self, inputs: Tensor) -> tuple[TokenRows, TokenRows]:
        return [self.token_texts(inputs[0].tolist())], None

    def cut(self, inputs: Tensor, length: int) -> Tensor:
        return inputs[:, :length]

    def length(self, inputs: Tensor) -> int:
        return int(inputs.shape[1])


class TextGenerator(TokenModel):
    """A language model that continues a prompt. `stops` are the ids that end a text.

    model: a `Gpt`.

    >>> import regard
    >>> regard.open("shakespeare").prefixes("To be", top=1)
    Prefixes('To be', 5 tokens)
    """

    stops: frozenset[int] = frozenset()

    @torch.no_grad()
    def prefixes(self, text: str, *, top: int = 5) -> Prefixes:
        """Return the `top` most likely next tokens after every prefix of a text, all from one pass of the model.

        text: the text; top: how many tokens. Raises ValueError if the text is longer than the model reads.
        """
        inputs = self.inputs(text)
        if self.limit is not None and inputs.shape[1] > self.limit:
            raise ValueError(f"the text has {inputs.shape[1]:,} tokens; the model reads {self.limit:,}; shorten it")
        probabilities = self.run(inputs)[0].float().softmax(-1)  # (L, V)
        best = probabilities.topk(min(top, probabilities.shape[-1]))
        tokens = self.token_texts(inputs[0].tolist())
        rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return Prefixes(
            [Prefix(tokens[: i + 1], list(zip(self.token_texts(ids), values, strict=True))) for i, (ids, values) in enumerate(rows)]
        )

    @abstractmethod
    def text(self, prompt: str, ids: list[int], new: list[int]) -> str:
        """Return the text of a prompt, with its ids, and of the new ids after it."""

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
        """Return the prompt and its continuation, up to `max_new` tokens or a token that ends a text.

        prompt: the text to continue.
        max_new: the most tokens to add.
        temperature: divides the logits: 1 samples from the model's distribution, less is more cautious, 0 takes the most likely token.
        top_k, top_p: sample among the k most likely tokens, or among those whose probabilities sum to p.
        seed: of the sampling, for repeatable output.
        """
        ids = self.encode(prompt)
        return self.text(prompt, ids, self.extend(ids, max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed))

    def extend(self, ids: Sequence[int], *, max_new: int, seed: int | None = None, **options: Any) -> list[int]:
        """Return the ids generated after `ids`, at most `max_new`.

        seed and other options: as in `generate`.
        """
        if not hasattr(self.model, "generate"):
            raise ValueError(f"a {type(self.model).__name__} is an encoder and cannot generate text; use a language model")
        prompt = torch.tensor([list(ids)], dtype=torch.int64, device=self.device)
        generator = None if seed is None else torch.Generator(self.device).manual_seed(seed)
        out = self.model.generate(prompt, max_new=max_new, generator=generator, stop=self.stops or None, **options)
        new: list[int] = out[0, len(ids) :].tolist()
        return new


__all__ = ["OpenedModel", "Prefix", "TextGenerator", "TokenModel", "TokenRows"]
