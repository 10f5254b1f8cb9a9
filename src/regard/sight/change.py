"""regard.change: run a model with some attention heads muted, rescaled or masked, and measure the effect on its output.

Axes: B batch, h heads, L queries, S keys.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from ..kernels.request import Request, accumulator
from ..masks import Mask, dense, everything, per_head, prefix, window
from .capture.captured import CapturedAttention, GivenWeights, first_query
from .capture.model_hooks import LayerCall, ModelHooks
from .effect import Effect, Importance, Outcome, evaluation_mode, outcome, with_progress
from .patches import AddOutput, Freeze, HeadsCall, OnCall, Patch, ReplaceOutput, ReplacePattern, Source


@dataclass(frozen=True)
class _Edit:
    """One change to some heads of one layer."""

    layer: int | str
    heads: tuple[int, ...] | None  # None: all
    operation: str  # "mute", "temperature", "forget", "window", or one of `patches`: "pattern", "output", "add", "freeze", "on"
    value: float = 0.0
    patch: Patch | None = None

    def __str__(self) -> str:
        heads = "all heads" if self.heads is None else f"head {', '.join(map(str, self.heads))}"
        arguments = f"({self.value:g})" if self.operation in ("temperature", "forget", "window") else "()"
        return f"layer {self.layer} {heads}: {self.operation}{arguments}"


class Heads:
    """Some heads of one layer, to be changed. Methods that change them return the same object, so that changes can be chained."""

    def __init__(self, block: change, layer: int | str, heads: tuple[int, ...] | None = None) -> None:
        self._block, self._layer, self._heads = block, layer, heads

    def head(self, index: int) -> Heads:
        """Select one head of the layer."""
        return Heads(self._block, self._layer, (index,))

    def heads(self, indices: Iterable[int]) -> Heads:
        """Select several heads of the layer."""
        return Heads(self._block, self._layer, tuple(indices))

    def mute(self) -> Heads:
        """Replace the heads' output by zero."""
        return self._add("mute")

    def temperature(self, t: float) -> Heads:
        """Divide the heads' scores by t: t > 1 flattens the weights, t < 1 sharpens them."""
        if not t > 0:
            raise ValueError(f"temperature is {t}; expected a number > 0")
        return self._add("temperature", t)

    def forget(self, first: int = 1) -> Heads:
        """Mask the first keys (often an attention sink); their weight goes to the other visible keys."""
        if first < 1:
            raise ValueError(f"first is {first}; expected the number of keys to mask, at least 1")
        return self._add("forget", first)

    def window(self, n: int) -> Heads:
        """Mask all keys more than n positions away from the query."""
        if n < 0:
            raise ValueError(f"window is {n}; expected a number of positions ≥ 0")
        return self._add("window", n)

    def replace(self, *, pattern_of: Source | None = None, output_of: Source | None = None) -> Heads:
        """Replace the heads' weights, or their output, by those of another run of the model or of another head.

        The source is a sighting (its same layer and heads are taken), one recorded attention of it, one head of it (for all selected
        heads), or a tensor: weights (B, h, L, S) or outputs (B, h, L, dv), which broadcast. Outputs need `watch(model, keep_values=True)`.
        """
        if (pattern_of is None) == (output_of is None):
            raise TypeError("replace takes either pattern_of or output_of")
        if pattern_of is not None:
            return self._add("pattern", patch=ReplacePattern(pattern_of))
        assert output_of is not None
        return self._add("output", patch=ReplaceOutput(output_of))

    def add(self, output: Tensor) -> Heads:
        """Add a tensor to the heads' output; it broadcasts to (B, selected heads, L, dv)."""
        return self._add("add", patch=AddOutput(output))

    def freeze(self) -> Heads:
        """Keep the heads' output as it was in the last run inside `paused()` (`effect` makes one), whatever is changed before them."""
        return self._add("freeze", patch=Freeze())

    def on(self, function: Callable[[HeadsCall], Tensor | None]) -> Heads:
        """Call a function with each attention of these heads, a `HeadsCall`; it may return a new output (B, n, L, dv)."""
        return self._add("on", patch=OnCall(function))

    def _add(self, operation: str, value: float = 0.0, patch: Patch | None = None) -> Heads:
        self._block.edits.append(_Edit(self._layer, self._heads, operation, float(value), patch))
        return self


