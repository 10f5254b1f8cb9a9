"""What watching and changing have in common: they open on one model, know which of its modules runs, and number its attentions."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ..kernels.spec import Result
from .catching import BETTER, Caught, install, state, uninstall
from .sighting import Missed

_Self = TypeVar("_Self", bound="Lens")
_LEAVES = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.Dropout, nn.Identity, nn.Conv1d, nn.Conv2d, nn.GELU, nn.ReLU, nn.SiLU)
_ADVICE = f"it makes its weights by a softmax of its own, which no one can look into; have it call {BETTER}"
_THREAD = "it also ran in another thread, where this block does not look; open the block in that thread"


class Place(NamedTuple):
    """Which attention of the model a call is."""

    layer: int
    call: int
    name: str
    step: int = 0  # of a decoder that asks its source once a word, all in one pass


class Lens:
    """Open on a model for the length of a `with` block, in one thread.

    Layers are numbered in the order in which they first run; a module that runs several times in one pass (shared weights) is a layer
    each time, unless it says `every_step`. A call is a repetition of a layer: another forward pass, or the next step of a generation.
    """

    borrows = False  # whether transformers models are switched to our attention, or keep their own

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

    # What a lens may do with what it catches

    def alter(self, caught: Caught, place: Place) -> None:
        """Change the attention before it runs."""

    def see(self, caught: Caught, place: Place) -> Result | None:
        """Look at it; a result means that the lens has run it."""
        return None

    def began(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A pass through the model (or, called on its own, a part of it) begins."""

    # Opening and closing

    def open(self: _Self) -> _Self:
        from .hugging_face import borrow
        from .torch_calls import Mode

        if self._thread is not None:
            raise RuntimeError("this block is already open; make a new one for a second use")
        self._thread = threading.get_ident()
        with ExitStack() as stack:
            install()
            stack.callback(uninstall)
            self._hook(stack)
            if self.borrows:
                stack.enter_context(borrow(self.model))
            stack.enter_context(_eager())
            stack.enter_context(Mode(self))
            state.lenses.append(self)
            stack.callback(state.lenses.remove, self)
            self._exit = stack.pop_all()
        return self

    def close(self) -> None:
        from .torch_calls import forget_masks

        self._exit.close()
        forget_masks()
        self._thread = None

    def _hook(self, stack: ExitStack) -> None:
        for module in self.model.modules():
            if isinstance(module, torch.jit.ScriptModule) or (isinstance(module, _LEAVES) and module is not self.model):
                continue
            before = module.register_forward_pre_hook(self._enter, with_kwargs=True)
            stack.callback(before.remove)
            after = module.register_forward_hook(self._leave, always_call=True)
            stack.callback(after.remove)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread:
            self._missed.setdefault("another thread", Missed(type(self.model).__name__, (), _THREAD))
            return
        if not self._running:
            self._repeats.clear()
            self.began(args, kwargs)
        self._running.append(module)

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if threading.get_ident() == self._thread and self._running and self._running[-1] is module:
            self._running.pop()

    # Naming what runs

    def covers(self, module: nn.Module | None) -> bool:
        """Whether a call belongs to this lens's model."""
        return bool(self._running) if module is None else id(module) in self._names

    def current(self, module: nn.Module | None = None) -> str:
        """The path of the module that runs, or of the given one."""
        module = module if module is not None and id(module) in self._names else (self._running[-1] if self._running else None)
        return "" if module is None else self._names.get(id(module), "")

    def locate(self, module: nn.Module | None) -> Place | None:
        """Number one call; None if it is not this model's."""
        if not self.covers(module):
            return None
        name = self.current(module)
        turn = self._repeats.get(name, 0)
        self._repeats[name] = turn + 1
        running = module if module is not None and id(module) in self._names else self._running[-1]
        step = turn if getattr(running, "every_step", False) else 0
        layer = self._layers.setdefault((name, turn - step), len(self._layers))
        call = self._calls.get(layer, 0)
        self._calls[layer] = call + 1
        return Place(layer, call, name, step)

    def miss(self, shape: tuple[int, ...], advice: str = _ADVICE) -> None:
        """Note an attention that nobody can see."""
        name = self.current()
        kind = type(self._running[-1] if self._running else self.model).__name__
        self._missed.setdefault(name, Missed(f"{name} ({kind})" if name else kind, shape, advice))

    @property
    def missed(self) -> tuple[Missed, ...]:
        return tuple(self._missed.values())


def _eager() -> Any:
    """Compiled code would not call what is patched: inside the block it runs uncompiled."""
    import sys
    from contextlib import nullcontext

    if "torch._dynamo" not in sys.modules or torch.compiler.is_compiling():
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def ids_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor | None, Tensor | None]:
    """The token ids a model was called with: (of its queries, of an encoder–decoder's source)."""

    def is_ids(x: Any) -> bool:
        return isinstance(x, Tensor) and x.dim() == 2 and x.dtype in (torch.int64, torch.int32)

    given = kwargs.get("input_ids")
    target = kwargs.get("decoder_input_ids")
    plain = [x for x in (*args, *(() if given is not None else kwargs.values())) if is_ids(x)]
    if target is not None:
        return target, given if is_ids(given) else (plain[0] if plain else None)
    if is_ids(given):
        return given, None
    return (plain[0] if plain else None), None
