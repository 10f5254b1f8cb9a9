"""Write the reference: every public name with its signature and docstring, and every command with its `--help`.

`tests/docs/test_reference.py` holds the pages to the `__all__` of the packages and the docstrings to the signatures.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# page → (title, the package whose public names it holds, names; None = all that no page before it holds); a name may be dotted
PAGES: dict[str, tuple[str, str, str | None]] = {
    "compute": ("Compute attention", "regard", "attend observe explain Attended Plan reinforce replace"),
    "scores": ("Scores", "regard", "Score ScaledDot Dot Additive Bilinear Gaussian Lowered"),
    "masks": (
        "Masks",
        "regard.masks",
        "rule causal window padding documents prefix global_tokens block_sparse dense per_head everything from_sdpa from_torch_mha from_hf "
        "from_additive from_spans Mask ExtraKeys MAX_SPANS",
    ),
    "choices": ("Choices", "regard", "Choice choices.Row choices.logsumexp Softmax Sparsemax Entmax15 Entmax TopKSoftmax Argmax Sample"),
    "biases": ("Biases", "regard", "Bias biases.offsets Alibi RelativeBias"),
    "readings": (
        "Readings",
        "regard",
        "Reading readings.Shape Entropy Received TopK readings.Top Distance readings.Profile At Same Pooled Rows MaxLogit Sink ValueNorm "
        "readings.NormWeighted",
    ),
    "layers": ("Layers", "regard.layers", None),
    "models": ("Models", "regard.models", None),
    "zoo": ("Open trained models", "regard.zoo", None),
    "opened": (
        "What an opened model does",
        "regard.training",
        "Translations Translated LanguageModel TextGenerator Prefixes Prefix ArticleReader ReadArticle Answer StoryReader Answered "
        "MaskedModel Filled Candidate Classifier Classified Summariser ErrorRates TrainingLog OpenedModel",
    ),
    "sight": ("Inspect models", "regard.sight", None),
    "cost": ("Costs", "regard.cost", None),
    "text": ("Text", "regard.text", None),
    "parallel": ("Several processes", "regard.parallel", None),
    "kernels": ("Kernels", "regard.kernels", None),
}


CONSTANTS = {  # numbers and tables have no docstring
    "regard.masks.MAX_SPANS": "The most key ranges of a row that the compiled kernels read of a mask.",
    "regard.kernels.KERNELS": "The kernels by name. `attend(…, kernel=NAME)` runs one of them.",
    "regard.text.PAD": "The id of the padding token `<pad>` in every `Vocabulary`.",
    "regard.text.BOS": "The id of `<s>`, which begins a text.",
    "regard.text.EOS": "The id of `</s>`, which ends a text.",
    "regard.text.UNK": "The id of `<unk>`, which stands for what the vocabulary does not have.",
    "regard.text.MASK": "The id of `<mask>`.",
}


def things_on(page: str) -> list[tuple[str, Any]]:
    """Return the public names on a page with what they are, in the order in which they are shown; each is on one page only."""
    _, package, chosen = PAGES[page]
    module = importlib.import_module(package)
    constants = [name for name in module.__all__ if f"{package}.{name}" in CONSTANTS]
    public = [*(name for name in module.__all__ if name not in constants), *constants] if chosen is None else chosen.split()
    before = {id(thing) for other in _before(page) for _, thing in things_on(other) if callable(thing)}
    things = [(name, operator.attrgetter(name)(module)) for name in public]
    return [(name, thing) for name, thing in things if id(thing) not in before]


def _before(page: str) -> list[str]:
    return list(PAGES)[: list(PAGES).index(page)]


_NEXT = ",\n    "  # between the arguments of a long signature
_ARGUMENT = re.compile(r"^(\w+(?:, \w+)*)(?::|  +)\s*(\S.*)$")


def arguments(thing: Any) -> dict[str, str]:
    """Return the arguments that a docstring describes, each on a line `name: text`; of a dataclass also by the comment of its field.

    >>> def f(a, b, c): '''a, b: two numbers.\\nc: one\\n    more.'''
    >>> arguments(f)
    {'a': 'two numbers.', 'b': 'two numbers.', 'c': 'one more.'}
    """
    described: dict[str, str] = {}
    current: list[str] = []
    for line in (inspect.getdoc(thing) or "").splitlines():
        if match := _ARGUMENT.match(line):
            current = match[1].split(", ")
            described |= dict.fromkeys(current, match[2])
        elif line.startswith(" ") and current:
            described |= {name: f"{described[name]} {line.strip()}" for name in current}
        else:
            current = []
    return _commented_fields(thing) | described


def _commented_fields(thing: Any) -> dict[str, str]:
    """The comments beside the fields of a dataclass, or on the line above them."""
    if not inspect.isclass(thing) or not hasattr(thing, "__dataclass_fields__"):
        return {}
    comments, above = {}, ""
    for line in inspect.getsource(thing).splitlines():
        field = re.match(r"    (\w+): [^#]*?(?:  # (.*))?$", line)
        if field and field[1] in thing.__dataclass_fields__ and (field[2] or above):
            comments[field[1]] = field[2] or above
        above = line.strip()[2:] if line.strip().startswith("# ") else ""
    return comments


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
    lines = [f"# {title}", ""]
    for name, thing in things_on(page):
        lines += [*_entry(f"{package}.{name}", thing), ""]
    return "\n".join(lines) + "\n"


def _entry(path: str, thing: Any) -> Iterator[str]:
    """Yield the lines of one public name: heading, signature, docstring, and for a class its methods."""
    name = path.rpartition(".")[2]
    yield f"## {name}"
    yield ""
    if path in CONSTANTS:
        value = f" = {thing}" if isinstance(thing, int) else ""
        yield from (f"```python\n{path}{value}\n```", "", CONSTANTS[path])
        return
    if callable(thing):
        yield f"```python\n{path}{_signature(thing)}\n```"
    yield ""
    yield from markdown((thing.__doc__ and inspect.getdoc(thing)) or "")
    listed = arguments_of_docstring(thing)
    fields = {name: text for name, text in arguments(thing).items() if name not in listed}
    if fields:
        yield from ("", "Fields:", "", *(f"- `{name}`: {_inline(text)}" for name, text in fields.items()))
    if inspect.isclass(thing):
        for member, value in members(thing):
            yield ""
            yield f"### {name}.{member}"
            yield ""
            if not isinstance(value, property):
                yield f"```python\n{member}{_signature(getattr(thing, member))}\n```"
            yield ""
            yield from markdown(inspect.getdoc(value) or "")


def arguments_of_docstring(thing: Any) -> set[str]:
    """Return the names that the docstring itself describes."""
    names: set[str] = set()
    for line in (inspect.getdoc(thing) or "").splitlines():
        if match := _ARGUMENT.match(line):
            names |= set(match[1].split(", "))
    return names


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented public methods and properties that a class defines itself."""
    for name, value in vars(thing).items():
        documented = isinstance(value, property | staticmethod | classmethod) or inspect.isfunction(value)
        if documented and not name.startswith("_") and (getattr(value, "__doc__", None) or "").strip():
            yield name, value


