"""The jobs a model can be trained for, each in its own file; `regard train NAME CONFIG` finds them here."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

# name → module:class. A class has `Config` (the dataclass of its TOML file) and `build(config, root, folder)`.
TASKS: dict[str, str] = {
    "translation": "regard.training.tasks.translation:TranslationTask",
    "lm": "regard.training.tasks.lm:LanguageTask",
    "mlm": "regard.training.tasks.mlm:MaskedTask",
    "classify": "regard.training.tasks.classify:ClassifyTask",
    "reader": "regard.training.tasks.reader:ReaderTask",
}


def find_task(name: str) -> Any:
    """The task class registered as `name`; an error names the nearest one."""
    if name not in TASKS:
        near = difflib.get_close_matches(name, TASKS, n=1)
        raise ValueError(f"there is no task {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(TASKS)}"))
    module, _, attribute = TASKS[name].partition(":")
    return getattr(import_module(module), attribute)
