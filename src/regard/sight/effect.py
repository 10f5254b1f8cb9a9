"""The effect of a change on a model's output: next-token distribution and hidden states, before and after.

Axes: B batch, L tokens, D width, V vocabulary.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ..html_table import html_table
from ..terminal import table

_T = TypeVar("_T")
_SHOWN = 18  # rows of the printed table, which should fit a screen
_LEGEND = "KL of the next token in nats and cosine of the hidden state, averaged over the tokens: 0 and 1 mean no effect"


class Outcome(NamedTuple):
    """The output of a model: logits (B, L, V) or (B, V) if it has any, and its last hidden states (B, L, D)."""

    logits: Tensor | None
    hidden: Tensor | None


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        return f"Effect({self})"

    def _repr_html_(self) -> str:
        rows = [["", "mean", "largest change"]]
        if self.kl is not None:
            rows.append(["KL of the next token, nats", f"{self.mean_kl:.4g}", f"{float(self._without_padding(self.kl).max()):.4g}"])
        if self.cosine is not None:
            smallest = float(self._without_padding(self.cosine).min())
            rows.append(["cosine of the hidden state", f"{self.mean_cosine:.4f}", f"{smallest:.4f}"])
        return html_table(rows, note="" if rows[1:] else str(self))

    def __str__(self) -> str:
        parts = []
        if self.kl is not None:
            largest = float(self._without_padding(self.kl).max())
            parts.append(f"KL of the next token {self.mean_kl:.4g} nats on average, {largest:.4g} at most")
        if self.cosine is not None:
            smallest = float(self._without_padding(self.cosine).min())
            parts.append(f"cosine of the hidden state {self.mean_cosine:.4f} on average, {smallest:.4f} at least")
        return "; ".join(parts) or "the model returned neither logits nor hidden states to compare"


@dataclass(frozen=True, eq=False, repr=False)
class Importance:
    """The effect of muting each head alone, by (layer, head)."""

    effects: dict[tuple[int, int], Effect]

    def ranked(self) -> list[tuple[int, int, float, float]]:
        """Return (layer, head, mean KL, mean cosine), most important head first: by KL, or without logits by cosine."""
        rows = [(layer, head, e.mean_kl, e.mean_cosine) for (layer, head), e in self.effects.items()]
        return sorted(rows, key=lambda row: row[3] if row[2] != row[2] else -row[2])

    def _texts(self, count: int | None = None) -> list[list[str]]:
        ranked = self.ranked()[:count]
        columns = [["layer.head", *(f"{layer}.{head}" for layer, head, _, _ in ranked)]]
        kl_form = ".4f" if max((row[2] for row in ranked), default=1.0) >= 0.01 else ".1e"
        for name, numbers in (("KL", [f"{row[2]:{kl_form}}" for row in ranked]), ("cosine", [f"{row[3]:.4f}" for row in ranked])):
            if set(numbers) != {"nan"}:  # the model returned what it is computed from
                columns.append([name, *numbers])
        return [list(row) for row in zip(*columns, strict=True)]

    def table(self, count: int | None = None) -> str:
        """Return the effect of every head as text, or of the `count` most important ones."""
        return table(self._texts(count))

    def __repr__(self) -> str:
        ranked = self.ranked()
        first = f"; most important: layer {ranked[0][0]}, head {ranked[0][1]}" if ranked else ""
        return f"Importance({len(ranked)} heads{first})"

    def __str__(self) -> str:
        rest = len(self.effects) - _SHOWN
        more = f"\n… {rest:,} more heads; print(importance.table()) shows all" if rest > 0 else ""
        return f"{self.table(_SHOWN)}{more}\n{_LEGEND}"

    def _repr_html_(self) -> str:
        rest = max(len(self.effects) - _SHOWN, 0)
        return html_table(self._texts(_SHOWN), title="effect of muting each head alone", note=_LEGEND, rest=rest)


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
        return Outcome(output, hidden[-1]) if hidden else Outcome(None, _by_position(output))
    states = _named(output, "decoder_hidden_states") or _named(output, "hidden_states")
    state = states[-1] if isinstance(states, Sequence) and len(states) else None
    names = ("last_hidden_state", "token_embeddings", "sentence_embedding", "image_embeds", "text_embeds", "sample")
    state = next((x for name in names if isinstance(x := _named(output, name), Tensor)), None) if state is None else state
    logits = next((x for name in ("logits", "logits_per_image") if isinstance(x := _named(output, name), Tensor)), None)
    if state is None and logits is None:
        state = next((x for x in _tensors(output) if x.is_floating_point() and x.dim() > 1), None)
    return Outcome(logits, None if state is None else _by_position(state))


def _named(output: Any, name: str) -> Any:
    """Return a field of a model's output, which may be a dict or an object with attributes; None without one of that name."""
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def _tensors(output: Any) -> Iterator[Tensor]:
    """Iterate over the tensors in nested tuples, lists and dicts."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Mapping | list | tuple):
        for part in output.values() if isinstance(output, Mapping) else output:
            yield from _tensors(part)


def _by_position(state: Tensor) -> Tensor:
    """Return an image or feature map (B, C, H, W) as one vector of channels per place, (B, H · W, C); anything else unchanged."""
    return state.flatten(2).mT if state.dim() == 4 else state


def call_model(model: nn.Module, inputs: Any) -> Any:
    """Call a model with a dict, a tuple, or one argument; transformers models also return their hidden states.

    A model of sentence-transformers takes texts, or the dict that its tokenizer makes of them.
    """
    options: dict[str, Any] = {}
    if "transformers" in sys.modules and isinstance(model, sys.modules["transformers"].PreTrainedModel):
        options = {"output_hidden_states": True}
    if type(model).__module__.startswith("sentence_transformers") and hasattr(model, "tokenize"):
        texts = [inputs] if isinstance(inputs, str) else inputs
        tokenize: Any = model.tokenize
        return model(dict(texts) if isinstance(texts, Mapping) else tokenize(list(texts)))
    if isinstance(inputs, Mapping):
        return _without_unknown(model, inputs, options)
    return model(*inputs, **options) if isinstance(inputs, tuple | list) else model(inputs, **options)


def _without_unknown(model: nn.Module, inputs: Mapping[str, Any], options: dict[str, Any]) -> Any:
    """Call with keyword arguments, leaving out options that the model's forward does not take."""
    parameters = inspect.signature(model.forward).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return model(**inputs, **{name: value for name, value in options.items() if takes_any or name in parameters})


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
