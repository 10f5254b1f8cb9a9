"""Install the patches that intercept attention, and pass each captured call to the open blocks of its thread.

The patches on torch, transformers and our own kernels are installed when the first `watch` or `change` block of the process opens and
removed when the last one closes. In threads without an open block they pass every call through.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ...kernels.kernel import Result
from .captured import CapturedAttention

if TYPE_CHECKING:
    from .model_hooks import ModelHooks

READABLE_CALLS = "torch.nn.functional.scaled_dot_product_attention or regard.attend"


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.blocks: list[ModelHooks] = []  # open blocks, outermost first
        self.handling = 0  # > 0 while a captured attention is being run
        self.observed: list[CapturedAttention] | None = None  # see observe_only


thread = _ThreadState()


@contextmanager
def handling() -> Iterator[None]:
    """Calls made inside are part of an attention that is already captured, and are not captured again."""
    thread.handling += 1
    try:
        yield
    finally:
        thread.handling -= 1


@contextmanager
def observe_only() -> Iterator[list[CapturedAttention]]:
    """What is captured inside is only observed, because its output exists already; yields the list of it."""
    before, thread.observed = thread.observed, []
    try:
        yield thread.observed
    finally:
        thread.observed = before


def is_watched(module: nn.Module | None = None) -> bool:
    """Whether an open block of this thread covers what runs now (or this module)."""
    return not thread.handling and any(block.covers(module) for block in thread.blocks)


def dispatch(captured: CapturedAttention) -> Result:
    """Let every open block alter the attention, then observe it; returns the result the model continues with."""
    if thread.observed is not None:
        captured.output_exists = True
    blocks = [(block, call) for block in thread.blocks if (call := block.number_call(captured.module)) is not None]
    with handling():
        for block, call in blocks:
            block.alter(captured, call)
        result: Result | None = None
        for block, call in blocks:
            own_result = block.observe(captured, call)
            result = own_result if result is None else result
        if result is None:
            result = captured.run().result
        if thread.observed is not None:
            thread.observed.append(captured)
        return captured.without_muted(result)


_lock = threading.Lock()
_open_blocks = 0  # in all threads
_undo: list[Callable[[], None]] = []


def replace_attribute(owner: Any, name: str, new: Any) -> Callable[[], None]:
    """Set an attribute; returns the function that puts the old value back."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    return lambda: setattr(owner, name, old)


def install() -> None:
    """Install the patches, if no block of any thread has done so."""
    global _open_blocks
    from . import regard_calls, torch_calls, transformers_calls

    with _lock:
        _open_blocks += 1
        if _open_blocks > 1:
            return
        try:
            for source in (regard_calls, torch_calls, transformers_calls):
                _undo.extend(source.patches())
            # The fast path of nn.TransformerEncoderLayer is one opaque operation: nothing inside it can be captured.
            fast = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)
            _undo.append(lambda: torch.backends.mha.set_fastpath_enabled(fast))
        except BaseException:
            _remove()
            _open_blocks -= 1
            raise


def uninstall() -> None:
    """Remove the patches, if the last open block has closed."""
    global _open_blocks
    with _lock:
        _open_blocks -= 1
        if _open_blocks == 0:
            _remove()


def _remove() -> None:
    while _undo:
        _undo.pop()()
