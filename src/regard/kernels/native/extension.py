"""The compiled extension `regard._native`, or None where this installation has none, and why."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
from typing import TYPE_CHECKING

_load_error: str | None = None  # of an extension that exists

if TYPE_CHECKING:
    import regard._native as compiled
else:
    try:
        compiled = importlib.import_module("regard._native")
    except ModuleNotFoundError:  # not built: `streamed` and `fused` are used instead
        compiled = None
    except ImportError as error:
        compiled, _load_error = None, str(error)


def instruction_set() -> str | None:
    """The instruction set the compiled kernels run with; None if this installation has none.

    >>> instruction_set() in (None, "baseline", "avx2", "avx512", "avx512_bf16", "neon")
    True
    """
    return None if compiled is None else compiled.instruction_set()


def missing_reason() -> str | None:
    """Why this installation has no compiled kernels; None if it has them.

    The build stores its first error in the package's metadata (native/build_backend.py).
    """
    if compiled is not None:
        return None
    if _load_error is not None:
        return f"built, but they cannot be loaded: {_load_error}"
    try:
        record = json.loads(importlib.metadata.distribution("regard").read_text("native_build.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        record = {}
    error = record.get("error", "the installation does not say why")
    return f"left out on purpose: {error}" if record.get("status") == "skipped" else f"not built: {error}"


__all__ = ["compiled", "instruction_set", "missing_reason"]
