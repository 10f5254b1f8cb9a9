"""The catalog of models: those shipped in this package, those the user added, and paths to any other."""

from __future__ import annotations

import difflib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .card import FILE, Card

SHIPPED = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """A model that can be opened: a folder, or a .gguf file. What a path points to has a card only if there is one beside it."""

    name: str
    path: Path
    origin: Literal["shipped", "added", "given"]
    card: Card | None
    trouble: str = ""  # why the card cannot be read

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else sum(f.stat().st_size for f in self.path.rglob("*") if f.is_file())

    def check(self) -> Entry:
        """Make sure the files are those of the card."""
        if self.trouble:
            raise ValueError(self.trouble)
        if self.card is not None:
            self.card.check(self.folder)
        return self


def home() -> Path:
    """Where added models are kept: $REGARD_HOME, or the place this system has for a user's data."""
    if given := os.environ.get("REGARD_HOME"):
        return Path(given).expanduser() / "models"
    if sys.platform == "darwin":
        base = Path("~/Library/Application Support")
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share")
    return base.expanduser() / "regard" / "models"


def entries() -> list[Entry]:
    """Every model shipped or added, in that order, each by name."""
    found = []
    for origin, root in (("shipped", SHIPPED), ("added", home())):
        folders = sorted(root.iterdir()) if root.is_dir() else []
        for folder in folders:
            if folder.name.startswith((".", "_")) or not (folder / FILE).is_file():
                continue
            try:
                card, trouble = Card.read(folder), ""
            except ValueError as error:  # one damaged model must not hide the others
                card, trouble = None, str(error)
            found.append(Entry(folder.name, weights_in(folder), origin, card, trouble))  # type: ignore[arg-type]
    return found


def names() -> list[str]:
    """The names `find` and `open` know, shipped ones first."""
    return [entry.name for entry in entries()]


def find(name: str | Path) -> Entry:
    """The model called `name`; else the run folder, Hugging Face folder or .gguf file it is the path of.

    A name goes before a path of the same spelling; write ./name for the path.
    """
    known = entries()
    for entry in known:
        if entry.name == str(name):
            return entry
    path = Path(name).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return Entry(path.stem, path, "given", None)
    if path.is_dir():
        if any((path / file).is_file() for file in ("run.json", "config.json")):
            return Entry(path.resolve().name, path, "given", Card.read(path))
        raise ValueError(f"{path} is not a model: it has no run.json (a run of `regard train`) and no config.json (a Hugging Face folder)")
    if path.is_file():
        raise ValueError(f"{path} is not a model: give a folder, or a .gguf file")
    near = difflib.get_close_matches(str(name), [entry.name for entry in known], n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"there is no model {str(name)!r} and no such path; {hint}there are {listed(known)}; or give a folder or a .gguf file")


def listed(known: list[Entry]) -> str:
    """The models there are, as a phrase."""
    parts = []
    for origin in ("shipped", "added"):
        if found := [entry.name for entry in known if entry.origin == origin]:
            parts.append(f"{origin}: {', '.join(found)}")
    return "; ".join(parts) or "none, shipped or added"


def locate(name: str | Path) -> Path:
    """The path of a model whose files were checked against its card."""
    return find(name).check().path


def translator(language: str) -> Entry:
    """The shipped or added model that translates from a language; of several, the one with the highest BLEU on its card."""
    known = entries()
    able = [e for e in known if e.card is not None and e.card.task == "translation" and e.card.languages[:1] == (language,)]
    if not able:
        read = sorted({e.card.languages[0] for e in known if e.card is not None and e.card.task == "translation" and e.card.languages})
        languages = f"they translate from {', '.join(read)}" if read else "none of them translates"
        raise ValueError(f"there is no model that translates from {language!r} ({listed(known)}; {languages}); give one with --model")
    return max(able, key=lambda e: e.card.bleu() if e.card else -1.0)


def weights_in(folder: Path) -> Path:
    """What a model's folder is opened by: its .gguf file if that is what it holds, else the folder."""
    return next(iter(sorted(folder.glob("*.gguf"))), folder)


def task_of(path: Path) -> str:
    """What a run's folder was trained for; "" for other models."""
    file = path / "run.json"
    if not file.is_file():
        return ""
    run: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return str(run.get("task", ""))
