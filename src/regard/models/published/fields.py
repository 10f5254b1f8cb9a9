"""Typed, checked access to the fields of a published config.json."""

from __future__ import annotations

import contextlib
import difflib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard import files
from regard.limits import check_count
from regard.models.published.architecture import ConfigError

__all__ = ["Fields", "read_json", "reading_config", "weight_file_names"]


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
        value: int | None = self._values[key]
        if value is not None:
            try:
                check_count(f"field {key!r}", value, 1)
            except ValueError as error:
                raise ConfigError(str(error)) from error
        return value

    def size(self, key: str) -> int:
        """Return an integer, 0 or more; None counts as 0."""
        return 0 if self._values[key] in (None, 0) else self.maybe(key) or 0

    def number(self, key: str) -> float:
        """Return a number, 0 or more."""
        value = self._values[key]
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
            raise ConfigError(f"field {key!r} is {value!r}; expected a number, 0 or more")
        return value

    def flag(self, key: str) -> bool:
        """Return a bool; None counts as False."""
        value = self._values[key]
        if value is not None and not isinstance(value, bool) and value not in (0, 1):
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


@contextlib.contextmanager
def reading_config(where: str = "config.json") -> Iterator[None]:
    """Within this context, what Python says about a value of the wrong type (a text for a list …) becomes a ConfigError."""
    try:
        yield
    except (TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ConfigError(f"{where} cannot be read ({type(error).__name__}: {error}); use the one published with the model") from error


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        return files.read_json(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(str(error)) from error


def weight_file_names(index: Path) -> list[str]:
    """Return the file names in an index of shards; they are beside it, nowhere else."""
    shards = read_json(index).get("weight_map")
    names = sorted(set(shards.values())) if isinstance(shards, dict) and all(isinstance(v, str) for v in shards.values()) else []
    if not names or any("\0" in name or Path(name).name != name for name in names):
        raise ConfigError(f"{index} has no weight_map of tensor names to names of files beside it; download it again")
    return names
