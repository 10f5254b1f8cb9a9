"""A model's card: what it is, where it comes from, how good it is, and the hashes of its files.

`card.json` is the card; `MODEL.md` beside it is the same for people to read, written from it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = "card.json"
PAGE = "MODEL.md"


@dataclass(frozen=True)
class Data:
    """What a model was trained on."""

    name: str
    licence: str
    attribution: str


@dataclass(frozen=True)
class Card:
    """task     translation, lm, reader, classify or mlm (ours); encoder or other (published weights that are not language models)
    languages   what it reads, then, for a translator, what it writes
    command     how to train it again, a line each
    scores      test set → what `regard evaluate --json` said of these very weights
    files       name → sha256, of every file the model is read from
    """

    name: str
    task: str
    about: str
    files: dict[str, str]
    languages: tuple[str, ...] = ()
    parameters: int = 0
    licence: str = ""
    comes_from: str = ""
    data: tuple[Data, ...] = ()
    command: tuple[str, ...] = ()
    seed: int | None = None
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Card | None:
        """The card in a folder, if it has one."""
        file = folder / FILE
        if not file.is_file():
            return None
        try:
            given = json.loads(file.read_text(encoding="utf-8"))
            given["data"] = tuple(Data(**item) for item in given.get("data", ()))
            tuples = {name: tuple(given.get(name, ())) for name in ("languages", "command", "limits")}
            known = {field.name for field in dataclasses.fields(cls)}  # a card of a later version may say more
            return cls(**{name: value for name, value in {**given, **tuples}.items() if name in known})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{file} is damaged ({error}); remove the folder and add the model again, or install regard again") from error

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False) + "\n"

    def check(self, folder: Path) -> None:
        """Make sure that every file of the model is the one the card was written for."""
        for name, wanted in self.files.items():
            file = folder / name
            if not file.is_file():
                raise ValueError(f"{file} is missing; {self._again()}")
            found = sha256(file)
            if found != wanted:
                differs = f"its sha256 is {found[:12]}…, its card says {wanted[:12]}…"
                raise ValueError(f"{file} ({file.stat().st_size:,} bytes) is damaged or was changed: {differs}; {self._again()}")

    def _again(self) -> str:
        return f"run `regard models remove {self.name}` and add it again" if self.comes_from else "install regard again"

    def headline(self) -> str:
        """The first score in few words.

        >>> Card("x", "lm", "", {}, scores={"the last tenth": {"loss": 1.8, "perplexity": 6.05}}).headline()
        'loss 1.800 (the last tenth)'
        """
        for label, result in self.scores.items():
            return f"{first_score(result)} ({label})"
        return ""

    def bleu(self) -> float:
        """The first BLEU the card reports, −1 if none: how translators of the same language are ranked."""
        for result in self.scores.values():
            for score in result.get("scores", ()):
                if score["name"] == "bleu":
                    return float(score["value"])
        return -1.0


def first_score(result: dict[str, Any]) -> str:
    """What counts most of an evaluation."""
    if "scores" in result:
        return f"BLEU {result['scores'][0]['value']:.1f}"
    if "answers" in result:
        return f"answers {result['answers']:.1%}"
    name = next((n for n in ("loss", "accuracy") if n in result), "")
    return f"{name} {result[name]:.3f}" if name else ""


def sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """name → sha256 of files in a folder, sorted by name."""
    return {name: sha256(folder / name) for name in sorted(names)}


def markdown(card: Card) -> str:
    """The card as a page."""
    lines = [f"# {card.name}", "", card.about, ""]
    facts = [
        ("Task", card.task),
        ("Languages", " → ".join(card.languages)),
        ("Parameters", f"{card.parameters:,}" if card.parameters else ""),
        ("Licence of the weights", card.licence),
        ("Comes from", card.comes_from),
        ("Seed", "" if card.seed is None else str(card.seed)),
    ]
    lines += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts if value)]
    if card.data:
        lines += ["", "## Data", "", *(f"- {item.name}, {item.licence}. {item.attribution}" for item in card.data)]
    if card.command:
        lines += ["", "## Train it again", "", "```", *card.command, "```"]
    if card.scores:
        lines += ["", "## Scores", "", "Of the weights as they are shipped, in half precision.", ""]
        for label, result in card.scores.items():
            lines += _scores(label, result)
    if card.limits:
        lines += ["", "## Limits", "", *(f"- {limit}" for limit in card.limits)]
    lines += ["", "## Files", "", "| file | sha256 |", "|---|---|", *(f"| {name} | `{digest}` |" for name, digest in card.files.items())]
    return "\n".join(lines) + "\n"


def _scores(label: str, result: dict[str, Any]) -> list[str]:
    """An evaluation as a table, and for translations one by length of the source."""
    rows = [(score["name"], f"{score['value']:.2f}", score["signature"]) for score in result.get("scores", ())]
    for name, value in result.items():
        if isinstance(value, int | float):
            rows.append((name, f"{value:.4g}" if isinstance(value, float) else f"{value:,}", ""))
    lines = [f"**{label}**", "", "| | | |", "|---|---|---|", *(f"| {name} | {value} | {_cell(note)} |" for name, value, note in rows), ""]
    if result.get("by_length"):
        lines += ["| source tokens | sentences | BLEU (lowercase) | exact |", "|---|---|---|---|"]
        lines += [f"| {r['least']}–{r['most']} | {r['sentences']} | {r['bleu']:.1f} | {r['exact']:.1f} % |" for r in result["by_length"]]
        lines.append("")
    return lines


def _cell(text: str) -> str:
    """Text inside a table: a bar would end its cell."""
    return text.replace("|", "\\|")
