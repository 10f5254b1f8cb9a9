"""`regard translate TEXT…`: translate, and show the alignment in the terminal, as JSON or as a page."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .boundary import wrong_arguments
from .options import LARGEST_BEAM, LARGEST_SEED, Device, within
from .text_input import lines_of

if TYPE_CHECKING:
    from ..training.tasks.translation import Translated, Translations
    from ..zoo import Entry


def translate(
    text: Annotated[list[str] | None, typer.Argument(help="texts to translate (default: the lines of standard input)")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="a name from `regard models` or the folder of a run (default: by language)")
    ] = None,
    language: Annotated[str | None, typer.Option("--from", help="the source language: zh or de (default: from the text)")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="translate the lines of a file", exists=True, dir_okay=False)] = None,
    beam: Annotated[
        int | None, typer.Option("--beam", help="beam size; 1 is greedy (default: the model's own)", callback=within(1, LARGEST_BEAM))
    ] = None,
    n_best: Annotated[
        int, typer.Option("--n-best", help="how many candidate translations to print for each text", callback=within(1, LARGEST_BEAM))
    ] = 1,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="sample instead of beam search; higher is more random", callback=within(0, 10**6))
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="seed of the sampling, for repeatable output", callback=within(0, LARGEST_SEED))
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per text, with its alignment")] = False,
    alignment: Annotated[bool, typer.Option("--alignment/--no-alignment", help="draw the alignment below each translation")] = True,
    html: Annotated[Path | None, typer.Option("--html", help="also write the alignment as an interactive page (one text only)")] = None,
    device: Device = "cpu",
) -> None:
    """Translate texts, and show the attention weights between target words and source words.

    Without --model and --from the letters of a text decide: Chinese characters
    go to the best installed Chinese model, Latin letters to the German one,
    with a warning if the text does not look like German.

    A text longer than the model was trained on is translated sentence by
    sentence, without an alignment. A file or standard input gives one output
    line per input line.
    """
    for word in text or ():
        if os.path.isfile(word):
            raise typer.BadParameter(f"{word!r} is a file; to translate its lines: regard translate -f {word}", param_hint="TEXT")
    if text and file:
        raise typer.BadParameter("give texts or --file, not both")
    if model is not None and language is not None:
        raise typer.BadParameter("--model already decides the source language; leave --from out", param_hint="--from")
    if html and (file or not text or len(text) != 1):
        raise typer.BadParameter("a page shows one translation; give exactly one text as an argument", param_hint="--html")
    if html and html.suffix.lower() != ".html":
        raise typer.BadParameter(f"{html.name} is a page; give a name that ends in .html", param_hint="--html")
    import torch

    from ..zoo import open as open_model

    # Arguments are shown with their alignments; the lines of a file or of standard input give one plain line each.
    batch = not text
    with wrong_arguments():
        lines = lines_of(text, file)
        jobs = list(_jobs(lines, model, language, batch))
        entries = {job.entry.path: job.entry for job in jobs if job.entry}
        opened = {path: open_model(entry, device=device, task="translation") for path, entry in entries.items()}
        refused = _check_vocabulary(jobs, opened, batch)
    generator = None if seed is None else torch.Generator(device).manual_seed(seed)
    options = {"width": beam, "n_best": n_best, "temperature": temperature, "generator": generator}
    options["align"] = as_json or html is not None or (alignment and not batch)
    drawn = False
    for chunk in _chunks(jobs, 256):
        for job, candidates in zip(chunk, _translated(chunk, opened, refused, options), strict=True):
            if job.entry is not None and job.number not in refused and not candidates[0].text.strip():
                _warn(f"{f'line {job.number}: ' if batch else ''}the translation is empty: {job.entry.name} ended it without a word")
            if as_json:
                name = job.entry.name if job.entry else None
                row = {"source": job.text, "model": name, "translations": [candidate.to_dict() for candidate in candidates]}
                sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
            elif batch:
                sys.stdout.write("\n".join(c.text for c in candidates) + "\n")
            else:
                drawn |= _print_candidates(candidates, n_best)
            if html:
                _write_page(candidates[0], html)
        sys.stdout.flush()
    if drawn:
        _print_legend()
    if len(refused) == sum(bool(job.text.strip()) for job in jobs):
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Job:
    """A text, its number among the texts, and the model that translates it (None for a blank line)."""

    number: int
    text: str
    entry: Entry | None


def _jobs(lines: list[str], model: str | None, language: str | None, batch: bool) -> Iterator[_Job]:
    """Each text with its model; a text without letters gets the model of the text before it."""
    from ..zoo import find, translator
    from ..zoo.language import language_of

    requested = find(model) if model is not None else translator(language) if language is not None else None
    entry = requested
    for number, line in enumerate(lines, 1):
        location = f"line {number}: " if batch else f"text {number}: " if len(lines) > 1 else ""
        if not line.strip():
            if not batch:
                raise ValueError(f"{location}the text is empty; there is nothing to translate")
            yield _Job(number, line, None)
            continue
        if requested is None:
            try:
                detected = language_of(line)
            except ValueError as error:
                raise ValueError(f"{location}{error}") from error
            if detected is None and entry is None:
                raise ValueError(f"{location}{line[:40]!r} has no letters to detect its language from; give --from zh or --from de")
            entry = translator(detected) if detected is not None else entry
        yield _Job(number, line, entry)


def _check_vocabulary(jobs: list[_Job], opened: dict[Path, Translations], batch: bool) -> set[int]:
    """Warn about texts a model cannot read well; return the numbers of those that are mostly unknown (an error unless `batch`)."""
    from ..zoo.language import NAMES, mismatch

    refused = set()
    for job in jobs:
        if job.entry is None:
            continue
        location = f"line {job.number}: " if batch else ""
        model = opened[job.entry.path]
        unknown, share = model.source.unknown_characters(job.text)
        unknown_list = " ".join(unknown[:20]) + (" …" if len(unknown) > 20 else "")
        languages = job.entry.card.languages if job.entry.card else ()
        reads = (
            f"{job.entry.name} reads {NAMES.get(languages[0], languages[0])}" if languages else f"{job.entry.name} was not trained on them"
        )
        if share > 0.5:
            message = f"{location}most of the text is in characters outside the model's vocabulary ({unknown_list}); {reads}"
            if not batch:
                raise ValueError(message)
            _warn(f"{message}; left blank")
            refused.add(job.number)
        elif unknown:
            _warn(f"{location}not in the model's vocabulary, read as unknown: {unknown_list}")
        if job.number in refused:
            continue
        if languages and (difference := mismatch(job.text, languages[0])):
            _warn(f"{location}{difference}, which {job.entry.name} reads: the translation may be nonsense")
        if not model.fits(job.text):
            _warn(f"{location}{len(job.text):,} characters do not fit the model's {model.limit} tokens: translated sentence by sentence")
        if unusual := _unusual(model, job):
            _warn(f"{location}{unusual}: the translation is probably wrong")
    return refused


_RARE = 0.15  # about 3 % of the sentences a shipped translator was trained on have a larger share of rare characters


def _unusual(model: Translations, job: _Job) -> str:
    """Say how a text differs from the sentences the model was tested on: longer, or with rarer words; "" if it does not."""
    reasons = []
    tokens = max(len(model.source.encode(part)) for part in model.sentences(job.text))
    scores = next(iter(job.entry.card.scores.values()), {}) if job.entry and job.entry.card else {}
    if rows := scores.get("by_length"):
        usual = rows[-1]["least"]
        if tokens > 2 * usual:
            share = 1 - rows[-1]["sentences"] / sum(row["sentences"] for row in rows)
            reasons.append(f"a sentence has {tokens} tokens, {share:.0%} of those the model was tested on have fewer than {usual}")
    if len(job.text) > 5 and (rare := model.rare_share(job.text)) > _RARE:
        reasons.append(f"{rare:.0%} of the text is rare or unknown in the model's training data")
    return "; ".join(reasons)


def _translated(
    jobs: list[_Job], opened: dict[Path, Translations], refused: set[int], options: dict[str, Any]
) -> Iterator[list[Translated]]:
    """The candidates of each job, empty ones for blank and refused texts; consecutive texts of one model are translated as one batch."""
    from ..training.tasks.translation import Translated

    blank = [Translated("", 0.0, 0.0, [], [], None)] * options["n_best"]
    for path, consecutive in groupby(jobs, key=lambda job: None if job.entry is None or job.number in refused else job.entry.path):
        group = list(consecutive)
        if path is None:
            yield from [blank] * len(group)
        else:
            yield from ([best, *best.others] for best in opened[path].translate([job.text for job in group], **options))


def _print_candidates(candidates: list[Translated], n_best: int) -> bool:
    """Print the translations, each with its alignment where there is one; return whether there was any."""
    from ..terminal import Pen

    pen = Pen.detect()
    for candidate in candidates:
        sys.stdout.write(candidate.text + (f"  ({candidate.score:.3f})" if n_best > 1 else "") + "\n")
        if picture := candidate.picture(colour=pen.colour, dark=pen.dark):
            sys.stdout.write("".join(f"  {line}\n" for line in picture.splitlines()))
    return any(candidate.alignment is not None for candidate in candidates)


def _print_legend() -> None:
    """Print how to read the alignments."""
    from ..terminal import Pen

    pen = Pen.detect()
    sys.stdout.write(pen.quiet(f"  weight {pen.legend()}; down: translation, across: source") + "\n")


def _write_page(candidate: Translated, path: Path) -> None:
    """Write the alignment of a translation as an interactive page."""
    with wrong_arguments("--html"):
        candidate.save(path)


def _chunks(jobs: list[_Job], size: int) -> Iterator[list[_Job]]:
    for begin in range(0, len(jobs), size):
        yield jobs[begin : begin + size]


def _warn(line: str) -> None:
    sys.stderr.write(line + "\n")
