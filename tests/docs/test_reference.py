"""The reference holds every public name, and every docstring its signature: arguments, what is returned, errors, an example."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import textwrap
from pathlib import Path
from typing import Literal

import pytest

import regard

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [
    "regard",
    *(f"regard.{name}" for name in ("cost", "kernels", "layers", "masks", "models", "parallel", "sight", "text", "training", "zoo")),
]
PARTS = {"attention", "biases", "choices", "readings", "scores"}  # their public names are those of `regard`


def load_reference_pages():
    spec = importlib.util.spec_from_file_location("reference_pages", ROOT / "docs" / "reference_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pages = load_reference_pages()
PUBLIC = {f"{pages.PAGES[page][1]}.{name}": thing for page in pages.PAGES for name, thing in pages.things_on(page)}
CALLABLES = {path: thing for path, thing in PUBLIC.items() if callable(thing)}
METHODS = {
    f"{path}.{name}": inspect.unwrap(getattr(member, "__func__", member))
    for path, thing in CALLABLES.items()
    if inspect.isclass(thing)
    for name, member in pages.members(thing)
    if not isinstance(member, property)
}


def test_every_public_name_is_on_a_page():
    on_pages = {id(thing) for thing in PUBLIC.values()}
    modules = [importlib.import_module(package) for package in PACKAGES]
    names = [(f"{module.__name__}.{name}", getattr(module, name)) for module in modules for name in module.__all__]
    assert [path for path, thing in names if id(thing) not in on_pages] == []
    assert len(names) > 150


def test_every_package_is_compared():
    assert {f"regard.{name}" for name in regard._SUBMODULES - PARTS - {"demos"}} == set(PACKAGES) - {"regard"}


def test_a_name_is_on_one_page_only():
    places: dict[int, list[str]] = {}
    for path, thing in CALLABLES.items():
        places.setdefault(id(thing), []).append(path)
    assert [paths for paths in places.values() if len(paths) > 1] == []


def test_the_pages_are_written(tmp_path):
    pages.write(tmp_path)
    written = {file.stem: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    for page in pages.PAGES:
        for name, _ in pages.things_on(page):
            assert f"\n## {name.rpartition('.')[2]}\n" in written[page]
    for command in ("translate", "plan", "train"):
        assert f"## regard {command}\n" in written["command-line"]
        assert f"Usage: regard {command}" in written["command-line"]
    for python_only in ("object at 0x", "ForwardRef", "<factory>", "*args: Any, **kwargs: Any"):
        assert python_only not in "".join(written.values())


def test_signatures_are_readable():
    def f(self, mask: Literal["a", "b"] = "a", rows: slice = slice(None), *, limit: int | None = None, _private: int = 0) -> Path:
        """Softmax: a sentence with a colon.

        mask: what it is.
        """

    assert pages._signature(f) == (
        "(self, mask: Literal['a', 'b'] = 'a', rows: slice = slice(None), *, limit: int | None = None) -> Path"
    ).replace(", ", ",\n    ").replace("'a',\n    'b'", "'a', 'b'")
    assert pages._signature(regard.Dot) == "()"
    assert list(pages.markdown(inspect.getdoc(f))) == ["Softmax: a sentence with a colon.", "", "- `mask`: what it is.", ""]


@pytest.mark.parametrize("path", CALLABLES)
def test_the_docstring_says_what_the_signature_does(path):
    thing = CALLABLES[path]
    doc = thing.__doc__ or ""
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        assert len(doc) > 20
        return
    assert [name for name in parameters(thing) if name not in described(path)] == [], "arguments that the docstring does not describe"
    assert ">>>" in doc, "no example"
    if not inspect.isclass(thing) and inspect.signature(thing).return_annotation not in (None, "None"):
        assert re.search(r"\b([Rr]eturns?|[Yy]ields?|Context manager)\b", doc), "what it returns is not said"
    for error in raised(thing):
        assert re.search(rf"\bRaises\b.*\b{error}\b", doc, re.DOTALL), f"{error} is not mentioned"


@pytest.mark.parametrize("path", METHODS)
def test_the_docstring_of_a_method_names_its_arguments(path):
    doc = METHODS[path].__doc__
    names = [name for name in inspect.signature(METHODS[path]).parameters if name not in ("self", "cls", "options")]
    if len(names) > 1 and not re.search(r"[Aa]rguments(: see| as in| of) `", doc):  # of a single one the sentence speaks
        assert [name for name in names if not re.search(rf"\b{name}\b", doc)] == []


def test_every_public_method_has_a_docstring():
    undocumented = []
    for path, thing in CALLABLES.items():
        for name, member in vars(thing).items() if inspect.isclass(thing) else ():
            public = not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property | staticmethod | classmethod))
            if public and not (inspect.getdoc(getattr(thing, name)) or "").strip():
                undocumented.append(f"{path}.{name}")
    assert undocumented == []


def parameters(thing) -> list[str]:
    names = inspect.signature(thing).parameters
    return [] if set(names) == {"args", "kwargs"} else [name for name in names if not name.startswith("_")]


def described(path: str) -> set[str]:
    """The arguments that a docstring describes; "others: as in :func:`f`" adds those of f."""
    arguments = pages.arguments(CALLABLES[path])
    names = set(arguments)
    for name in re.findall(r":\w+:`([\w.]+)`", arguments.get("others", "")):
        names |= described(resolved(name, path))
    return names


def resolved(name: str, path: str) -> str:
    """The public name that a docstring refers to: in its own package first, then in `regard`."""
    for candidate in (f"{path.rpartition('.')[0]}.{name}", f"regard.{name}", name):
        if candidate in CALLABLES and candidate != path:
            return candidate
    raise AssertionError(f"the docstring of {path} refers to {name}, which is not a public name")


def raised(thing) -> set[str]:
    """The exceptions that the body of a function, or the construction of a class, raises itself."""
    bodies = [thing]
    if inspect.isclass(thing):
        bodies = [vars(thing)[name] for name in ("__init__", "__post_init__") if name in vars(thing)]
    names = set()
    for body in map(inspect.unwrap, bodies):
        if not inspect.isfunction(body) or body.__module__ == "typing" or body.__code__.co_filename.startswith("<"):  # of a dataclass
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(body)))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                names.add(node.exc.func.id)
    return names


def test_the_check_can_fail():
    def wrong(a: int, b: int) -> int:
        """Add two numbers.

        a: the first.
        """
        if a < 0:
            raise ValueError(f"a is {a}")
        return a + b

    assert set(pages.arguments(wrong)) == {"a"}
    assert raised(wrong) == {"ValueError"}
