"""`regard translate TEXT…`: translations with their alignments, in the terminal or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .text_input import lines_of

if TYPE_CHECKING:
    from ..training.tasks.translation import Translated, Translations
    from ..zoo import Entry


def translate(
    text: Annotated[list[str] | None, typer.Argument(help="texts to translate; none: one a line from standard input")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="a name of `regard models` or the folder of a run (default: by language)")
    ] = None,
    language: Annotated[str | None, typer.Option("--from", help="the language of the texts: zh or de (default: by their letters)")] = None,
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
    """Translate, and show which source words each target word was read from.

    Without --model and --from, a text in Chinese characters goes to the best Chinese translator there is and a text in Latin letters to the
    German one: letters alone cannot tell German from other languages, so say --from, or give a --model. A text longer than what a model was
    trained on is translated sentence by sentence, without an alignment. A file or standard input gives one line for each line.
    """
    if text and file:
        raise typer.BadParameter("give texts or --file, not both")
    if model is not None and language is not None:
        raise typer.BadParameter("--model says which language is read; leave --from out", param_hint="--from")
    if html and (file or not text or len(text) != 1):
        raise typer.BadParameter("a page shows one translation: give one text", param_hint="--html")
    import torch

    from ..zoo import open as open_model

    # Texts given by hand are few and shown with their alignment; a file is a batch job, one plain line each.
    batch = not text
    try:
        lines = lines_of(text, file)
        jobs = list(_jobs(lines, model, language, batch))
        entries = {job.entry.path: job.entry for job in jobs if job.entry}
        opened = {path: open_model(entry, device=device, task="translation") for path, entry in entries.items()}
        refused = _strange(jobs, opened, batch)
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error
    generator = None if seed is None else torch.Generator(device).manual_seed(seed)
    options = {"width": beam, "n_best": n_best, "temperature": temperature, "generator": generator}
    options["align"] = as_json or html is not None or (alignment and not batch)
    for chunk in _chunks(jobs, 256):
        for job, found in zip(chunk, _translated(chunk, opened, refused, options), strict=True):
            if as_json:
                name = job.entry.name if job.entry else None
                sys.stdout.write(json.dumps({"source": job.text, "model": name, **_plain(found)}, ensure_ascii=False) + "\n")
            elif batch:
                sys.stdout.write("\n".join(c.text for c in found) + "\n")
            else:
                _show(found, n_best)
            if html:
                _page(found[0], html)
        sys.stdout.flush()
    if len(refused) == sum(bool(job.text.strip()) for job in jobs):
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Job:
    """A text, where it stands, and the model for it; none for a blank line."""

    number: int
    text: str
    entry: Entry | None


def _jobs(lines: list[str], model: str | None, language: str | None, batch: bool) -> Iterator[_Job]:
    """Each text with the model it is for; a text without letters goes where the one before it went."""
    from ..zoo import find, translator
    from ..zoo.language import language_of

    given = find(model) if model is not None else translator(language) if language is not None else None
    entry = given
    for number, line in enumerate(lines, 1):
        where = f"line {number}: " if batch else f"text {number}: " if len(lines) > 1 else ""
        if not line.strip():
            if not batch:
                raise ValueError(f"{where}the text is empty; there is nothing to translate")
            yield _Job(number, line, None)
            continue
        if given is None:
            try:
                found = language_of(line)
            except ValueError as error:
                raise ValueError(f"{where}{error}") from error
            if found is None and entry is None:
                raise ValueError(f"{where}{line[:40]!r} has no letters to tell its language by; say --from zh or --from de")
            entry = translator(found) if found is not None else entry
        yield _Job(number, line, entry)


def _strange(jobs: list[_Job], opened: dict[Path, Translations], batch: bool) -> set[int]:
    """Say what the models cannot read. The numbers of the texts that are mostly unknown to them; given by hand, that is an error."""
    from ..zoo.language import NAMES, foreign

    refused = set()
    for job in jobs:
        if job.entry is None:
            continue
        where = f"line {job.number}: " if batch else ""
        model = opened[job.entry.path]
        strange, share = model.source.unknown_characters(job.text)
        shown = " ".join(strange[:20]) + (" …" if len(strange) > 20 else "")
        languages = job.entry.card.languages if job.entry.card else ()
        reads = (
            f"{job.entry.name} reads {NAMES.get(languages[0], languages[0])}" if languages else f"{job.entry.name} was not trained on them"
        )
        if share > 0.5:
            told = f"{where}most of the text is in characters the model never saw ({shown}); {reads}"
            if not batch:
                raise ValueError(told)
            _say(f"{told}; left blank")
            refused.add(job.number)
        elif strange:
            _say(f"{where}read as unknown, since the model never saw them: {shown}")
        elif languages and foreign(job.text, languages[0]):
            _say(f"{where}{reads}, and this does not look like it: expect nonsense")
        if job.number not in refused and not model.fits(job.text):
            _say(
                f"{where}{len(job.text):,} characters are more than the {model.limit} tokens the model reads at once: sentence by sentence"
            )
    return refused


def _translated(
    jobs: list[_Job], opened: dict[Path, Translations], refused: set[int], options: dict[str, Any]
) -> Iterator[list[Translated]]:
    """The translations of each job, blank ones for blank and refused texts; neighbours with one model go through it together."""
    from ..training.tasks.translation import Translated

    blank = [Translated("", 0.0, 0.0, [], [], None)] * options["n_best"]
    for path, neighbours in groupby(jobs, key=lambda job: None if job.entry is None or job.number in refused else job.entry.path):
        group = list(neighbours)
        yield from [blank] * len(group) if path is None else opened[path].translate_long([job.text for job in group], **options)


def _show(candidates: list[Translated], n_best: int) -> None:
    from ..terminal import Pen

    pen = Pen.detect()
    for candidate in candidates:
        sys.stdout.write(candidate.text + (f"  ({candidate.score:.3f})" if n_best > 1 else "") + "\n")
        if picture := candidate.picture(colour=pen.colour, dark=pen.dark):
            sys.stdout.write("".join(f"  {line}\n" for line in picture.splitlines()))


def _page(candidate: Translated, path: Path) -> None:
    from ..files import write_text
    from ..sight.views.alignment import alignment_html

    if candidate.alignment is None:
        raise typer.BadParameter("there is no alignment to draw: the model has one fixed context, or the text is long", param_hint="--html")
    write_text(path, alignment_html(candidate.alignment, candidate.target_words, candidate.source_words, title=candidate.text))


def _plain(candidates: list[Translated]) -> dict[str, Any]:
    return {
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


def _chunks(jobs: list[_Job], size: int) -> Iterator[list[_Job]]:
    for begin in range(0, len(jobs), size):
        yield jobs[begin : begin + size]


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
