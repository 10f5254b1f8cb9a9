"""Install the patches that intercept attention, and pass each captured call to the open blocks of its thread.

The patches on torch, transformers and our own kernels are installed when the first `watch` or `change` block of the process opens and
removed when the last one closes. In threads without an open block they pass every call through.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode_temporarily

from ...kernels.kernel import Result
from .captured import CapturedAttention

if TYPE_CHECKING:
    from .model_hooks import ModelHooks
    from .sparse_positions import Positions

READABLE_CALLS = "torch.nn.functional.scaled_dot_product_attention or regard.attend"


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.blocks: list[ModelHooks] = []  # open blocks, outermost first
        self.handling = 0  # > 0 while a captured attention runs
        self.observed: list[CapturedAttention] | None = None  # see observe_only
        self.cross: bool | None = None  # whether nn.MultiheadAttention, if it runs, got other keys than queries
        self.trails = False  # whether a tensor of this forward pass may hold scores or weights, see `trails`
        self.positions: Positions | None = None  # while a sparse attention runs, see `sparse_positions`
        self.mode: TorchFunctionMode | None = None  # the mode that sees every operation, see `torch_function_mode`


thread = _ThreadState()


@contextmanager
def handling() -> Iterator[None]:
    """Do not capture calls made inside: they are part of an attention that is captured already."""
    thread.handling += 1
    # Recording an attention takes hundreds of small operations, and a mode that looks at each of them would cost as much as they do.
    suspend = thread.mode is not None and _get_current_function_mode() is thread.mode
    try:
        with _pop_mode_temporarily() if suspend else nullcontext():
            yield
    finally:
        thread.handling -= 1


@contextmanager
def observe_only() -> Iterator[list[CapturedAttention]]:
    """Only observe the attention captured inside, because its output exists already; yields the list of captured calls."""
    before, thread.observed = thread.observed, []
    try:
        yield thread.observed
    finally:
        thread.observed = before


def is_recomputed_later() -> bool:
    """Return whether torch.utils.checkpoint will run this again in the backward pass, maybe after the block, and compare what was saved."""
    return torch.is_grad_enabled() and torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


@contextmanager
def describing() -> Iterator[None]:
    """Within it a call is described as a request, which leaves no trace in the model.

    torch's random state is restored if the model runs its own kernels, and nothing is saved for a backward pass that runs the layer again.
    """
    state = None if any(block.uses_regard_kernels for block in thread.blocks) else torch.get_rng_state()
    try:
        if is_recomputed_later():
            with torch.no_grad():
                yield
        else:
            yield
    finally:
        if state is not None:
            torch.set_rng_state(state)


def is_watched(module: nn.Module | None = None) -> bool:
    """Return whether an open block of this thread covers the module that runs now (or the given module)."""
    return not thread.handling and any(block.covers(module) for block in thread.blocks)


def dispatch(captured: CapturedAttention) -> Result:
    """Let every open block alter the attention, then observe it; returns the result for the model."""
    if thread.observed is not None:
        captured.output_exists = True
    _, _, L, S = captured.request.sizes
    values = captured.request.value if L == 1 and S > 1 else None
    blocks = [(block, call) for block in thread.blocks if (call := block.number_call(captured.module, values)) is not None]
    if 0 in captured.request.sizes:  # an empty batch, or no tokens: there are no weights to record or change
        blocks = []
    with handling():
        for block, call in blocks:
            block.alter(captured, call)
        result: Result | None = None
        for block, call in blocks:
            block_result = block.observe(captured, call)
            result = block_result if result is None else result
        if result is None:
            result = captured.run().result
        if thread.observed is not None:
            thread.observed.append(captured)
        return captured.with_output_edits(result)


_lock = threading.Lock()
_open_blocks = 0  # in all threads
_undo: list[Callable[[], None]] = []


def replace_attribute(owner: Any, name: str, new: Any) -> Callable[[], None]:
    """Set an attribute; returns a function that restores the old value."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    return lambda: setattr(owner, name, old)


def install() -> None:
    """Install the patches, unless a block of some thread has already done so."""
    global _open_blocks
    from . import regard_calls, torch_calls, transformers_calls

    with _lock:
        _open_blocks += 1
        if _open_blocks > 1:
            return
        try:
            for source in (regard_calls, torch_calls, transformers_calls):
                _undo.extend(source.patches())
            # The fast path of nn.TransformerEncoderLayer is one opaque operation, inside which nothing can be captured.
            fastpath_enabled = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)
            _undo.append(lambda: torch.backends.mha.set_fastpath_enabled(fastpath_enabled))
        except BaseException:
            _remove()
            _open_blocks -= 1
            raise


def uninstall() -> None:
    """Remove the patches when the last open block has closed."""
    global _open_blocks
    with _lock:
        _open_blocks -= 1
        if _open_blocks == 0:
            _remove()


def _remove() -> None:
    while _undo:
        _undo.pop()()