class change(ModelHooks):
    """Change a model's attention inside a `with` block: `with regard.change(model) as c: c.layer(3).head(5).mute(); c.effect(inputs)`.

    Layers are given by index, as `regard.watch` numbers them, or by their module's name. Unchanged layers run the model's own kernel.

    model: any model that `regard.watch` can see.

    Inside the block, `c.layer(i).head(j)` has mute, temperature, replace and other changes; `c.effect(inputs)` compares with and without.

    >>> from regard.models import Gpt, GptConfig
    >>> model = Gpt(GptConfig(vocabulary=50, d_model=32, heads=2, layers=2, context=16)).eval()
    >>> with change(model) as c:
    ...     _ = c.layer(1).head(0).temperature(2.0)
    ...     effect = c.effect(torch.tensor([[1, 2, 3]]))
    >>> effect.kl.shape, bool((effect.kl >= -1e-9).all())
    (torch.Size([1, 3]), True)
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.edits: list[_Edit] = []
        self._applied: set[int | str] = set()  # layers of the edits that were applied
        self._paused = False
        self._head_counts: dict[int, int] = {}

    def __enter__(self) -> change:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        if kind is None and self._layers and (unknown := self._unapplied()):
            warnings.warn(f"changed layers that never ran: {unknown}; the model ran layers {self._known_layers()}", stacklevel=2)

    def __repr__(self) -> str:
        edits = "; ".join(map(str, self.edits[:5])) + (f"; {len(self.edits) - 5} more" if len(self.edits) > 5 else "")
        return f"change({edits or 'nothing changed yet'})"

    def layer(self, layer: int | str) -> Heads:
        """Select a layer by its index or its module's name: all of its heads, unless `.head(i)` follows."""
        return Heads(self, layer)

    def clear(self) -> None:
        """Remove all changes."""
        self.edits.clear()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run the model without the changes inside this block."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def alter(self, captured: CapturedAttention, call: LayerCall) -> None:
        self._head_counts[call.layer] = captured.request.query.shape[1]
        for edit in self.edits:
            if edit.layer in (call.layer, call.name):
                if self._paused:
                    if isinstance(edit.patch, Freeze):
                        captured.output_listeners.append(partial(edit.patch.remember, call))
                    continue
                self._applied.add(edit.layer)
                _apply(edit, captured, call)

    def effect(self, inputs: Any, before: Outcome | None = None) -> Effect:
        """Measure the effect of the changes on the model's output.

        inputs: the model's arguments as a dict, a tuple, or one argument. before: the output without the changes, if known already.
        """
        with torch.no_grad(), evaluation_mode(self.model):
            if before is None:
                with self.paused():
                    before = outcome(self.model, inputs)
            after = outcome(self.model, inputs)
        if unknown := self._unapplied():
            raise IndexError(f"changed layers that never ran: {unknown}; the model ran layers {self._known_layers()}")
        return Effect.of(before, after, inputs)

    def importance(self, inputs: Any, *, layers: Iterable[int] | None = None, progress: bool = True) -> Importance:
        """Measure how much each head matters: the effect of muting it alone, on top of the changes already made.

        inputs: of the model.
        layers: which layers; all by default.
        progress: whether to print it.
        """
        with torch.no_grad(), evaluation_mode(self.model):
            before = outcome(self.model, inputs)
        chosen_layers = sorted(self._head_counts) if layers is None else list(layers)
        if unknown := [layer for layer in chosen_layers if layer not in self._head_counts]:
            raise IndexError(f"layers that never ran: {unknown}; the model ran layers {self._known_layers()}")
        effects: dict[tuple[int, int], Effect] = {}
        heads = [(layer, head) for layer in chosen_layers for head in range(self._head_counts[layer])]
        for layer, head in with_progress(heads, "muting heads", progress):
            self.edits.append(_Edit(layer, (head,), "mute"))
            try:
                effects[layer, head] = self.effect(inputs, before)
            finally:
                self.edits.pop()
        return Importance(effects)

    def _unapplied(self) -> str:
        return ", ".join(str(edit.layer) for edit in self.edits if edit.layer not in self._applied)

    def _known_layers(self) -> str:
        return f"0 … {len(self._layers) - 1}" if self._layers else "none (it ran no attention that can be changed)"


def _apply(edit: _Edit, captured: CapturedAttention, call: LayerCall) -> None:
    """Apply one change to an attention that has not run yet."""
    request = captured.request
    h = request.query.shape[1]
    heads = range(h) if edit.heads is None else edit.heads
    if any(not 0 <= head < h for head in heads):
        raise IndexError(f"{edit}: layer {call.layer} ({call.name}) has heads 0 … {h - 1}")
    if edit.patch is not None:
        captured.output_edits.append(partial(edit.patch.apply, captured, call, list(heads)))
        return
    if edit.operation == "mute":
        muted = torch.zeros(h, dtype=torch.bool, device=request.query.device) if captured.muted is None else captured.muted.clone()
        muted[list(heads)] = True
        captured.muted = muted
        return
    if edit.operation == "temperature" and isinstance(request.choice, GivenWeights):
        raise ValueError(f"{edit}: layer {call.layer} ({call.name}) makes its weights without a softmax, which has no temperature")
    captured.altered = True
    if edit.operation == "temperature":
        captured.request = _with_temperature(request, list(heads), edit.value)
        return
    visible = ~prefix(int(edit.value)) if edit.operation == "forget" else _window(captured, int(edit.value))
    by_head = visible if edit.heads is None else per_head([visible if head in heads else everything() for head in range(h)])
    captured.request = dataclasses.replace(request, mask=by_head if request.mask is None else request.mask & by_head)


def _window(captured: CapturedAttention, n: int) -> Mask:
    """Return the mask of the keys at most n positions from the query, whose position a static cache does not put at the end."""
    _, _, L, S = captured.request.sizes
    first, device = first_query(captured), captured.request.query.device
    if first == S - L:
        return window(n, n)
    offset = torch.arange(S, device=device) - (torch.arange(L, device=device) + first).unsqueeze(-1)
    return dense(offset.abs() <= n)


def _with_temperature(request: Request, heads: list[int], temperature: float) -> Request:
    """Return the request with the scores of some heads divided by a temperature."""
    dtype = accumulator(request.query.dtype)
    factor = torch.ones(request.query.shape[1], dtype=dtype, device=request.query.device)
    factor[heads] = 1 / temperature
    beta: Tensor = request.beta * factor  # (h,)
    return dataclasses.replace(request, beta=beta, sinks=None if request.sinks is None else request.sinks * factor)
