"""Reading a Hugging Face config with care: every field checked, every mistake named."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.cost.model.architecture import ConfigError


class Fields:
    """A config.json over its family's defaults (a config on disk may leave out what equals the default).

    >>> c = Fields({"hidden_size": 64}, {"hidden_size": 4096, "head_dim": None, "bias": False})
    >>> c.count("hidden_size"), c.maybe("head_dim"), c.flag("bias")
    (64, None, False)
    >>> Fields({"hiden_size": 64}, {"hidden_size": 4096})
    Traceback (most recent call last):
        ...
    regard.cost.model.architecture.ConfigError: unknown field 'hiden_size'; did you mean 'hidden_size'?
    """

    def __init__(self, config: Mapping[str, Any], defaults: Mapping[str, Any], aliases: Mapping[str, str] | None = None) -> None:
        known, aliases = dict(defaults), aliases or {}
        given = {aliases.get(key, key): value for key, value in config.items()}
        for key in config:
            if key in known or key in aliases:
                continue
            close = difflib.get_close_matches(key, [name for name in known if name not in given], n=1, cutoff=0.9)
            if close:
                raise ConfigError(f"unknown field {key!r}; did you mean {close[0]!r}?")
        self._values = {**known, **{key: value for key, value in given.items() if key in known}}

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def any(self, key: str) -> Any:
        """The value as it stands."""
        return self._values[key]

    def count(self, key: str) -> int:
        """A whole number, 1 or more."""
        value = self.maybe(key)
        if value is None:
            raise ConfigError(f"field {key!r} is missing; expected a whole number, 1 or more")
        return value

    def maybe(self, key: str) -> int | None:
        """A whole number, 1 or more, or None."""
        value = self._values[key]
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ConfigError(f"field {key!r} is {value!r}; expected a whole number, 1 or more")
        return value

    def size(self, key: str) -> int:
        """A whole number, 0 or more; None counts as 0."""
        return 0 if self._values[key] in (None, 0) else self.count(key)

    def flag(self, key: str) -> bool:
        """True or False; None counts as False."""
        value = self._values[key]
        if value not in (None, True, False):
            raise ConfigError(f"field {key!r} is {value!r}; expected true or false")
        return bool(value)

    def text(self, key: str) -> str:
        """A word."""
        value = self._values[key]
        if not isinstance(value, str):
            raise ConfigError(f"field {key!r} is {value!r}; expected a word")
        return value


Shape = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """What transformers assumes for a field the file leaves out, and how the checked fields become a shape."""

    build: Callable[[Fields], Shape]
    defaults: Mapping[str, Any]
    aliases: Mapping[str, str] = field(default_factory=dict)  # other spellings of a field
    encoder: bool = False  # without a named head it is counted bare, as AutoModel builds it
    pooler: bool = False
