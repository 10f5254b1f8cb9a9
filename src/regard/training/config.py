"""Read TOML files into frozen dataclasses: a table becomes a dataclass, a key a field; errors name the line."""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from ..files import read_bytes

T = TypeVar("T")
MAX_BYTES = 1_000_000  # of a config file


class ConfigError(ValueError):
    """An invalid config file; the message names the file, the line, the value and what was expected."""


def read_config(path: str | Path, form: type[T]) -> T:
    """Read a TOML file into the dataclass `form`; its fields that are dataclasses are the file's tables.

    For a field that may be one of several dataclasses, the table's `kind` selects the one with that value in its
    `kind: Literal[...]`. Unknown keys, missing keys and wrong types raise `ConfigError` with the line and the most similar
    valid name.
    """
    path = Path(path)
    try:
        text = read_bytes(path, MAX_BYTES).decode("utf-8-sig").replace("\r\n", "\n")
        data = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(f"{path}: {error}") from error
    return _table(form, data, (), _Source(path, text))


def from_dict(data: dict[str, Any], form: type[T], *, origin: str | Path = "config") -> T:
    """Build the dataclass from a dictionary, such as the config in a run's run.json; `origin` is named in errors."""
    return _table(form, data, (), _Source(Path(origin), ""))


class _Source:
    """The file a config was read from, for the line numbers of error messages."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()

    def error(self, keys: tuple[str, ...], message: str) -> ConfigError:
        line = self._line(keys)
        where = f"{self.path}:{line}" if line else f"{self.path}"
        table = f"[{'.'.join(keys[:-1])}] " if len(keys) > 1 else ""
        return ConfigError(f"{where}: {table}{message}")

    def _line(self, keys: tuple[str, ...]) -> int:
        """Return the line of a key (or of its table's header), 0 if it was not found."""
        table: tuple[str, ...] = ()
        header = 0
        for number, line in enumerate(self.lines, 1):
            if match := re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line):
                table = tuple(part.strip().strip("\"'") for part in match[1].split("."))
                if table == keys or (table == keys[:-1] and not header):
                    header = number
            elif (match := re.match(r"\s*[\"']?([\w-]+)[\"']?\s*[=.]", line)) and (*table, match[1]) == keys:
                return number
        return header


def _table(form: type[T], data: dict[str, Any], keys: tuple[str, ...], source: _Source) -> T:
    hints = typing.get_type_hints(form)
    fields = {field.name: field for field in dataclasses.fields(form)}  # type: ignore[arg-type]
    for name in data:
        if name not in fields:
            similar = difflib.get_close_matches(name, fields, n=1, cutoff=0.5)
            hint = f"did you mean {similar[0]!r}?" if similar else f"known here: {', '.join(fields)}"
            raise source.error((*keys, name), f"there is no {'table' if isinstance(data[name], dict) else 'key'} {name!r}; {hint}")
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _value(hints[name], data[name], (*keys, name), source)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            kind = "table" if _forms(hints[name]) else "key"
            raise source.error((*keys, name), f"the {kind} {name!r} is missing")
    try:
        return form(**values)
    except ConfigError:
        raise
    except ValueError as error:  # raised by a dataclass's __post_init__
        raise source.error((*keys, ""), str(error)) from error


def _forms(hint: Any) -> list[type]:
    """Return the dataclasses in a field's type."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [option for option in options if dataclasses.is_dataclass(option) and isinstance(option, type)]


def _kinds(form: type) -> tuple[str, ...]:
    return typing.get_args(typing.get_type_hints(form).get("kind"))


def _value(hint: Any, value: Any, keys: tuple[str, ...], source: _Source) -> Any:
    forms = _forms(hint)
    if forms and isinstance(value, dict):
        if len(forms) == 1:
            return _table(forms[0], value, keys, source)
        known = [kind for form in forms for kind in _kinds(form)]
        kind = value.get("kind")
        for form in forms:
            if kind in _kinds(form):
                return _table(form, value, keys, source)
        similar = difflib.get_close_matches(str(kind), known, n=1)
        hint_text = f"did you mean {similar[0]!r}?" if similar else f"known: {', '.join(known)}"
        raise source.error((*keys, "kind"), f"kind is {kind!r}; {hint_text}")
    accepted, result = _accept(hint, value)
    if accepted:
        return result
    expected = _name(hint)
    if typing.get_origin(hint) is Literal and isinstance(value, str):
        similar = difflib.get_close_matches(value, [str(a) for a in typing.get_args(hint)], n=1)
        expected += f"; did you mean {similar[0]!r}?" if similar else ""
    raise source.error(keys, f"{keys[-1]} is {value!r}; expected {expected}")


def _accept(hint: Any, value: Any) -> tuple[bool, Any]:
    """Return whether a TOML value fits a type, and the value converted to it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True, value
    if origin in (Union, types.UnionType):
        for option in arguments:
            accepted, result = _accept(option, value)
            if accepted:
                return True, result
        return False, None
    if origin is Literal:
        return any(value == a and type(value) is type(a) for a in arguments), value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return False, None
        inner = [arguments[0]] * len(value) if arguments[-1:] == (Ellipsis,) else list(arguments)
        if len(inner) != len(value):
            return False, None
        parts = [_accept(a, v) for a, v in zip(inner, value, strict=True)]
        return all(ok for ok, _ in parts), tuple(part for _, part in parts)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 2**1000, float(value) if abs(value) < 2**1000 else None
    return type(value) is hint or (hint is type(None) and value is None), value


def _name(hint: Any) -> str:
    """Return a type in words, for error messages."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_name(a) for a in arguments if a is not type(None))
    if origin is Literal:
        return "one of " + ", ".join(repr(a) for a in arguments)
    if origin is tuple:
        return f"a list of {_name(arguments[0])}" if arguments[-1:] == (Ellipsis,) else f"a list of {len(arguments)}"
    if dataclasses.is_dataclass(hint):
        return "a table"
    return {str: "text", int: "a whole number", float: "a number", bool: "true or false"}.get(hint, str(hint))
