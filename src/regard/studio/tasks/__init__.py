"""The heavy work, done in the worker: one function a task, `task(bench, **arguments) -> JSON values`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .bench import Bench
from .looking import look, tile, what_if
from .meanings import meanings
from .translating import translate

TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "look": look,
    "tile": tile,
    "what_if": what_if,
    "meanings": meanings,
    "translate": translate,
}

__all__ = ["TASKS", "Bench"]
