"""A model's card: what it does, its origin, its scores, and the hashes of its files.

`card.json` is the card; `MODEL.md` is the same as a page.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..files import read_json

FILE = "card.json"
PAGE = "MODEL.md"
# What the names in an evaluation mean, by task; the names are those of `regard evaluate --json`.
_LANGUAGE_MODEL = {
    "loss": "mean −ln p of a token, in nats",
    "perplexity": "exp(loss)",
    "bits_per_character": "mean −log₂ p of a character; comparable between vocabularies",
}
_MEANINGS = {
    "translation": {"beam": "width of the beam search", "exact": "% of translations equal to the reference"},
    "lm": _LANGUAGE_MODEL,
    "mlm": {**_LANGUAGE_MODEL, "lines": "test lines", "tokens": "masked tokens", "accuracy": "% of the masked tokens predicted right"},
    "reader": {
        "loss": "mean −ln p of the right answer, in nats",
        "answers": "share of questions answered right",
        "picked": "share of questions where exactly the supporting sentences were picked",
        "saved": "share of words that were not read",
    },
    "article": {
        "sentences": "sentences in an article, mean",
        "loss": "mean −ln of the attention weight of the sentences with the answer",
        "f1_2": "F1 of the answer read from two picked sentences, in %",
        "f1_5": "… from five",
        "f1_all": "… from the whole article",
        "f1_sentence": "F1 of the first picked sentence as the answer",
    },
}
_PICKERS = {
    "picked": "this model",
    "bm25": "BM25",
    "tfidf_article": "TF-IDF, frequencies of the article",
    "tfidf": "TF-IDF, frequencies of all articles",
    "first": "the first sentences",
    "chance": "chance",
}
_PICKS = (1, 2, 5)


@dataclass(frozen=True)
class Data:
    """A data set a model was trained on."""

    name: str
    licence: str
    attribution: str


@dataclass(frozen=True, repr=False)
class Card:
    """The description of a model.

    name: what `regard models` calls it.
    task: of a run: translation, lm, reader, article, classify or mlm; of published weights: lm, encoder or other.
    about: what it does, in a sentence.
    files: name → sha256 of every file of the model.
    languages: the input language, then, for a translator, the output language.
    parameters: how many numbers were trained.
    licence: of the weights.
    comes_from: where published weights are from.
    data: the data sets it was trained on, with their licences.
    command: the commands that train it, one per line.
    seed: of the training.
    scores: test set → the output of `regard evaluate --json` on these weights.
    limits: what it cannot do.

    >>> from regard import zoo
    >>> zoo.find("zh-en-transformer").card.languages
    ('zh', 'en')
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
        """Read the card in a folder; None if it has none."""
        file = folder / FILE
        if not file.is_file():
            return None
        try:
            fields = read_json(file)
            fields["data"] = tuple(Data(**item) for item in fields.get("data", ()))
            tuples = {name: tuple(fields.get(name, ())) for name in ("languages", "command", "limits")}
            known = {field.name for field in dataclasses.fields(cls)}  # a card of a later version may have more fields
            return cls(**{name: value for name, value in {**fields, **tuples}.items() if name in known})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{file} is damaged ({error}); remove the folder and add the model again, or install regard again") from error

    def __repr__(self) -> str:
        languages = f", {self.language_names()}" if self.languages else ""
        return f"Card({self.name}: {self.task}{languages}, {self.parameters:,} parameters)"

    def _repr_markdown_(self) -> str:
        return markdown(self)

    def to_json(self) -> str:
        """Return the card as the text of its file."""
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False) + "\n"

    def check(self, folder: Path) -> None:
        """Raise ValueError if a file of the model is missing or does not have the hash of the card."""
        for name, expected in self.files.items():
            file = folder / name
            if not file.is_file():
                raise ValueError(f"{file} is missing; {self._repair_hint()}")
            actual = sha256(file)
            if actual != expected:
                differs = f"its sha256 is {actual[:12]}…, its card says {expected[:12]}…"
                raise ValueError(f"{file} ({file.stat().st_size:,} bytes) is damaged or was changed: {differs}; {self._repair_hint()}")

    def _repair_hint(self) -> str:
        return f"run `regard models remove {self.name}` and add it again" if self.comes_from else "install regard again"

    def language_names(self) -> str:
        """Return the languages as one text: from one to the other for a translator, else a list.

        >>> Card("x", "mlm", "", {}, ("zh", "en")).language_names()
        'zh, en'
        """
        return (" → " if self.task == "translation" else ", ").join(self.languages)

    def headline(self) -> str:
        """Return the first score as a short text.

        >>> Card("x", "lm", "", {}, scores={"the last tenth": {"loss": 1.8, "perplexity": 6.05}}).headline()
        'loss 1.800 (the last tenth)'
        """
        for label, result in self.scores.items():
            return f"{first_score(result)} ({label})"
        return ""

    def bleu(self) -> float:
        """Return the first BLEU of the card, −1 if it has none; translators of the same language are ranked by it."""
        for result in self.scores.values():
            for score in result.get("scores", ()):
                if score["name"] == "bleu":
                    return float(score["value"])
        return -1.0