def _signature(thing: Any) -> str:
    """Return the signature without what only Python needs: quoted annotations, private arguments, the None that a class returns."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(…)"
    parameters = [parameter for parameter in signature.parameters.values() if not parameter.name.startswith("_")]
    if [parameter.name for parameter in parameters] == ["args", "kwargs"]:  # a class without an __init__ of its own
        parameters = []
    words: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not any(word.startswith("*") for word in words):
            words.append("*")
        words.append(_unquoted(str(parameter)))
    returned = signature.return_annotation
    if inspect.isclass(thing) or returned is signature.empty:
        result = ""
    else:
        result = " -> " + _unquoted(inspect.formatannotation(returned))
    text = f"({', '.join(words)}){result}"
    return text if len(text) < 100 else f"({_NEXT.join(words)}){result}"


def _unquoted(text: str) -> str:
    text = re.sub(r"""(^|: |-> )(['"])(.*?)\2(?=$| = )""", r"\1\3", text)  # annotations are kept as strings
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text).replace("slice(None, None, None)", "slice(None)").replace("<factory>", "…")
    return re.sub(r"<(?:function|class|object) ?([^>]*?)(?: at 0x[0-9a-f]+)?>", r"\1", text)


def markdown(docstring: str) -> Iterator[str]:
    """Yield a docstring as Markdown: examples and indented blocks as code, `name: text` lines as a list, the rest as paragraphs."""
    for place, block in enumerate(re.split(r"\n\s*\n", docstring)):
        lines = block.splitlines()
        if not lines:
            continue
        if lines[0].startswith(">>>"):
            yield from ("```python", *lines, "```")
        elif all(line.startswith(("    ", "\t")) for line in lines):
            yield from ("```text", *(line[4:] for line in lines), "```")
        elif place == 0:  # what it is: "Softmax: exp(z) / Σ exp(z)" describes no argument
            yield from map(_inline, lines)
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
    """What `regard WORDS --help` prints, from this process: a process for each would import everything again."""
    import typer
    from typer.testing import CliRunner

    from regard.cli import build

    global _application
    if _application is None:
        _application = build()
    plain = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "92", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}
    assert isinstance(_application, typer.Typer)
    done = CliRunner().invoke(_application, [*words, "--help"], env=plain, prog_name="regard")
    assert done.exit_code == 0, done.output
    return "\n".join(line.rstrip() for line in done.output.strip("\n").splitlines())


_application: Any = None
