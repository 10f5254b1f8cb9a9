"""Typed, checked access to the fields of a published config.json."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.models.published.architecture import ConfigError

__all__ = ["Fields", "read_json"]


class Fields:
    """The fields of a config.json, with its family's defaults for those it leaves out.

    sizes_required: `count` never uses a default, because the sizes must be those of the weights.

    >>> c = Fields({"hidden_size": 64}, {"hidden_size": 4096, "head_dim": None, "bias": False})
    >>> c.count("hidden_size"), c.maybe("head_dim"), c.flag("bias")
    (64, None, False)
    >>> Fields({"hiden_size": 64}, {"hidden_size": 4096})
    Traceback (most recent call last):
        ...
    regard.models.published.architecture.ConfigError: unknown field 'hiden_size'; did you mean 'hidden_size'?
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        defaults: Mapping[str, Any],
        aliases: Mapping[str, str] | None = None,
        *,
        sizes_required: bool = False,
    ) -> None:
        aliases = aliases or {}
        stated = {aliases.get(key, key): value for key, value in config.items()}
        for key in config:
            if key in defaults or key in aliases:
                continue
            close = difflib.get_close_matches(key, [name for name in defaults if name not in stated], n=1, cutoff=0.9)
            if close:
                raise ConfigError(f"unknown field {key!r}; did you mean {close[0]!r}?")
        self._stated = {key: value for key, value in stated.items() if key in defaults}
        self._values = {**defaults, **self._stated}
        self._sizes_required = sizes_required

    def __contains__(self, key: str) -> bool:
        """Return whether the family has this field."""
        return key in self._values

    def stated(self, key: str) -> bool:
        """Return whether the file itself has this field."""
        return key in self._stated

    def any(self, key: str) -> Any:
        """Return the value unchecked."""
        return self._values[key]

    def count(self, key: str, *, assume: bool = False) -> int:
        """Return an integer, 1 or more. assume: the default may be used even where sizes are required."""
        if self._sizes_required and not assume and self._stated.get(key) is None:
            raise ConfigError(f"config.json lacks {key!r}, a size of the model; use the config.json published with the weights")
        value = self.maybe(key)
        if value is None:
            raise ConfigError(f"field {key!r} is missing; expected a whole number, 1 or more")
        return value

    def maybe(self, key: str) -> int | None:
        """Return an integer, 1 or more, or None."""
        value = self._values[key]
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ConfigError(f"field {key!r} is {value!r}; expected a whole number, 1 or more")
        return value

    def size(self, key: str) -> int:
        """Return an integer, 0 or more; None counts as 0."""
        return 0 if self._values[key] in (None, 0) else self.maybe(key) or 0

    def number(self, key: str) -> float:
        """Return a number, 0 or more."""
        value = self._values[key]
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
            raise ConfigError(f"field {key!r} is {value!r}; expected a number, 0 or more")
        return value

    def flag(self, key: str) -> bool:
        """Return a bool; None counts as False."""
        value = self._values[key]
        if value not in (None, True, False):
            raise ConfigError(f"field {key!r} is {value!r}; expected true or false")
        return bool(value)

    def text(self, key: str) -> str:
        """Return a string."""
        value = self._values[key]
        if not isinstance(value, str):
            raise ConfigError(f"field {key!r} is {value!r}; expected a string")
        return value

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return a mapping; None counts as empty."""
        value = self._values[key]
        if value is not None and not isinstance(value, Mapping):
            raise ConfigError(f"field {key!r} is {value!r}; expected a JSON object")
        return value or {}


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except ValueError as error:  # not UTF-8, or not JSON
        raise ConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds a {type(content).__name__}; expected a JSON object")
    return content
