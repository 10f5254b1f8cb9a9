"""The effect of a change on a model's output: next-token distribution and hidden states, before and after.

Axes: B batch, L tokens, D width, V vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ..terminal import table

_T = TypeVar("_T")


class Outcome(NamedTuple):
    """The output of a model: logits (B, L, V) or (B, V) if it has any, and its last hidden states (B, L, D)."""

    logits: Tensor | None
    hidden: Tensor | None


@dataclass(frozen=True, eq=False)
class Effect:
    """The difference between two outputs at each position. Means leave out padding.

    kl: (B, L), KL(before ‖ after) of the next-token distributions, in nats; None if the model has no logits.
    cosine: (B, L), cosine similarity of the hidden states; None if they are not known.
    real: (B, L), True where a token is not padding; None if there is no padding mask.
    """

    kl: Tensor | None
    cosine: Tensor | None
    real: Tensor | None = None

    @staticmethod
    def of(before: Outcome, after: Outcome, inputs: Any) -> Effect:
        """Compare two outputs for the same inputs, whose attention_mask tells padding."""
        kl = cosine = None
        if before.logits is not None and after.logits is not None:
            old, new = (x.double().log_softmax(-1) for x in (before.logits, after.logits))
            kl = (old.exp() * (old - new)).sum(-1)
        if before.hidden is not None and after.hidden is not None:
            cosine = torch.cosine_similarity(before.hidden.double(), after.hidden.double(), dim=-1)
        shape = next((x.shape for x in (kl, cosine) if x is not None), None)
        mask = inputs.get("decoder_attention_mask", inputs.get("attention_mask")) if isinstance(inputs, Mapping) else None
        return Effect(kl, cosine, mask.bool() if isinstance(mask, Tensor) and mask.shape == shape else None)

    @property
    def mean_kl(self) -> float:
        return self._mean(self.kl)

    @property
    def mean_cosine(self) -> float:
        return self._mean(self.cosine)

    def _mean(self, x: Tensor | None) -> float:
        return float("nan") if x is None else float(self._without_padding(x).mean())

    def _without_padding(self, x: Tensor) -> Tensor:
        return x if self.real is None else x[self.real]

    def __str__(self) -> str:
        parts = []
        if self.kl is not None:
            largest = float(self._without_padding(self.kl).max())
            parts.append(f"KL of the next token {self.mean_kl:.4g} nats on average, {largest:.4g} at most")
        if self.cosine is not None:
            smallest = float(self._without_padding(self.cosine).min())
            parts.append(f"cosine of the hidden state {self.mean_cosine:.4f} on average, {smallest:.4f} at least")
        return "; ".join(parts) or "the model returned neither logits nor hidden states to compare"


@dataclass(frozen=True, eq=False)
class Importance:
    """The effect of muting each head alone, by (layer, head)."""

    effects: dict[tuple[int, int], Effect]

    def ranked(self) -> list[tuple[int, int, float, float]]:
        """Return (layer, head, mean KL, mean cosine), most important head first: by KL, or without logits by cosine."""
        rows = [(layer, head, e.mean_kl, e.mean_cosine) for (layer, head), e in self.effects.items()]
        return sorted(rows, key=lambda row: row[3] if row[2] != row[2] else -row[2])

    def __str__(self) -> str:
        header = [["layer.head", "KL", "cosine"]]
        return table(header + [[f"{layer}.{head}", f"{kl:.4g}", f"{cosine:.4f}"] for layer, head, kl, cosine in self.ranked()])


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put the model into eval mode inside the block (no dropout), then restore the mode of each module."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def outcome(model: nn.Module, inputs: Any) -> Outcome:
    """Run the model and return its logits and its last hidden states."""
    hidden: list[Tensor] = []
    final_norm = getattr(model, "norm", None)  # of regard's decoders, whose output the logits are computed from
    hook = final_norm.register_forward_hook(lambda module, args, out: hidden.append(out)) if isinstance(final_norm, nn.Module) else None
    try:
        output = call_model(model, inputs)
    finally:
        if hook is not None:
            hook.remove()
    if isinstance(output, Tensor):
        return Outcome(output, hidden[-1]) if hidden else Outcome(None, output)
    logits = getattr(output, "logits", None)
    states = getattr(output, "decoder_hidden_states", None) or getattr(output, "hidden_states", None)
    state = states[-1] if states else getattr(output, "last_hidden_state", None)
    if state is None and isinstance(output, Sequence) and output and isinstance(output[0], Tensor):
        state = output[0]
    return Outcome(logits, state)


def call_model(model: nn.Module, inputs: Any) -> Any:
    """Call a model with a dict, a tuple, or one argument; transformers models also return their hidden states."""
    options: dict[str, Any] = {}
    if "transformers" in sys.modules and isinstance(model, sys.modules["transformers"].PreTrainedModel):
        options = {"output_hidden_states": True}
    if isinstance(inputs, Mapping):
        return model(**{**inputs, **options})
    return model(*inputs, **options) if isinstance(inputs, tuple | list) else model(inputs, **options)


def with_progress(items: Sequence[_T], description: str, show: bool) -> Iterable[_T]:
    """Iterate over items with a progress bar, if stderr is a terminal and rich is installed."""
    if show and sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import track as bar
        except ImportError:
            return items
        return bar(items, description, console=Console(stderr=True))
    return items
