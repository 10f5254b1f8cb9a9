"""Write the reference: every public name with its signature and docstring, and every command with its `--help`.

`tests/docs/test_reference.py` holds the pages to the `__all__` of the packages and the docstrings to the signatures.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# page → (title, the package whose public names it holds, names; None = all that no page before it holds)
PAGES: dict[str, tuple[str, str, str | None]] = {
    "compute": ("Compute attention", "regard", "attend observe explain Attended Plan reinforce replace"),
    "scores": ("Scores", "regard", "Score ScaledDot Dot Additive Bilinear Gaussian Lowered"),
    "masks": ("Masks", "regard.masks", None),
    "choices": ("Choices", "regard", "Choice Softmax Sparsemax Entmax15 Entmax TopKSoftmax Argmax Sample"),
    "biases": ("Biases", "regard", "Bias Alibi RelativeBias"),
    "readings": ("Readings", "regard", "Reading Entropy Received TopK Distance At Same Pooled Rows MaxLogit Sink ValueNorm"),
    "layers": ("Layers", "regard.layers", None),
    "models": ("Models", "regard.models", None),
    "zoo": ("Open trained models", "regard.zoo", None),
    "sight": ("Inspect models", "regard.sight", None),
    "cost": ("Costs", "regard.cost", None),
    "text": ("Text", "regard.text", None),
    "parallel": ("Several processes", "regard.parallel", None),
    "kernels": ("Kernels", "regard.kernels", None),
}


def names_of(page: str) -> list[str]:
    """Return the names on a page, in the order in which they are shown."""
    _, package, chosen = PAGES[page]
    public = list(importlib.import_module(package).__all__)
    return public if chosen is None else [name for name in chosen.split() if name in public]


def write(folder: Path) -> None:
    """Write one page for each part of the library, the command line's page, and the index of both."""
    folder.mkdir(exist_ok=True)
    pages = {page: _page(page) for page in PAGES} | {"command-line": _command_line()}
    titles = "\n".join(pages)
    pages["index"] = (
        f"# Reference\n\nEvery public name and every command, from their docstrings and `--help`.\n\n```{{toctree}}\n{titles}\n```\n"
    )
    for name, text in pages.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:  # Sphinx reads again what changed
            file.write_text(text, encoding="utf-8")


def _page(page: str) -> str:
    title, package, _ = PAGES[page]
    module = importlib.import_module(package)
    lines = [f"# {title}", ""]
    for name in names_of(page):
        lines += [*_entry(f"{package}.{name}", getattr(module, name)), ""]
    return "\n".join(lines) + "\n"


def _entry(path: str, thing: Any) -> Iterator[str]:
    """Yield the lines of one public name: heading, signature, docstring, and for a class its methods."""
    name = path.rpartition(".")[2]
    yield f"## {name}"
    yield ""
    if callable(thing):
        yield f"```python\n{path}{_signature(thing)}\n```"
    yield ""
    yield from markdown(inspect.getdoc(thing) or "")
    if inspect.isclass(thing):
        for member, value in _members(thing):
            yield ""
            yield f"### {name}.{member}"
            yield ""
            if not isinstance(value, property):
                yield f"```python\n{member}{_signature(getattr(thing, member))}\n```"
            yield ""
            yield from markdown(inspect.getdoc(value) or "")


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented public methods and properties that a class defines itself."""
    for name, value in vars(thing).items():
        documented = isinstance(value, property | staticmethod | classmethod) or inspect.isfunction(value)
        if documented and not name.startswith("_") and (getattr(value, "__doc__", None) or "").strip():
            yield name, value


def _signature(thing: Any) -> str:
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return "(…)"
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are kept as strings
    text = re.sub(r"<(?:function|class|object) ?([^>]*?)(?: at 0x[0-9a-f]+)?>", r"\1", text)
    return text if len(text) < 100 else re.sub(r", (?=[\w*]+(?::|=|,|\)))", ",\n    ", text)


def markdown(docstring: str) -> Iterator[str]:
    """Yield a docstring as Markdown: examples and indented blocks as code, `name: text` lines as a list, the rest as paragraphs."""
    for block in re.split(r"\n\s*\n", docstring):
        lines = block.splitlines()
        if not lines:
            continue
        if lines[0].startswith(">>>"):
            yield from ("```python", *lines, "```")
        elif all(line.startswith(("    ", "\t")) for line in lines):
            yield from ("```text", *(line[4:] for line in lines), "```")
        else:
            yield from _paragraph(lines)
        yield ""


def _paragraph(lines: list[str]) -> Iterator[str]:
    for line in lines:
        argument = re.match(r"(\w[\w, ]*?)(?::|  +)\s*(\S.*)$", line)
        if argument and not line.endswith(":") and re.fullmatch(r"\w+(, \w+)*", argument[1]):
            yield f"- `{argument[1]}`: {_inline(argument[2])}"
        elif line.startswith("    "):
            yield f"  {_inline(line.strip())}"
        else:
            yield _inline(line)


def _inline(text: str) -> str:
    """Return text with reST's marks as Markdown's, and characters that Markdown would read as marks escaped outside code."""
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text).replace("``", "`")
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[\]])", r"\\\1", part) for part in parts)


def _command_line() -> str:
    """Return the page of the command line: `--help` of every command, as the command prints it."""
    lines = ["# Command line", "", "What `regard COMMAND --help` prints.", ""]
    for words in _commands():
        lines += [f"## regard {' '.join(words)}".rstrip(), "", "```text", _help(words), "```", ""]
    return "\n".join(lines)


def _commands() -> Iterator[list[str]]:
    from regard.cli import COMMANDS, GROUPS

    yield []
    yield from ([name] for name in sorted((*COMMANDS, *GROUPS)))


def _help(words: list[str]) -> str:
    plain = {**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "110", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}
    done = subprocess.run([sys.executable, "-m", "regard", *words, "--help"], capture_output=True, text=True, check=True, env=plain)
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())
