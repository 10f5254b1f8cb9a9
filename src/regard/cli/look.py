"""`regard look MODEL --text …`: what the attention of a model does with a text; a summary here, a report in a file."""

from __future__ import annotations

import math
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .text_input import lines_of

if TYPE_CHECKING:
    from ..sight import Labels, Sighting
    from ..training.opened import OpenedModel

ENDINGS = (".html", ".svg", ".png", ".pdf", ".json", ".safetensors")


def look(
    model: Annotated[str, typer.Argument(help="a name of `regard models`, a transformers folder, a run's folder, or a .gguf file")],
    text: Annotated[str | None, typer.Option("--text", "-t", help="the text to read")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="a file with the text", exists=True, dir_okay=False)] = None,
    out: Annotated[list[Path] | None, typer.Option("--out", "-o", help="a report: .html .svg .png .pdf .json .safetensors")] = None,
    target: Annotated[str | None, typer.Option("--target", help="what a translator is to have said (default: what it says)")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", help="read at most so many tokens", min=1)] = None,
    kernel: Annotated[str, typer.Option("--kernel", help="auto: our kernels; own: the model's, read beside it")] = "auto",
    proof: Annotated[str, typer.Option("--proof", help="sampled: check 128 rows a head; full: all")] = "sampled",
    labels: Annotated[
        bool | None,
        typer.Option("--labels/--no-labels", help="say what heads do: induction, previous token, sink … (default: where it can be told)"),
    ] = None,
    baseline: Annotated[bool, typer.Option("--baseline/--no-baseline", help="also time the model unwatched")] = True,
    draw: Annotated[bool, typer.Option("--draw", help="draw every head as a thumbnail")] = False,
    head: Annotated[str | None, typer.Option("--head", help="draw one head with its words, as LAYER.HEAD")] = None,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, mps")] = "cpu",
) -> None:
    """Read a text with a model and show what every head looks at, with proof."""
    if (text is None) == (file is None):
        raise typer.BadParameter("give the text with --text, or a file with --file (one of them)")
    if kernel not in ("auto", "own") or proof not in ("sampled", "full"):
        raise typer.BadParameter(f"--kernel is {kernel!r} (auto or own), --proof is {proof!r} (sampled or full)")
    for path in out or ():
        if path.suffix.lower() not in ENDINGS:
            raise typer.BadParameter(f"{path.name}: a report ends in {', '.join(ENDINGS)}", param_hint="--out")
    from ..zoo import find
    from ..zoo import open as open_model

    try:
        words = "\n".join(lines_of(None if text is None else [text], file))
        entry = find(model)
        opened: OpenedModel = open_model(entry, device=device, loader="transformers")
        inputs = _inputs(opened, words, target, tokens)
        sighting, seconds, alone = _watch(opened, inputs, kernel, "full" if proof == "full" else "sampled", baseline)
        sighting.model = entry.name
    except (ValueError, OSError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error
    if not len(sighting):
        sys.stderr.write(f"{sighting!r}\n" if sighting.missed else f"{entry.name} has no attention to look at\n")
        raise typer.Exit(1)
    found = None if labels is False else _labels(opened, asked=labels is True)
    if found is not None:
        sighting = sighting.with_labels(found)
    sys.stdout.write(_told(sighting, seconds, alone, found) + "\n")
    if draw or head is not None:
        sys.stdout.write(_drawn(sighting, draw, head) + "\n")
    for path in out or ():
        _write(sighting, path)


def _inputs(opened: OpenedModel, text: str, target: str | None, tokens: int | None) -> Any:
    """What the model is called with: the text, cut to what the model reads and to the number of tokens asked for."""
    inputs = opened.inputs(text, target=target)
    whole = opened.length(inputs)
    most = min((n for n in (tokens, opened.limit) if n is not None), default=whole)
    if most < whole:
        sys.stderr.write(f"reading the first {most:,} of {whole:,} tokens\n")
        return opened.cut(inputs, most)
    return inputs


def _watch(
    opened: OpenedModel, inputs: Any, kernel: str, proof: Literal["sampled", "full"], baseline: bool
) -> tuple[Sighting, float, float | None]:
    """The sighting, how long it took, and how long the model takes unwatched."""
    from ..sight import watch

    alone = None
    if baseline:
        start = time.perf_counter()
        opened.run(inputs)
        alone = time.perf_counter() - start
    pieces, source = opened.tokens(inputs)
    start = time.perf_counter()
    with watch(opened.model, kernel=kernel, proof=proof, tokens=pieces) as sighting:
        opened.run(inputs)
    seconds = time.perf_counter() - start
    sighting.source_tokens = source
    return sighting, seconds, alone


def _labels(opened: OpenedModel, *, asked: bool) -> Labels | None:
    """Labels, where the model reads a text of its own; why not, where they were asked for."""
    from ..sight import label_heads

    try:
        return label_heads(opened.model)
    except (ValueError, TypeError, RuntimeError) as error:
        if asked:
            sys.stderr.write(f"heads were not labelled: {error}\n")
        return None


def _told(sighting: Sighting, seconds: float, alone: float | None, labels: Any) -> str:
    worst = sighting.proof
    head, *rest = repr(sighting).split("\n")
    beside = "" if alone is None else f" (unwatched {alone:.1f} s)"
    shown = "of the row sums" if math.isnan(worst.output_error) else f"{worst.output_error:.0e}"  # a pick has no sum to compare
    lines = [f"{head}, exact, {seconds:.1f} s{beside}, proof {shown} {'✓' if worst.holds else '✗ DOES NOT HOLD'}"]
    if labels is not None:
        best: dict[str, str] = {}
        for layer, number, label, score in labels:
            best.setdefault(label, f"{layer}.{number} {label} {score:.2f}")
        lines += [" · ".join(best.values())] if best else []
    return "\n".join([*lines, *rest])


def _drawn(sighting: Sighting, every: bool, head: str | None) -> str:
    from ..sight.views.terminal import heads_text, pattern_text

    parts = [heads_text(sighting)] if every else []
    if head is not None:
        layer, _, number = head.partition(".")
        if not (layer.isdigit() and number.isdigit()):
            raise typer.BadParameter(f"--head is {head!r}; give a layer and a head, as 3.5", param_hint="--head")
        try:
            parts.append(pattern_text(sighting, int(layer), int(number)))
        except IndexError as error:
            raise typer.BadParameter(str(error), param_hint="--head") from error
    return "\n".join(parts)


def _write(sighting: Sighting, path: Path) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            sighting.save(path)
    except ImportError as error:
        raise typer.BadParameter(f"{path.suffix} pictures cannot be drawn here ({error}); pip install 'regard[pictures]'") from error
    sys.stdout.write(f"wrote {path}\n")
