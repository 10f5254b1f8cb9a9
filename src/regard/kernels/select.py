"""Select the kernel that runs a request, and intercept requests.

`execute` is what the entry points call. `intercept` is the one supported way to observe or change every request before it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import torch

from ..tracing import readable
from .fused import Fused
from .kernel import Kernel, Result, Selection
from .native import Native, instruction_set
from .reference import Reference
from .request import Request
from .rows import Rows
from .streamed import Streamed

Run: TypeAlias = Callable[[Request], Result]
Hook: TypeAlias = Callable[[Request, Run], Result]

KERNELS: dict[str, Kernel] = {kernel.name: kernel for kernel in (Native(), Fused(), Streamed(), Rows(), Reference())}
SMALL = 1 << 22  # below this many multiplications the call itself costs more than the arithmetic, and torch's SDPA is fastest

_COMPILED_FIRST = (KERNELS["native"], KERNELS["fused"], KERNELS["streamed"])
_FUSED_FIRST = (KERNELS["fused"], KERNELS["native"], KERNELS["streamed"])
_TORCH_ONLY = (KERNELS["fused"], KERNELS["streamed"])
_HAS_NATIVE = instruction_set() is not None  # read once: a graph of torch.compile cannot call into the extension


def order(request: Request) -> Iterator[Kernel]:
    """The kernels `kernel="auto"` tries, fastest first. The dense reference is never among them; `rows` under transforms and in graphs."""
    yield from _order(request)
    if not readable(request.query):
        yield KERNELS["rows"]


def _order(request: Request) -> tuple[Kernel, ...]:
    if not request.query.is_cpu or not _HAS_NATIVE:
        return _TORCH_ONLY
    # With a mask, keys and values are read once more before SDPA may run (`finite`), so that it is faster for fewer sizes. In half
    # precision the backward of torch's CPU kernel takes many times as long as ours.
    if request.needs_grad:
        limit = SMALL if request.mask is None else SMALL // 4
        small = request.work < limit and request.query.dtype not in (torch.bfloat16, torch.float16)
    else:
        small = request.work < SMALL and request.mask is None
    return _FUSED_FIRST if small else _COMPILED_FIRST


def select(request: Request) -> Selection:
    """The fastest kernel that supports the request within its limit_bytes, and why faster ones do not."""
    name = request.kernel
    if name != "auto" and name not in KERNELS:
        raise ValueError(f"kernel is {name!r}; expected 'auto' or one of {', '.join(map(repr, KERNELS))}")
    rejected: dict[str, str] = {}
    for kernel in order(request) if name == "auto" else (KERNELS[name],):
        why = kernel.refuses(request)
        if why is None and request.limit_bytes is not None:
            why = _over_limit(kernel.bytes(request), request.limit_bytes)
        if why is None:
            return Selection(kernel, rejected)
        rejected[kernel.name] = why
    reasons = "; ".join(f"{kernel}: {why}" for kernel, why in rejected.items())
    if any("limit_bytes" in why for why in rejected.values()):
        raise MemoryError(f"no kernel fits limit_bytes={request.limit_bytes} ({reasons}); raise the limit or shorten the input")
    raise ValueError(f"kernel={name!r} does not support this request ({reasons}); use kernel='auto'")


def _over_limit(need: int, limit: int) -> str | None:
    return None if need <= limit else f"needs {readable_bytes(need)}, over limit_bytes={readable_bytes(limit)}"


def readable_bytes(count: int) -> str:
    """A number of bytes with three digits and a unit.

    >>> readable_bytes(4_294_967_296)
    '4.29 GB'
    """
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


_hooks: tuple[Hook, ...] = ()
_lock = threading.Lock()


def execute(request: Request) -> Result:
    """Run a request: through the hooks of `intercept`, the last registered first, then on the selected kernel.

    request: what to compute.

    Returns the :class:`Result`.

    >>> from regard.kernels import Request
    >>> q = torch.zeros(1, 2, 3, 4)
    >>> execute(Request.of(q, q, q)).output.shape
    torch.Size([1, 2, 3, 4])
    """
    return _run(request) if not _hooks else _run_through(_hooks, request)


def intercepted() -> bool:
    """Whether any hook is registered."""
    return bool(_hooks)


@contextmanager
def intercept(hook: Hook) -> Iterator[None]:
    """Context manager: within the block, every request of the process is passed to `hook(request, run)`, which returns its result.

    `run(request)` runs a request (this one, or a changed copy) as it would have run without the hook. A hook receives the calls of
    all threads, and must pass those it does not handle to `run`.

    hook: the function.

    >>> from regard import attend
    >>> def print_shape(request, run):
    ...     print(tuple(request.query.shape))
    ...     return run(request)
    >>> q = torch.zeros(2, 3, 4)
    >>> with intercept(print_shape):
    ...     _ = attend(q, q, q)
    (2, 1, 3, 4)
    """
    global _hooks
    with _lock:
        _hooks = (*_hooks, hook)
    try:
        yield
    finally:
        with _lock:
            position = len(_hooks) - 1 - _hooks[::-1].index(hook)
            _hooks = _hooks[:position] + _hooks[position + 1 :]


def _run(request: Request) -> Result:
    selection = select(request)
    result = selection.kernel.run(request)
    result.selection = selection
    return result


def _run_through(hooks: tuple[Hook, ...], request: Request) -> Result:
    if not hooks:
        return _run(request)
    return hooks[-1](request, partial(_run_through, hooks[:-1]))


__all__ = ["KERNELS", "SMALL", "execute", "intercept", "intercepted", "order", "readable_bytes", "select"]
