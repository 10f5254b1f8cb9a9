"""Models that are here: small ones of our own, shipped with their cards, and published ones the user added.

    regard.zoo.names()                       what there is
    regard.zoo.find("reader").card           what it is, from what data, how good
    regard.zoo.open("zh-en-transformer")     ready to use: `.translate`, `.generate`, `.answer` …

Each shipped model is a folder here: run.json, model.safetensors (half precision), its vocabularies, card.json, and MODEL.md, which is
the card to read. `regard models` lists them, `regard models add` adds to them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from .card import Card
from .catalog import Entry, entries, find, home, locate, names, task_of, translator

__all__ = ["Card", "Entry", "entries", "find", "home", "locate", "names", "open", "translator"]


def open(
    name: str | Path | Entry, *, device: str = "cpu", task: str | None = None, loader: Literal["regard", "transformers"] = "regard"
) -> Any:
    """A model by its name, path or catalog entry, its files checked against its card, ready to use.

    It opens shipped and added models, runs of every task of `regard train`, folders of `save_folder`, Hugging Face folders and .gguf files.
    What comes back depends on what the model does: `Translations` (.translate), `LanguageModel` (.generate), `MaskedModel` (.fill),
    `StoryReader` (.answer), `Classifier` (.classify), or `Published` weights (.generate for language models). All of them are
    `regard.training.opened.OpenedModel`: the model itself (.model), a text as its inputs (.inputs), the tokens of inputs (.tokens).

    task    refuse what is not a run of this task
    loader  who reads a Hugging Face folder: "regard", our own models; "transformers", exactly the model transformers runs

    >>> open("shakespeare").generate("ROMEO:", max_new=0)
    'ROMEO:'
    """
    path = (name if isinstance(name, Entry) else find(name)).check().path
    if kind := task or task_of(path):
        from ..training.tasks import find_task

        return find_task(kind).open(path, device=device)
    if loader == "transformers" and not _is_ours(path):
        from .transformers_model import TransformersModel

        return TransformersModel.open(path, device=device)
    from .published import Published

    return Published.open(path, device=device)


def _is_ours(path: Path) -> bool:
    """Whether our own models wrote it, or only they read it."""
    return path.suffix == ".gguf" or "regard" in json.loads((path / "config.json").read_text(encoding="utf-8"))
