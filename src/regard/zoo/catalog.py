"""The catalog of models: the shipped ones, those the user has added, and any other by path.

The shipped models are the package `regard-models`, built from the folders beside this file; a source tree uses these folders directly.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..files import read_json
from .card import FILE, Card

SOURCE_TREE = Path(__file__).parent
HOW_TO_GET_SHIPPED = (
    "the shipped models are not installed: pip install regard-models (in a clone of the repository: pip install ./packages/models)"
)


@dataclass(frozen=True, repr=False)
class Entry:
    """A model that can be opened: a folder or a .gguf file. A model given by its path may have no card.

    name: what `regard models` calls it.
    path: its folder or .gguf file.
    origin: "shipped" with the library, "added" by the user, or "given" by its path.
    card: its description.
    trouble: the error if the card cannot be read.

    >>> from regard import zoo
    >>> zoo.find("shakespeare").origin
    'shipped'
    """

    name: str
    path: Path
    origin: Literal["shipped", "added", "given"]
    card: Card | None
    trouble: str = ""  # the error if the card cannot be read

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return self.path.stat().st_size if self.path.is_file() else sum(f.stat().st_size for f in self.path.rglob("*") if f.is_file())

    def __repr__(self) -> str:
        return f"Entry({self.name}, {self.origin}, {self.path})"

    def check(self) -> Entry:
        """Raise ValueError if the files do not have the hashes of the card; return the entry."""
        if self.trouble:
            raise ValueError(self.trouble)
        if self.card is not None:
            self.card.check(self.folder)
        return self


def home() -> Path:
    """Return the folder of added models: in $REGARD_HOME, or in the system's folder for user data.

    >>> home().name
    'models'
    """
    if directory := os.environ.get("REGARD_HOME"):
        return Path(os.path.expanduser(directory)) / "models"
    if sys.platform == "darwin":
        base = Path("~/Library/Application Support")
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share")
    return Path(os.path.expanduser(base)) / "regard" / "models"


def shipped_folder() -> Path | None:
    """Return the folder of the shipped models, None if they are not installed."""
    if any(SOURCE_TREE.glob(f"*/{FILE}")):
        return SOURCE_TREE
    spec = importlib.util.find_spec("regard_models")
    return Path(next(iter(spec.submodule_search_locations))) if spec is not None and spec.submodule_search_locations else None


def entries() -> list[Entry]:
    """Return the shipped models, then the added ones, each sorted by name.

    >>> [entry.origin for entry in entries()][0]
    'shipped'
    """
    models = []
    for origin, root in (("shipped", shipped_folder()), ("added", home())):
        folders = sorted(root.iterdir()) if root is not None and root.is_dir() else []
        for folder in folders:
            if folder.name.startswith((".", "_")) or not (folder / FILE).is_file():
                continue
            try:
                card, trouble = Card.read(folder), ""
            except ValueError as error:  # one damaged model must not hide the others
                card, trouble = None, str(error)
            models.append(Entry(folder.name, weights_in(folder), origin, card, trouble))  # type: ignore[arg-type]
    return models


def names() -> list[str]:
    """Return the names of all models, the shipped ones first.

    >>> "shakespeare" in names()
    True
    """
    return [entry.name for entry in entries()]


def find(name: str | Path) -> Entry:
    """Return the model called `name`, or the run folder, Hugging Face folder or .gguf file at that path.

    If a model and a path have the same name, the model is returned; write ./name for the path.

    name: a model's name or a path.

    Raises ValueError if there is neither, with what there is.

    >>> find("zh-en-transformer").name
    'zh-en-transformer'
    """
    known = entries()
    for entry in known:
        if entry.name == str(name):
            return entry
    path = Path(os.path.expanduser(name))
    is_file = os.path.isfile(path)
    if is_file and path.suffix == ".gguf":
        return Entry(path.stem, path, "given", None)
    if os.path.isdir(path):
        if any((path / file).is_file() for file in ("run.json", "config.json")):
            return Entry(path.resolve().name, path, "given", Card.read(path))
        raise ValueError(f"{path} is not a model: it has no run.json (a run of `regard train`) and no config.json (a Hugging Face folder)")
    if is_file:
        raise ValueError(f"{path} is not a model: give a folder, or a .gguf file")
    similar = difflib.get_close_matches(str(name), [entry.name for entry in known], n=1)
    hint = f"did you mean {similar[0]!r}? " if similar else ""
    raise ValueError(f"there is no model {str(name)!r} and no such path; {hint}{listed(known)}; or give a folder or a .gguf file")


def listed(known: list[Entry]) -> str:
    """Return the names of models by origin, for error messages."""
    parts = []
    for origin in ("shipped", "added"):
        if matching := [entry.name for entry in known if entry.origin == origin]:
            parts.append(f"{origin}: {', '.join(matching)}")
    if shipped_folder() is None:
        parts.append(HOW_TO_GET_SHIPPED)
    return "; ".join(parts) or "none, shipped or added"


def locate(name: str | Path) -> Path:
    """Return the path of a model, after checking its files against its card.

    name: as in :func:`find`.

    Raises ValueError if there is no such model, or a file differs from its card.

    >>> locate("shakespeare").is_dir()
    True
    """
    return find(name).check().path


def translator(language: str) -> Entry:
    """Return the model that translates from a language; of several, the one with the highest BLEU on its card.

    language: two letters, such as "zh" or "de".

    Raises ValueError if there is none, with the languages there are.

    >>> translator("zh").card.languages
    ('zh', 'en')
    """
    known = entries()
    translators = [e for e in known if e.card is not None and e.card.task == "translation" and e.card.languages[:1] == (language,)]
    if not translators:
        sources = sorted({e.card.languages[0] for e in known if e.card is not None and e.card.task == "translation" and e.card.languages})
        languages = f"they translate from {', '.join(sources)}" if sources else "none is a translator whose card names its languages"
        raise ValueError(f"there is no model that translates from {language!r} ({listed(known)}; {languages}); give one with --model")
    return max(translators, key=lambda e: e.card.bleu() if e.card else -1.0)


def weights_in(folder: Path) -> Path:
    """Return the .gguf file in a model's folder, or the folder if there is none."""
    return next(iter(sorted(folder.glob("*.gguf"))), folder)


def task_of(path: Path) -> str:
    """Return the task of a run's folder; "" for other models."""
    file = path / "run.json"
    if not file.is_file():
        return ""
    return str(read_json(file).get("task", ""))
