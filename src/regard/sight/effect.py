"""The effect of a change on a model's output: the next token's distribution and the hidden state, before and after.

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
    """The output of a model: logits (B, L, V) or (B, V) if it predicts, and hidden states (B, L, D)."""

    logits: Tensor | None
    hidden: Tensor | None


@dataclass(frozen=True, eq=False)
class Effect:
    """Position by position: kl (B, L) = KL(before ‖ after) of the next token in nats (None if the model predicts none), cosine (B, L) of
    the hidden state. Padding is left out of the means."""

    kl: Tensor | None
    cosine: Tensor | None
    real: Tensor | None = None  # (B, L) bool: not padding

    @staticmethod
    def of(before: Outcome, after: Outcome, inputs: Any) -> Effect:
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
        if x is None:
            return float("nan")
        return float((x if self.real is None else x[self.real]).mean())

    def __str__(self) -> str:
        parts = []
        if self.kl is not None:
            shown = self.kl if self.real is None else self.kl[self.real]
            parts.append(f"KL of the next token {self.mean_kl:.4g} nats on average, {float(shown.max()):.4g} at most")
        if self.cosine is not None:
            shown = self.cosine if self.real is None else self.cosine[self.real]
            parts.append(f"cosine of the hidden state {self.mean_cosine:.4f} on average, {float(shown.min()):.4f} at least")
        return "; ".join(parts) or "the model gave neither logits nor hidden states to compare"


@dataclass(frozen=True, eq=False)
class Importance:
    """The effect of muting each head alone, by (layer, head)."""

    effects: dict[tuple[int, int], Effect]

    def ranked(self) -> list[tuple[int, int, float, float]]:
        """(layer, head, mean KL, mean cosine), what matters most first: by KL, or where there is none by the cosine."""
        rows = [(layer, head, e.mean_kl, e.mean_cosine) for (layer, head), e in self.effects.items()]
        return sorted(rows, key=lambda row: row[3] if row[2] != row[2] else -row[2])

    def __str__(self) -> str:
        head = [["layer.head", "KL", "cosine"]]
        return table(head + [[f"{layer}.{head}", f"{kl:.4g}", f"{cosine:.4f}"] for layer, head, kl, cosine in self.ranked()])


@contextmanager
def steady(model: nn.Module) -> Iterator[None]:
    """Without dropout, so that before and after differ only by the change."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def outcome(model: nn.Module, inputs: Any) -> Outcome:
    """Run the model, and find its logits and its last hidden states."""
    hidden: list[Tensor] = []
    last = getattr(model, "norm", None)  # our decoder's last norm: what the logits are read from
    hook = last.register_forward_hook(lambda module, args, out: hidden.append(out)) if isinstance(last, nn.Module) else None
    try:
        output = run(model, inputs)
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


def run(model: nn.Module, inputs: Any) -> Any:
    """Call a model with a dict, a tuple, or one argument."""
    more: dict[str, Any] = {}
    if "transformers" in sys.modules and isinstance(model, sys.modules["transformers"].PreTrainedModel):
        more = {"output_hidden_states": True}
    if isinstance(inputs, Mapping):
        return model(**{**inputs, **more})
    return model(*inputs, **more) if isinstance(inputs, tuple | list) else model(inputs, **more)


def track(items: Sequence[_T], what: str, show: bool) -> Iterable[_T]:
    """The items with a progress bar, where there is a terminal to draw it on."""
    if show and sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import track as bar
        except ImportError:
            return items
        return bar(items, what, console=Console(stderr=True))
    return items
