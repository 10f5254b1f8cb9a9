"""Models that are here: small ones of our own, shipped with their cards, and published ones the user added.

    regard.zoo.names()                       what there is
    regard.zoo.find("reader").card           what it is, from what data, how good
    regard.zoo.open("zh-en-transformer")     ready to use: `.translate`, `.generate` or `.answer`

Each shipped model is a folder here: run.json, model.safetensors (half precision), its vocabularies, card.json, and MODEL.md, which is
the card to read. `regard models` lists them, `regard models add` adds to them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from .card import Card
from .catalog import Entry, entries, find, home, locate, names, task_of, translator

__all__ = ["Card", "Entry", "entries", "find", "home", "locate", "names", "open", "translator"]

_RUNS = {
    "translation": ("regard.training.tasks.translation", "Translations"),
    "lm": ("regard.training.tasks.lm", "LanguageModel"),
    "reader": ("regard.training.tasks.reader", "StoryReader"),
    "classify": ("regard.training.tasks.classify", "Classifier"),
}


def open(name: str | Path, *, device: str = "cpu") -> Any:
    """A model by its name or path, its files checked against its card, ready to use.

    What comes back depends on what it does: `Translations` (.translate), `LanguageModel` (.generate), `StoryReader` (.answer),
    `Classifier` (.classify), or `Published` weights (.generate for language models).

    >>> open("shakespeare").generate("ROMEO:", max_new=0)
    'ROMEO:'
    """
    path = locate(name)
    task = task_of(path)
    if not task:
        from .published import Published

        return Published.open(path, device=device)
    if task not in _RUNS:
        raise ValueError(f"{path} is a run of {task!r}; runs of {', '.join(_RUNS)} are opened")
    module, kind = _RUNS[task]
    return getattr(import_module(module), kind).open(path, device=device)
