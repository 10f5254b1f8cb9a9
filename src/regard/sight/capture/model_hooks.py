"""What `watch` and `change` have in common: hooks on one model, which tell the module that runs and number its attentions."""

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
_OWN_SOFTMAX = f"it makes its weights by a softmax of its own, which no one can look into; have it call {READABLE_CALLS}"
_OTHER_THREAD = "it also ran in another thread, where this block does not look; open the block in that thread"


class LayerCall(NamedTuple):
    """Which attention of the model a call is."""

    layer: int
    call: int
    name: str
    step: int = 0  # of a decoder that attends to its source once a word, all in one pass


class ModelHooks:
    """Hooks on a model for the length of a `with` block, in one thread.

    Layers are numbered in the order in which they first run; a module that runs several times in one pass (shared weights) is a layer
    each time, unless it says `every_step`. A call is a repetition of a layer: another forward pass, or the next step of a generation.
    """

    uses_regard_kernels = False  # whether transformers models are switched to our attention, or keep their own

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

    # What a block may do with a captured attention

    def alter(self, captured: CapturedAttention, call: LayerCall) -> None:
        """Change the attention before it runs."""

    def observe(self, captured: CapturedAttention, call: LayerCall) -> Result | None:
        """Read the attention; a result means that this block has run it."""
        return None

    def forward_begins(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A forward pass of the model (or of a part of it that is called directly) begins."""

    # Opening and closing

    def open(self: _Self) -> _Self:
        """Install the hooks and patches; `close` removes them."""
        from .torch_function_mode import AttentionMode
        from .transformers_calls import regard_attention

        if self._thread is not None:
            raise RuntimeError("this block is already open; make a new one for a second use")
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

    # Which module runs

    def covers(self, module: nn.Module | None) -> bool:
        """Whether a call (of this module, if it is known) belongs to this block's model."""
        return bool(self._running) if module is None else id(module) in self._names

    def module_path(self, module: nn.Module | None = None) -> str:
        """The path in the model of this module, or of the one that runs."""
        module = module if module is not None and id(module) in self._names else (self._running[-1] if self._running else None)
        return "" if module is None else self._names.get(id(module), "")

    def number_call(self, module: nn.Module | None) -> LayerCall | None:
        """Layer and call number of an attention; None if it is not this model's."""
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
        """Note an attention that cannot be captured."""
        name = self.module_path()
        kind = type(self._running[-1] if self._running else self.model).__name__
        self._missed.setdefault(name, Missed(f"{name} ({kind})" if name else kind, shape, advice))

    @property
    def missed(self) -> tuple[Missed, ...]:
        """Attention that ran and could not be captured."""
        return tuple(self._missed.values())


def _without_compilation() -> Any:
    """Compiled code would not call what is patched: inside the block it runs uncompiled."""
    import sys
    from contextlib import nullcontext

    if "torch._dynamo" not in sys.modules or torch.compiler.is_compiling():
        return nullcontext()
    return torch.compiler.set_stance("force_eager")
