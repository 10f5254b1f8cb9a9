"""The base class of `watch` and `change`: hooks on one model that track which module runs and number its attention calls."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

from ...kernels.kernel import Result
from ..sighting import Missed
from .captured import CapturedAttention
from .interception import READABLE_CALLS, install, thread, uninstall

_Self = TypeVar("_Self", bound="ModelHooks")
_LEAVES = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.Dropout, nn.Identity, nn.Conv1d, nn.Conv2d, nn.GELU, nn.ReLU, nn.SiLU)
_OWN_SOFTMAX = f"it computes its weights with its own softmax, which cannot be captured; make it call {READABLE_CALLS}"
_OTHER_THREAD = "it ran in another thread, which this block does not cover; open a block in that thread"


class LayerCall(NamedTuple):
    """Which layer of the model an attention call belongs to, and its number among the calls of that layer."""

    layer: int
    call: int
    name: str
    step: int = 0  # the decoding step, for a decoder that attends to its source once per token in one forward pass


class ModelHooks:
    """Hooks on a model for the duration of a `with` block, in one thread.

    Layers are numbered in the order in which they first run. A module that runs several times in one forward pass (shared weights) is
    several layers, unless it sets `every_step`. A layer runs again, as its next call, in another forward pass or decoding step.
    """

    uses_regard_kernels = False  # whether transformers models run on regard's kernels inside the block

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model is a {type(model).__name__}; expected a torch.nn.Module")
        self.model = model
        self._names = {id(module): name for name, module in model.named_modules()}
        self._running: list[nn.Module] = []
        self._repeats: dict[str, int] = {}
        self._layers: dict[tuple[str, int], int] = {}
        self._calls: dict[int, int] = {}
        self._missed: dict[str, Missed] = {}
        self._exit = ExitStack()
        self._thread: int | None = None

    # Overridden by blocks that change or record attention

    def alter(self, captured: CapturedAttention, call: LayerCall) -> None:
        """Change the attention before it runs."""

    def observe(self, captured: CapturedAttention, call: LayerCall) -> Result | None:
        """Record the attention; returns its result if this block has run it."""
        return None

    def forward_begins(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called when a forward pass of the model (or of a part of it that is called directly) begins."""

    # Opening and closing

    def open(self: _Self) -> _Self:
        """Install the hooks and patches; `close` removes them."""
        from .torch_function_mode import AttentionMode
        from .transformers_calls import regard_attention

        if self._thread is not None:
            raise RuntimeError("this block is already open; create a second watch or change object instead of reusing it")
        self._thread = threading.get_ident()
        with ExitStack() as stack:
            install()
            stack.callback(uninstall)
            self._add_hooks(stack)
            if self.uses_regard_kernels:
                stack.enter_context(regard_attention(self.model))
            stack.enter_context(_without_compilation())
            stack.enter_context(AttentionMode(self))
            thread.blocks.append(self)
            stack.callback(thread.blocks.remove, self)
            self._exit = stack.pop_all()
        return self

    def close(self) -> None:
        """Remove the hooks and patches."""
        from .sdpa_arguments import clear_mask_cache

        self._exit.close()
        clear_mask_cache()
        self._thread = None

    def _add_hooks(self, stack: ExitStack) -> None:
        for module in self.model.modules():
            if isinstance(module, torch.jit.ScriptModule) or (isinstance(module, _LEAVES) and module is not self.model):
                continue
            before = module.register_forward_pre_hook(self._enter, with_kwargs=True)
            stack.callback(before.remove)
            after = module.register_forward_hook(self._leave, always_call=True)
            stack.callback(after.remove)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread:
            self._missed.setdefault("another thread", Missed(type(self.model).__name__, (), _OTHER_THREAD))
            return
        if not self._running:
            self._repeats.clear()
            self.forward_begins(args, kwargs)
        self._running.append(module)

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if threading.get_ident() == self._thread and self._running and self._running[-1] is module:
            self._running.pop()

    # The module that runs, and its number

    def covers(self, module: nn.Module | None) -> bool:
        """Return whether a call (of this module, if it is known) belongs to this block's model."""
        return bool(self._running) if module is None else id(module) in self._names

    def module_path(self, module: nn.Module | None = None) -> str:
        """Return the name in the model of this module, or of the one that runs."""
        module = module if module is not None and id(module) in self._names else (self._running[-1] if self._running else None)
        return "" if module is None else self._names.get(id(module), "")

    def number_call(self, module: nn.Module | None) -> LayerCall | None:
        """Return layer and call number of an attention; None if it does not belong to this model."""
        if not self.covers(module):
            return None
        name = self.module_path(module)
        repeat = self._repeats.get(name, 0)
        self._repeats[name] = repeat + 1
        running = module if module is not None and id(module) in self._names else self._running[-1]
        step = repeat if getattr(running, "every_step", False) else 0
        layer = self._layers.setdefault((name, repeat - step), len(self._layers))
        call = self._calls.get(layer, 0)
        self._calls[layer] = call + 1
        return LayerCall(layer, call, name, step)

    def report_missed(self, shape: tuple[int, ...], advice: str = _OWN_SOFTMAX) -> None:
        """Add the running module to `missed`: its attention cannot be captured."""
        name = self.module_path()
        kind = type(self._running[-1] if self._running else self.model).__name__
        self._missed.setdefault(name, Missed(f"{name} ({kind})" if name else kind, shape, advice))

    @property
    def missed(self) -> tuple[Missed, ...]:
        """Attention that ran and could not be captured."""
        return tuple(self._missed.values())


def _without_compilation() -> Any:
    """Make compiled models run uncompiled inside the block, because compiled code does not call the patched functions."""
    import sys
    from contextlib import nullcontext

    if "torch._dynamo" not in sys.modules or torch.compiler.is_compiling():
        return nullcontext()
    return torch.compiler.set_stance("force_eager")
