"""Public names of a package that are imported on first use (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, names: Mapping[str, str], submodules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package.

    names       public name → the submodule that defines it
    submodules  submodules that are imported on first use too

    Type checkers read the same names from imports under `if TYPE_CHECKING:`, so the package defines the two functions only
    `if not TYPE_CHECKING:`; a `__getattr__` would make a checker accept every name.
    """

    def get_attribute(name: str) -> Any:
        if name in names:
            value = getattr(import_module(f"{package}.{names[name]}"), name)
            setattr(sys.modules[package], name, value)  # the next access does not come here
            return value
        if name in submodules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names, *submodules})

    return get_attribute, list_names
