"""`regard translate TEXT…`: translations with their alignments, in the terminal or as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..training.tasks.translation import Translated


def translate(
    text: Annotated[list[str] | None, typer.Argument(help="texts to translate; none: one a line from standard input")] = None,
    model: Annotated[Path | None, typer.Option("--model", "-m", help="the folder of a `regard train translation` run")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="translate the lines of a file", exists=True, dir_okay=False)] = None,
    beam: Annotated[int | None, typer.Option("--beam", help="how many prefixes the search keeps; 1 is greedy", min=1)] = None,
    n_best: Annotated[int, typer.Option("--n-best", help="how many translations of each text", min=1)] = 1,
    temperature: Annotated[float | None, typer.Option("--temperature", help="sample instead of searching", min=0.0)] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="makes sampling repeatable")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a text, with its alignment")] = False,
    alignment: Annotated[bool, typer.Option("--alignment/--no-alignment", help="draw the alignment under each translation")] = True,
    html: Annotated[Path | None, typer.Option("--html", help="also write the interactive alignment of one text to this page")] = None,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, mps")] = "cpu",
) -> None:
    """Translate, and show which source words each target word was read from."""
    if model is None:
        raise typer.BadParameter("no model: give --model with the folder of a `regard train translation` run", param_hint="--model")
    if text and file:
        raise typer.BadParameter("give texts or --file, not both")
    if html and (file or not text or len(text) != 1):
        raise typer.BadParameter("a page shows one translation: give one text", param_hint="--html")
    import torch

    from ..text.pairs import read_lines
    from ..training.tasks.translation import Translations

    try:
        opened = Translations.open(model, device=device)
        # Texts given by hand are few and shown with their alignment; a file is a batch job, one plain line each.
        batch = not text
        lines = list(text or (read_lines(file) if file else (line.rstrip("\r\n") for line in sys.stdin)))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    generator = None if seed is None else torch.Generator(device).manual_seed(seed)
    align = as_json or html is not None or (alignment and not batch)
    for chunk in _chunks(lines, 256):
        found = opened.translate(chunk, width=beam, n_best=n_best, align=align, temperature=temperature, generator=generator)
        for source, candidates in zip(chunk, found, strict=True):
            if as_json:
                sys.stdout.write(json.dumps(_plain(source, candidates), ensure_ascii=False) + "\n")
            elif batch:
                sys.stdout.write("\n".join(c.text for c in candidates) + "\n")
            else:
                _show(candidates, n_best)
            if html:
                _page(candidates[0], html)
        sys.stdout.flush()


def _show(candidates: list[Translated], n_best: int) -> None:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for candidate in candidates:
        sys.stdout.write(candidate.text + (f"  ({candidate.score:.3f})" if n_best > 1 else "") + "\n")
        if picture := candidate.picture(colour=colour, dark=_dark_terminal()):
            sys.stdout.write("".join(f"  {line}\n" for line in picture.splitlines()))


def _page(candidate: Translated, path: Path) -> None:
    from ..sight.alignment_view import alignment_html
    from ..sight.report import write_page

    if candidate.alignment is None:
        raise typer.BadParameter("this model has one fixed context and no alignment to draw", param_hint="--html")
    write_page(alignment_html(candidate.alignment, candidate.target_words, candidate.source_words, title=candidate.text), path)


def _dark_terminal() -> bool:
    """What the terminal says of its background (COLORFGBG, "foreground;background"); dark when it says nothing."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return background not in ("7", "15")


def _plain(source: str, candidates: list[Translated]) -> dict[str, Any]:
    return {
        "source": source,
        "translations": [
            {
                "text": c.text,
                "score": c.score,
                "log_prob": c.log_prob,
                "source_words": c.source_words,
                "target_words": c.target_words,
                "alignment": None if c.alignment is None else [[round(w, 6) for w in row] for row in c.alignment.tolist()],
            }
            for c in candidates
        ],
    }


def _chunks(lines: list[str], size: int) -> Iterator[list[str]]:
    for begin in range(0, len(lines), size):
        yield lines[begin : begin + size]
