"""Imports point one way: a package imports only those before it, and nobody's private names."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard

ROOT = Path(regard.__file__).parent
SHARED = (
    "files",
    "html_table",
    "limits",
    "lazy_names",
    "terminal",
    "colours",
    "plotting",
    "tracing",
    "web",
    "_native",
)  # anyone may import them
PARTS = ("scores", "masks", "choice_protocol", "sparse_choices", "choices", "biases", "readings")
ORDER = (  # each row imports the rows above it and itself
    SHARED,
    PARTS,
    ("kernels",),
    ("attention",),
    ("layers",),
    ("models",),
    ("text",),
    ("parallel",),
    ("training",),
    ("zoo",),
    ("sight", "cost"),
    ("demos",),
    ("studio",),
    ("cli",),
    ("__init__", "__main__"),
)
SIDEWAYS = {
    ("html_table", "colours"),
    ("plotting", "files"),
    ("plotting", "colours"),
    ("terminal", "colours"),
    ("web", "colours"),
    ("choices", "sparse_choices"),
    ("choices", "choice_protocol"),
    ("sparse_choices", "choice_protocol"),
}  # the only imports within a row
LEVEL = {package: level for level, row in enumerate(ORDER) for package in row}
FILES = sorted(ROOT.rglob("*.py"))


def package_of(path: Path) -> str:
    """The top-level package or module of a source file."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """(line, package imported from, names) of every import of this library, inside functions too."""
    inside = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [(alias.name.split("."), [alias.name.rsplit(".", 1)[-1]]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["regard", *inside[: len(inside) - node.level + 1]] if node.level else []
            whole = base + (node.module.split(".") if node.module else [])
            names = [alias.name for alias in node.names]
            modules = [([*whole, name], [name]) for name in names] if whole == ["regard"] else [(whole, names)]
        else:
            continue
        for parts, names in modules:
            if parts[0] == "regard" and len(parts) > 1:
                yield node.lineno, parts[1], names


def edges() -> Iterator[tuple[Path, int, str, str]]:
    for path in FILES:
        for line, package, _ in imports(path):
            if package in LEVEL:
                yield path, line, package_of(path), package


def test_every_package_has_its_place() -> None:
    assert {package_of(path) for path in FILES} <= LEVEL.keys()


def test_no_import_points_upwards() -> None:
    upward = [
        f"{path.relative_to(ROOT)}:{line} imports {package}"
        for path, line, own, package in edges()
        if own != package and (LEVEL[own] < LEVEL[package] or (LEVEL[own] == LEVEL[package] and (own, package) not in SIDEWAYS))
    ]
    assert upward == []


def test_no_private_name_is_imported_from_another_package() -> None:
    private = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in FILES
        for line, package, names in imports(path)
        for name in names
        if package != package_of(path) and name.startswith("_") and not name.startswith("__") and name != "_native"
    ]
    assert private == []


@pytest.mark.parametrize("package", sorted(package for package in LEVEL if (ROOT / package).is_dir()))
def test_folders_stay_readable(package: str) -> None:
    """A folder of more than about a dozen files shows its parts as folders."""
    folders = [ROOT / package, *(path for path in (ROOT / package).rglob("*") if path.is_dir() and path.name != "__pycache__")]
    for folder in folders:
        sources = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(sources) <= 20, f"{folder.relative_to(ROOT)} has {len(sources)} files: {', '.join(sources)}"


def test_importing_sight_imports_no_optional_package() -> None:
    optional = {"transformers", "rich", "typer", "pandas", "matplotlib", "tokenizers", "torch._dynamo"}
    code = f"import sys, regard.sight; print(sorted({optional} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
