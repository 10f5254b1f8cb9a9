"""Trained models: small ones shipped with the package, and published ones the user has added.

    regard.zoo.names()                       the names of all models
    regard.zoo.find("reader").card           what it does, its training data, its scores
    regard.zoo.open("zh-en-transformer")     the model, with `.translate`, `.generate`, `.answer` …

Each shipped model is a folder here: run.json, model.safetensors (half precision), its vocabularies, card.json, and MODEL.md, the card
as a page. `regard models` lists the models, `regard models add` adds one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from ..files import read_json
from .card import Card
from .catalog import Entry, entries, find, home, locate, names, task_of, translator

__all__ = ["Card", "Entry", "entries", "find", "home", "locate", "names", "open", "translator"]


def open(
    name: str | Path | Entry, *, device: str = "cpu", task: str | None = None, loader: Literal["regard", "transformers"] = "regard"
) -> Any:
    """Load a model by its name, path or catalog entry, after checking its files against its card.

    It opens shipped and added models, runs of `regard train`, folders of `save_folder`, Hugging Face folders and .gguf files.
    The type of the result depends on the task: `Translations` (.translate), `LanguageModel` (.generate), `MaskedModel` (.fill),
    `StoryReader` (.answer), `ArticleReader` (.read), `Classifier` (.classify), or `Published` weights (.generate for language models).
    All of them are `regard.training.opened.OpenedModel`: the model itself (.model), a text as its inputs (.inputs), the tokens of inputs
    (.tokens).

    name    a name that `regard models` lists; or the path of a run's folder, a Hugging Face folder or a .gguf file
    device  "cpu", "cuda", "mps" …: where the weights are loaded
    task    raise an error if it is not a run of this task
    loader  for a Hugging Face folder: "regard" loads it as a `Gpt` or `Bert`, "transformers" as a model of transformers

    Returns the opened model. Raises ValueError if there is no such model, it is damaged, or it is of another task.

    >>> open("shakespeare").generate("ROMEO:", max_new=0)
    'ROMEO:'
    """
    path = (name if isinstance(name, Entry) else find(name)).check().path
    if kind := task or task_of(path):
        from ..training.tasks import find_task

        return find_task(kind).open(path, device=device)
    if loader == "transformers" and not _only_regard(path):
        from .transformers_model import TransformersModel

        return TransformersModel.open(path, device=device)
    from .published import Published

    return Published.open(path, device=device)


def _only_regard(path: Path) -> bool:
    """Return whether transformers cannot load it: a .gguf file or a folder of `save_folder`."""
    return path.suffix == ".gguf" or "regard" in read_json(path / "config.json")
