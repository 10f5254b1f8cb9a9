"""Build a model without memory for its weights, to compare its shapes with those of a file first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

__all__ = ["empty_model"]

_Model = TypeVar("_Model", bound=nn.Module)
_INITIALISERS = frozenset(
    f"{name}_"
    for name in ("normal", "uniform", "trunc_normal", "xavier_normal", "xavier_uniform", "kaiming_normal", "kaiming_uniform", "orthogonal")
)


class _WithoutInitialValues(TorchFunctionMode):
    """Skips random initial values, which a tensor without memory cannot hold (torch would import its compiler to find out)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _INITIALISERS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def empty_model(build: Callable[[], _Model], where: str) -> _Model:
    """Build a model on the meta device; sizes that do not fit each other are a ValueError that names the file `where`.

    >>> empty_model(lambda: nn.Linear(10**6, 10**6), "config.json").weight.is_meta
    True
    """
    try:
        with torch.device("meta"), _WithoutInitialValues():
            return build()
    except (RuntimeError, TypeError, ArithmeticError, AssertionError) as error:
        raise ValueError(f"{where}: no model can have the sizes in its config ({str(error).splitlines()[0]})") from error
