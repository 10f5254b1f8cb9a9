"""Limits of the counts in configs, checked before anything of that size is made."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Collection
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_NAMES = {bool: "true or false", str: "a text"}

__all__ = ["MAX_LAYERS", "MAX_SIZE", "check_count", "check_counts", "check_fields"]

MAX_LAYERS = 1_000
MAX_SIZE = 100_000_000  # of every other count: widths, heads, vocabularies, positions; the product of two still fits 64 bits


def check_count(name: str, value: Any, least: int = 0) -> None:
    """Raise ValueError unless the count `name` of a config is a whole number between `least` and its limit.

    >>> check_count("layers", 10**9)
    Traceback (most recent call last):
        ...
    ValueError: layers is 1000000000; expected a whole number from 0 to 1,000
    """
    most = MAX_LAYERS if "layer" in name else MAX_SIZE
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} is {_short(value)}; expected a whole number from {least} to {most:,}")


def check_counts(config: Any, depth: int = 0) -> None:
    """Raise ValueError for a whole number in a config.json, nested or not, that is larger than any model has.

    >>> check_counts({"text_config": {"num_hidden_layers": 10**9}})
    Traceback (most recent call last):
        ...
    ValueError: num_hidden_layers is 1000000000; expected a whole number from 0 to 1,000
    """
    if depth > 50:
        raise ValueError("the config is nested too deeply")
    for name, value in config.items() if isinstance(config, dict) else ():
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) > MAX_SIZE)
        if whole and value > (MAX_LAYERS if str(name).endswith(("layers", "n_layer")) else MAX_SIZE):
            check_count(str(name), value)
        for part in value if isinstance(value, list) else [value]:
            check_counts(part, depth + 1)


def check_fields(config: Any, *, may_be_zero: Collection[str] = (), indices: Collection[str] = ()) -> None:
    """Raise ValueError for a field of a config dataclass that is not of its type: a count, a finite number, a bool, a text or a choice.

    Counts are 1 or more, but for those in `may_be_zero`; `indices` may be negative.
    """
    hints = get_type_hints(type(config))
    for field in dataclasses.fields(config):
        hint, value = hints[field.name], getattr(config, field.name)
        options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        if value is None and type(None) in options:
            continue
        kind = next(option for option in options if option is not type(None))
        if kind is int and field.name in indices:
            check_count(field.name, value, -MAX_LAYERS)
        elif kind is int:
            check_count(field.name, value, 0 if field.name in may_be_zero else 1)
        elif get_origin(kind) is Literal:
            if value not in get_args(kind):
                raise ValueError(f"{field.name}={_short(value)} is unknown; expected one of {', '.join(map(str, get_args(kind)))}")
        elif kind is float:
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
                raise ValueError(f"{field.name} is {_short(value)}; expected a number")
        elif not isinstance(value, get_origin(kind) or kind):
            raise ValueError(f"{field.name} is {_short(value)}; expected {_NAMES.get(kind, getattr(kind, '__name__', kind))}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