def first_score(result: dict[str, Any]) -> str:
    """Return the main score of an evaluation as a short text."""
    if "scores" in result:
        return f"BLEU {result['scores'][0]['value']:.1f}"
    if "answers" in result:
        return f"answers {result['answers']:.1%}"
    if "picked_2" in result:
        return f"right sentence in 2 picks {result['picked_2']:.1f}%"
    if "accuracy" in result:
        return f"accuracy {result['accuracy']:.1f}%"
    if "bits_per_character" in result:
        return f"{result['bits_per_character']:.2f} bits a character"
    return f"loss {result['loss']:.3f}" if "loss" in result else ""


def sha256(file: Path) -> str:
    """Return the SHA-256 hash of a file."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return name → sha256 of files in a folder, sorted by name."""
    return {name: sha256(folder / name) for name in sorted(names)}


def markdown(card: Card) -> str:
    """Return the card as a Markdown page."""
    lines = [f"# {card.name}", "", card.about, ""]
    facts = [
        ("Task", card.task),
        ("Languages", card.language_names()),
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
            lines += _scores(card.task, label, result)
    if card.limits:
        lines += ["", "## Limits", "", *(f"- {limit}" for limit in card.limits)]
    lines += ["", "## Files", "", "| file | sha256 |", "|---|---|", *(f"| {name} | `{digest}` |" for name, digest in card.files.items())]
    return "\n".join(lines) + "\n"


def _scores(task: str, label: str, result: dict[str, Any]) -> list[str]:
    """Return an evaluation as a table; for article readers a second one by picks, for translations one by source length."""
    meanings = _MEANINGS.get(task, {})
    picks = {f"{key}_{k}" for key in _PICKERS for k in _PICKS} if task == "article" else set()
    rows = [(score["name"], f"{score['value']:.2f}", score["signature"]) for score in result.get("scores", ())]
    for name, value in result.items():
        if isinstance(value, int | float) and name not in picks:
            rows.append((name, f"{value:.4g}" if isinstance(value, float) else f"{value:,}", meanings.get(name, "")))
    lines = [f"**{label}**", "", "| | | |", "|---|---|---|", *(f"| {name} | {value} | {_cell(note)} |" for name, value, note in rows), ""]
    if picks & result.keys():
        lines += [
            "% of questions whose answer is in the first 1, 2 or 5 sentences picked:",
            "",
            "| picked by | 1 | 2 | 5 |",
            "|---|---|---|---|",
        ]
        for key, name in _PICKERS.items():
            lines.append(f"| {name} | " + " | ".join(f"{result.get(f'{key}_{k}', math.nan):.1f}" for k in _PICKS) + " |")
        lines.append("")
    if result.get("by_length"):
        lines += ["| source tokens | sentences | BLEU (lowercase) | exact |", "|---|---|---|---|"]
        lines += [f"| {r['least']}–{r['most']} | {r['sentences']} | {r['bleu']:.1f} | {r['exact']:.1f} % |" for r in result["by_length"]]
        lines.append("")
    return lines


def _cell(text: str) -> str:
    """Escape bars, which would end the cell of a table."""
    return text.replace("|", "\\|")
