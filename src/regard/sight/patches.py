"""Patches of `regard.change`: what replaces, adds to, keeps or looks at the output of some heads.

Axes: B batch, n selected heads, L queries, S keys, dv value width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from .capture.captured import CapturedAttention
from .capture.model_hooks import LayerCall
from .recompute import all_weights
from .sighting import Head, Seen, Sighting

Source: TypeAlias = Sighting | Seen | Head | Tensor


class Patch(Protocol):
    """Something done to the output (B, h, L, dv) of one call."""

    def apply(self, captured: CapturedAttention, call: LayerCall, heads: list[int], output: Tensor) -> Tensor:
        """Return the output with some heads changed."""


@dataclass(frozen=True, eq=False)
class HeadsCall:
    """One attention of some heads, as `on` passes it to its function: all tensors (B, n, …)."""

    layer: int
    name: str
    heads: list[int]
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    _captured: CapturedAttention

    def weights(self) -> Tensor:
        """Compute the weights (B, n, L, S), after the changes made to them."""
        return all_weights(self._captured.request)[:, self.heads]


@dataclass(frozen=True, eq=False)
class ReplacePattern:
    """The weights of another run, times this run's values."""

    source: Source

    def apply(self, captured: CapturedAttention, call: LayerCall, heads: list[int], output: Tensor) -> Tensor:
        weights = _recorded(self.source, call, heads, "weights")
        L, S = captured.request.sizes[2:]
        if weights.shape[-2:] != (L, S):
            raise ValueError(
                f"the weights that replace those of layer {call.layer} ({call.name}) are {weights.shape[-2]}×{weights.shape[-1]}, but "
                f"this run has {L} queries and {S} keys; take them from a run of the same length"
            )
        value = captured.request.value[:, [head // captured.request.group for head in heads]]
        return _with_heads(output, heads, weights.to(value.dtype) @ value)


@dataclass(frozen=True, eq=False)
class ReplaceOutput:
    """The output of another run."""

    source: Source

    def apply(self, captured: CapturedAttention, call: LayerCall, heads: list[int], output: Tensor) -> Tensor:
        return _with_heads(output, heads, _recorded(self.source, call, heads, "output"))


@dataclass(frozen=True, eq=False)
class AddOutput:
    """A tensor added to the output."""

    added: Tensor

    def apply(self, captured: CapturedAttention, call: LayerCall, heads: list[int], output: Tensor) -> Tensor:
        return _with_heads(output, heads, output[:, heads] + self.added.to(output))


@dataclass(frozen=True, eq=False)
class Freeze:
    """The output of the last run without changes."""

    _outputs: dict[int, Tensor] = field(default_factory=dict)  # by decoding step

    def remember(self, call: LayerCall, output: Tensor) -> None:
        self._outputs[call.step] = output.detach()

    def apply(self, captured: CapturedAttention, call: LayerCall, heads: list[int], output: Tensor) -> Tensor:
        if call.step not in self._outputs:
            raise RuntimeError(
                f"layer {call.layer} ({call.name}) is frozen, but no output is known; run the model inside `with c.paused():` first, "
                "or use c.effect(inputs), which does"
            )
        return _with_heads(output, heads, self._outputs[call.step][:, heads])


@dataclass(frozen=True, eq=False)
class OnCall:
    """A function of the user's."""

    function: Callable[[HeadsCall], Tensor | None]

    def apply(self, captured: CapturedAttention, call: LayerCall, heads: list[int], output: Tensor) -> Tensor:
        request, shared = captured.request, [head // captured.request.group for head in heads]
        query, key, value = request.query[:, heads], request.key[:, shared], request.value[:, shared]
        seen = HeadsCall(call.layer, call.name, heads, query, key, value, output[:, heads], captured)
        new = self.function(seen)
        return output if new is None else _with_heads(output, heads, new)


def _with_heads(output: Tensor, heads: list[int], new: Tensor) -> Tensor:
    """Return the output (B, h, L, dv) with the heads replaced by new (B|1, n|1, L|1, dv|1)."""
    expected = (output.shape[0], len(heads), *output.shape[2:])
    try:
        new = new.to(output).expand(expected)
    except RuntimeError:
        raise ValueError(f"the new output has shape {tuple(new.shape)}; expected one that broadcasts to {expected}") from None
    return output.index_copy(1, torch.tensor(heads, device=output.device), new)


def _recorded(source: Source, call: LayerCall, heads: list[int], what: str) -> Tensor:
    """Return the recorded weights (B, n, L, S) or outputs (B, n, L, dv) that a patch takes from a source."""
    if isinstance(source, Tensor):
        return source
    if isinstance(source, Head):
        seen, heads = source.seen, [source.index]
    else:
        seen = source.find(call.layer) if isinstance(source, Sighting) else source
    if what == "weights":
        return torch.stack([torch.stack([seen.head(i).tile(batch=b) for i in heads]) for b in range(seen.shape[0])])
    if seen.output is None:
        raise ValueError(f"layer {seen.layer} ({seen.name}) kept no outputs; record them with watch(model, keep_values=True)")
    return seen.output[:, [seen.head_ids.index(i) for i in heads]]
