"""The base class of `watch` and `change`: hooks on one model that track which module runs and number its attention calls."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

from ...kernels.kernel import Result
from ..sighting import Missed
from .captured import CapturedAttention
from .interception import READABLE_CALLS, install, thread, uninstall
from .sparse_positions import SPARSE_MODULES, Positions
from .torch_calls import SCRIPT, script_has_attention
from .trails import is_readable

_Self = TypeVar("_Self", bound="ModelHooks")
_LEAVES = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.Dropout, nn.Identity, nn.Conv1d, nn.Conv2d, nn.GELU, nn.ReLU, nn.SiLU)
_NO_WEIGHTS = (
    "it is named attention and no weights were found in it: it may be linear or recurrent attention, which has none; else make it call "
    f"{READABLE_CALLS}"
)
_ONLY_ZEROS = "it returns only zeros, and so attends to nothing: it may need a kernel of its own that is not installed here"
_NAMED_ATTENTION = re.compile(r"(attention|attn|deltanet|retention|timemix(ing)?)(v\d+|\d+|1d|2d)?$", re.IGNORECASE)
_NOT_OVER_TOKENS = re.compile(
    r"channel|spatialatt|gate(?!d)|mixergated|external|largekernel", re.IGNORECASE
)  # GatedDeltaNet is over tokens
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
    several layers, unless it sets `every_step` or attends to the same values each time with one query, as a recurrent decoder does
    (`every_step = False`: several layers all the same). A layer runs again, as its next call, in another forward pass or decoding step.
    """

    uses_regard_kernels = False  # whether transformers models run on regard's kernels inside the block

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model is a {type(model).__name__}; expected a torch.nn.Module")
        self.model = model
        self._names = {id(module): name for name, module in model.named_modules()}
        self.running: list[nn.Module] = []
        self.batch_sizes: list[int | None] = []  # per running module: the first axis of its first argument
        self._found_before: list[int] = []  # per running module: attentions found before it began
        self._found = 0
        self._storages: set[int] | None = None
        self._repeats: dict[str, int] = {}
        self._first_values: dict[str, torch.Tensor] = {}  # per module: the values of its first call in this forward pass
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

    def decoder_begins(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called when a part of the model that is named decoder begins."""

    # Opening and closing

    def open(self: _Self) -> _Self:
        """Install the hooks and patches; `close` removes them."""
        from .recurrent_calls import recurrent_attention
        from .transformers_calls import regard_attention

        if self._thread is not None:
            raise RuntimeError("this block is already open; create a second watch or change object instead of reusing it")
        self._thread = threading.get_ident()
        with ExitStack() as stack:
            install()
            stack.callback(uninstall)
            self._add_hooks(stack)
            if self.uses_regard_kernels and not _runs_twice_or_never(self.model):
                stack.enter_context(regard_attention(self.model))
            stack.enter_context(recurrent_attention(self.model))
            stack.enter_context(_without_compilation())
            thread.blocks.append(self)
            stack.callback(thread.blocks.remove, self)
            stack.enter_context(_function_mode())
            self._exit = stack.pop_all()
        return self

    def close(self) -> None:
        """Remove the hooks and patches."""
        from .sdpa_arguments import clear_mask_cache

        self._exit.close()
        self._first_values.clear()
        clear_mask_cache()
        self._thread = None

    def _add_hooks(self, stack: ExitStack) -> None:
        for name, module in self.model.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                self._report_script(name, module)
                continue
            if isinstance(module, _LEAVES) and module is not self.model:
                continue
            before = module.register_forward_pre_hook(self._enter, with_kwargs=True)
            stack.callback(before.remove)
            after = module.register_forward_hook(self._leave, with_kwargs=True, always_call=True)
            stack.callback(after.remove)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread:
            self._missed.setdefault("another thread", Missed(type(self.model).__name__, (), _OTHER_THREAD))
            return
        if not self.running:
            self._repeats.clear()
            self._first_values.clear()
            thread.trails = False
            self.forward_begins(args, kwargs)
        elif self._names[id(module)].rpartition(".")[2] == "decoder":
            self.decoder_begins(args, kwargs)
        self.running.append(module)
        shape = _shape(args or tuple(kwargs.values()))
        self.batch_sizes.append(shape[0] if len(shape) > 1 else None)
        self._found_before.append(self._found)
        if thread.positions is None and type(module).__name__ in SPARSE_MODULES:
            thread.positions = Positions.of(self.running, args, kwargs)

    def _leave(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Return the module's new output if its attention was changed after it ran; None: it keeps its own."""
        if threading.get_ident() != self._thread or module not in self.running:
            return None
        while self.running[-1] is not module:  # modules that an error left
            self.running.pop()
            self.batch_sizes.pop()
            self._found_before.pop()
        name, changed = type(module).__name__, None
        if thread.positions is not None and name in SPARSE_MODULES:
            positions, thread.positions = thread.positions, None
            changed = positions.finish()
        if self._found_before.pop() == self._found and _is_attention(module) and not self._is_part_of_attention():
            inputs = (*args, *kwargs.values())
            if not any(output is x for x in inputs):  # an adapter that had nothing to attend to returns its input
                self.report_missed(_shape(inputs), _ONLY_ZEROS if _is_zero(output) else _NO_WEIGHTS)
        self.running.pop()
        self.batch_sizes.pop()
        return changed

    def _is_part_of_attention(self) -> bool:
        """Return whether the running module is inside one that is named attention, in which some was found already (NeoMME)."""
        around = zip(self.running[:-1], self._found_before, strict=True)
        return any(before < self._found and _is_attention(module) for module, before in around)

    def _report_script(self, name: str, module: torch.jit.ScriptModule) -> None:
        """Add a TorchScript module to `missed` if its code holds attention and no module around it is one: nothing in it can be seen."""
        around = name.rpartition(".")[0]
        graph = getattr(module, "inlined_graph", None)
        if (name and f"TorchScript {around}" in self._missed) or graph is None:
            return
        if script_has_attention(graph):
            label = f"{name} ({type(module).__name__})" if name else type(module).__name__
            self._missed[f"TorchScript {name}"] = Missed(label, (), SCRIPT)

    @property
    def own_storages(self) -> set[int]:
        """Addresses of the model's parameters and buffers."""
        if self._storages is None:
            tensors = (*self.model.parameters(), *self.model.buffers())
            self._storages = {x.untyped_storage().data_ptr() for x in tensors if is_readable(x)}
        return self._storages

    # The module that runs, and its number

    def covers(self, module: nn.Module | None) -> bool:
        """Return whether a call (of this module, if it is known) belongs to this block's model."""
        return bool(self.running) if module is None else id(module) in self._names

    def module_path(self, module: nn.Module | None = None) -> str:
        """Return the name in the model of this module, or of the one that runs."""
        module = module if module is not None and id(module) in self._names else (self.running[-1] if self.running else None)
        return "" if module is None else self._names.get(id(module), "")

    def number_call(self, module: nn.Module | None, values: torch.Tensor | None = None) -> LayerCall | None:
        """Return layer and call number of an attention; None if it does not belong to this model. values: if it has a single query."""
        if not self.covers(module):
            return None
        name = self.module_path(module)
        self._found += 1
        repeat = self._repeats.get(name, 0)
        self._repeats[name] = repeat + 1
        running = module if module is not None and id(module) in self._names else self.running[-1]
        is_step = getattr(running, "every_step", None)
        if is_step is None:
            is_step = values is not None and self._is_same(name, values)
        step = repeat if is_step else 0
        layer = self._layers.setdefault((name, repeat - step), len(self._layers))
        call = self._calls.get(layer, 0)
        self._calls[layer] = call + 1
        return LayerCall(layer, call, name, step)

    def _is_same(self, name: str, values: torch.Tensor) -> bool:
        """Return whether these values are those of the module's first call in this forward pass, and not numbers in the same place."""
        if not is_readable(values):
            return False
        first = self._first_values.setdefault(name, values)
        return first is not values and first.data_ptr() == values.data_ptr() and first.shape == values.shape

    def report_missed(self, shape: tuple[int, ...], advice: str) -> None:
        """Add the running module to `missed`: its attention cannot be captured."""
        self._found += 1
        name = self.module_path()
        kind = type(self.running[-1] if self.running else self.model).__name__
        self._missed.setdefault(name, Missed(f"{name} ({kind})" if name else kind, shape, advice))

    @property
    def missed(self) -> tuple[Missed, ...]:
        """Attention that ran and could not be captured."""
        return tuple(self._missed.values())


def _runs_twice_or_never(model: nn.Module) -> bool:
    """Return whether layers are recomputed in the backward pass, maybe after the block, or the model has no numbers (meta device).

    Then transformers models keep their own attention function, as with kernel="own".
    """
    if any(getattr(module, "gradient_checkpointing", False) and module.training for module in model.modules()):
        return True
    return any(x.device.type == "meta" for x in model.parameters())


def _is_attention(module: nn.Module) -> bool:
    name = type(module).__name__
    return bool(_NAMED_ATTENTION.search(name)) and not _NOT_OVER_TOKENS.search(name)


def _is_zero(output: Any) -> bool:
    """Return whether the output of a module, or its first part, is all zeros."""
    first = output[0] if isinstance(output, list | tuple) and output else output
    return isinstance(first, torch.Tensor) and is_readable(first) and not bool(first.any())


def _shape(args: tuple[Any, ...]) -> tuple[int, ...]:
    return next((tuple(x.shape) for x in args if isinstance(x, torch.Tensor)), ())


@contextmanager
def _function_mode() -> Iterator[None]:
    """Enter the torch function mode with the first open block of the thread."""
    from .torch_function_mode import AttentionMode

    if len(thread.blocks) > 1:
        yield
        return
    with AttentionMode() as thread.mode:
        try:
            yield
        finally:
            thread.mode = None


def _without_compilation() -> Any:
    """Make compiled models run uncompiled inside the block, because compiled code does not call the patched functions."""
    import sys
    from contextlib import nullcontext

    if "torch._dynamo" not in sys.modules or torch.compiler.is_compiling():
        return nullcontext()
    return torch.compiler.set_stance("force_eager")
