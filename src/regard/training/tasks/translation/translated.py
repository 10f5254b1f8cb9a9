"""One translation: its text, its alignment, and how it shows itself in a terminal, a notebook and a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from ....files import write_text
from ....text.alignment import draw


@dataclass(frozen=True, eq=False, repr=False)
class Translated:
    """One translation. `str()` gives its text; in a notebook it shows its alignment.

    text: the translation.
    score: what the search ranks by: log_prob, corrected for length
    log_prob: the log of the text's probability, in nats
    source_words, target_words: the words of both, as the alignment has them.
    alignment: attention weights (target words × source words); None without attention, with align=False, and for a text in parts
    source: the text that was translated
    others: further candidates, best first, as many as n_best asked for

    >>> import regard
    >>> regard.open("zh-en-transformer").translate("我爱中国").alignment.shape
    torch.Size([4, 4])
    """

    text: str
    score: float
    log_prob: float
    source_words: list[str]
    target_words: list[str]
    alignment: Tensor | None
    source: str = ""
    others: tuple[Translated, ...] = ()

    def picture(self, *, colour: bool = False, dark: bool = True) -> str:
        """Return the alignment drawn as text, or "" if there is none.

        colour, dark: as in :func:`regard.text.draw`.
        """
        if self.alignment is None:
            return ""
        return draw(self.alignment, self.target_words, self.source_words, colour=colour, dark=dark)

    def to_dict(self) -> dict[str, Any]:
        """Return the translation for JSON, as `regard translate --json` prints it; without source and others."""
        alignment = None if self.alignment is None else [[round(weight, 6) for weight in row] for row in self.alignment.tolist()]
        return {
            "text": self.text,
            "score": self.score,
            "log_prob": self.log_prob,
            "source_words": self.source_words,
            "target_words": self.target_words,
            "alignment": alignment,
        }

    def save(self, path: str | Path) -> Path:
        """Write the alignment as .html (an interactive page), .svg, .png or .pdf (a figure), or everything as .json."""
        path = Path(path)
        kinds = (".html", ".json", ".svg", ".png", ".pdf")
        if path.suffix.lower() not in kinds:
            raise ValueError(f"{path.name} ends in {path.suffix or 'nothing'}; a translation is saved as {', '.join(kinds)}")
        if path.suffix.lower() == ".json":
            candidates = [candidate.to_dict() for candidate in (self, *self.others)]
            return write_text(path, json.dumps({"source": self.source, "translations": candidates}, ensure_ascii=False, indent=1) + "\n")
        weights = self._weights()
        if path.suffix.lower() == ".html":
            html: str = _views().alignment_html(weights, self.target_words, self.source_words, title=self._title)
            return write_text(path, html)
        saved: Path = _views().save_alignment(weights, self.target_words, self.source_words, path, title=self._title)
        return saved

    def _weights(self) -> Tensor:
        if self.alignment is None:
            raise ValueError(
                "there is no alignment to draw: the model has no attention, align=False was given, or the text was "
                "translated in parts (translate one sentence)"
            )
        return self.alignment

    @property
    def _title(self) -> str:
        return f"{self.source} → {self.text}" if self.source else self.text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        def short(text: str) -> str:
            return repr(text if len(text) <= 40 else text[:39] + "…")

        source = f"{short(self.source)} → " if self.source else ""
        others = f", {len(self.others)} other candidates" if self.others else ""
        return f"Translated({source}{short(self.text)}, log_prob {self.log_prob:.2f}{others})"

    def _repr_html_(self) -> str:
        html: str = _views().alignment_frame(self.alignment, self.target_words, self.source_words, title=self._title)
        return html


def best_with_others(candidates: Sequence[Translated]) -> Translated:
    """Return the first of several candidates, with the rest as its others."""
    return replace(candidates[0], others=tuple(candidates[1:]))


def joined(parts: list[list[Translated]], source: str) -> list[Translated]:
    """Join the best translations of every part of a text, then the second best of each, and so on."""
    if len(parts) == 1:
        return [replace(candidate, source=source) for candidate in parts[0]]
    return [
        Translated(
            " ".join(part.text for part in row),
            sum(part.score for part in row),
            sum(part.log_prob for part in row),
            [word for part in row for word in part.source_words],
            [word for part in row for word in part.target_words],
            None,
            source,
        )
        for row in zip(*parts, strict=False)
    ]


def _views() -> Any:
    """The module that draws alignments; it belongs to `sight`, which is above this package, so it is named and not imported."""
    return import_module("regard.sight.views.alignment")
