"""ES modules joined into one classic script, for pages that are opened from disk, where browsers load no modules.

Every module becomes a function of its own, so the names inside two modules cannot clash. Only these forms are read, each at the start of
a line; any other raises:

    import { a, b as c } from "./file.js";        export const a = …;
    import * as everything from "./file.js";      export function a …    export async function a …    export class a …
"""

from __future__ import annotations

import posixpath
import re

from .source import source

_IMPORT = re.compile(r'^import (?:\{(?P<names>[^}]*)\}|\* as (?P<namespace>\w+)) from "(?P<path>\.[^"]*)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|function|async function|class) (?P<name>\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def bundle(entry: str, name: str) -> str:
    """Return a script that defines `name`, an object of the exports of the module `entry` ("web/view/attention_view.js").

    >>> script = bundle("web/numbers.js", "numbers")
    >>> script.startswith('const numbers = (() => {'), "export " in script
    (True, False)
    """
    modules = module_paths(entry)
    variables = {path: f"module{i}" for i, path in enumerate(modules)}
    parts = [f"const {variables[path]} = (() => {{\n{_converted(path, variables)}}})();" for path in modules]
    return "\n".join([f'const {name} = (() => {{\n"use strict";', *parts, f"return {variables[entry]};\n}})();"])


def module_paths(entry: str) -> list[str]:
    """The module and all it imports, each after those it imports itself.

    >>> module_paths("web/matrix.js")[-1], "web/dom.js" in module_paths("web/matrix.js")
    ('web/matrix.js', True)
    """
    modules: list[str] = []

    def visit(path: str, importers: tuple[str, ...]) -> None:
        if path in importers:
            raise ValueError(f"modules import each other: {' → '.join((*importers, path))}; move what both need into a third")
        if path not in modules:
            for one in _IMPORT.finditer(source(path)):
                visit(_resolved(path, one["path"]), (*importers, path))
            modules.append(path)

    visit(entry, ())
    return modules


def _resolved(importer: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))


def _converted(path: str, variables: dict[str, str]) -> str:
    """A module's text with its imports taken from the variables of other modules, and its exports returned."""

    def constant(one: re.Match[str]) -> str:
        module = variables[_resolved(path, one["path"])]
        if one["namespace"]:
            return f"const {one['namespace']} = {module};"
        names = [name.strip().replace(" as ", ": ") for name in one["names"].split(",")]
        return f"const {{ {', '.join(filter(None, names))} }} = {module};"

    text = _IMPORT.sub(constant, source(path))
    exports = [one["name"] for one in _EXPORT.finditer(text)]
    text = _EXPORT.sub("", text)
    if other := _OTHER.search(text):
        raise ValueError(f"{path}: {other[0]!r} cannot be bundled; see regard.web.bundle for the forms of import and export that can")
    return f"{text}return {{ {', '.join(exports)} }};\n"
