"""Where every attention a watched model makes comes together: one record of it, and who is looking.

Patches on torch, transformers and our own door are put in when the first lens of the process opens and taken out when the last one
closes. What they catch is handed to the lenses of the calling thread; in other threads they pass everything through.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .. import attention as door
from ..kernels.spec import Kernel, Result, Spec

if TYPE_CHECKING:
    from .lens import Lens

BETTER = "torch.nn.functional.scaled_dot_product_attention or regard.attend"
choose = door._choose  # the door's own; a patched one stands in its place while a lens is open


@dataclass(eq=False)
class Caught:
    """One attention about to happen."""

    spec: Spec
    own: Callable[[], Result]  # the model's own kernel
    own_name: str
    module: nn.Module | None = None
    cross: bool | None = None  # None: not known
    query_at: int | None = None  # where in the text the first query stands; None: the queries are the last
    key_at: int = 0
    beside: bool = False  # only look: the output is already made
    altered: bool = False
    muted: Tensor | None = None  # (h,) bool: heads whose output is replaced by zero
    checks: list[Callable[[float], None]] = field(default_factory=list)  # told how far the output made beside it was off

    def run(self) -> Result:
        """The model's own output, or that of the altered attention; muted heads still in it."""
        if not self.altered:
            return self.own()
        return choose(self.spec, "auto")[0].run(self.spec)

    def mute(self, result: Result) -> Result:
        if self.muted is None:
            return result
        return dataclasses.replace(result, output=result.output.masked_fill(self.muted.view(1, -1, 1, 1), 0))


class _State(threading.local):
    def __init__(self) -> None:
        self.lenses: list[Lens] = []
        self.claimed = 0
        self.beside: list[Caught] | None = None


state = _State()


@contextmanager
def claimed() -> Iterator[None]:
    """While an attention is being handled, what runs inside is nobody's business."""
    state.claimed += 1
    try:
        yield
    finally:
        state.claimed -= 1


def watched(module: nn.Module | None = None) -> bool:
    """Whether a lens of this thread is looking at what runs now."""
    return not state.claimed and any(lens.covers(module) for lens in state.lenses)


def dispatch(caught: Caught) -> Result:
    """Let every open lens alter, then look at, one attention; the result the model goes on with."""
    if state.beside is not None:
        caught.beside = True
    lenses = [(lens, place) for lens in state.lenses if (place := lens.locate(caught.module)) is not None]
    with claimed():
        for lens, place in lenses:
            lens.alter(caught, place)
        result: Result | None = None
        for lens, place in lenses:
            found = lens.see(caught, place)
            result = found if result is None else result
        if result is None:
            result = caught.run()
        if state.beside is not None:
            state.beside.append(caught)
        return caught.mute(result)


# Our own layers: the door asks for a kernel, and gets one that is looked at.


class _Looked:
    """A kernel whose run is caught."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self.name = kernel, kernel.name

    def refuses(self, spec: Spec) -> str | None:
        return self._kernel.refuses(spec)

    def bytes(self, spec: Spec) -> int:
        return self._kernel.bytes(spec)

    def reason(self, spec: Spec) -> str:
        return self._kernel.reason(spec)

    def run(self, spec: Spec) -> Result:
        kernel = self._kernel
        return dispatch(Caught(spec, lambda: kernel.run(spec), kernel.name))


def _choose_looked(spec: Spec, name: str) -> tuple[Kernel, dict[str, str]]:
    kernel, rejected = choose(spec, name)
    return (_Looked(kernel) if watched() else kernel), rejected


# What is patched, once for the process

_lock = threading.Lock()
_open = 0
_undo: list[Callable[[], None]] = []


def replace(owner: Any, name: str, new: Any) -> Callable[[], None]:
    """Set an attribute; what puts the old one back."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    return lambda: setattr(owner, name, old)


def install() -> None:
    """Put the patches in, if no lens of any thread has yet."""
    global _open
    from . import hugging_face, torch_calls

    with _lock:
        _open += 1
        if _open > 1:
            return
        try:
            _undo.append(replace(door, "_choose", _choose_looked))
            _undo.extend(torch_calls.patches())
            _undo.extend(hugging_face.patches())
            # The fast path of nn.TransformerEncoderLayer is one opaque operation: nothing inside it can be seen.
            fast = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)
            _undo.append(lambda: torch.backends.mha.set_fastpath_enabled(fast))
        except BaseException:
            _remove()
            _open -= 1
            raise


def uninstall() -> None:
    """Take the patches out, if this was the last open lens."""
    global _open
    with _lock:
        _open -= 1
        if _open == 0:
            _remove()


def _remove() -> None:
    while _undo:
        _undo.pop()()
