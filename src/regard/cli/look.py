"""`regard look MODEL --text …`: inspect the attention of a model on a text; a summary in the terminal, reports in files."""

from __future__ import annotations

import math
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .boundary import wrong_arguments
from .options import LARGEST, Device, within
from .text_input import lines_of

if TYPE_CHECKING:
    from ..sight import Labels, Sighting
    from ..training.opened import OpenedModel

ENDINGS = (".html", ".svg", ".png", ".pdf", ".json", ".safetensors")


def look(
    model: Annotated[str, typer.Argument(help="a name from `regard models`, a Hugging Face folder, a run's folder, or a .gguf file")],
    text: Annotated[str | None, typer.Option("--text", "-t", help="the input text")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="a file with the input text", exists=True, dir_okay=False)] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", "-o", metavar="<path>", help="write a report: .html .svg .png .pdf .json .safetensors; may be repeated"),
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="the target text for a translator (default: its own translation)")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", help="read at most this many tokens", callback=within(1, LARGEST))] = None,
    kernel: Annotated[
        str,
        typer.Option("--kernel", help="auto: attention is computed by regard's kernels; own: by the model's code"),
    ] = "auto",
    proof: Annotated[str, typer.Option("--proof", help="check 128 rows per head against the model (sampled), or all (full)")] = "sampled",
    labels: Annotated[
        bool | None,
        typer.Option("--labels/--no-labels", help="label the heads: induction, previous token, sink … (default: where possible)"),
    ] = None,
    baseline: Annotated[bool, typer.Option("--baseline/--no-baseline", help="also time the model without inspection")] = True,
    draw: Annotated[bool, typer.Option("--draw", help="draw every head as a thumbnail")] = False,
    head: Annotated[str | None, typer.Option("--head", help="draw one head with its tokens, as LAYER.HEAD")] = None,
    device: Device = "cpu",
) -> None:
    """Run a model on a text and show the attention of every head, checked against the model's own output."""
    if (text is None) == (file is None):
        raise typer.BadParameter('give the text to run the model on: --text "…", or --file FILE')
    if kernel not in ("auto", "own") or proof not in ("sampled", "full"):
        raise typer.BadParameter(f"--kernel is {kernel!r} (expected auto or own), --proof is {proof!r} (expected sampled or full)")
    for path in out or ():
        if path.suffix.lower() not in ENDINGS:
            raise typer.BadParameter(f"{path.name}: the name of a report must end in {', '.join(ENDINGS)}", param_hint="--out")
    from ..zoo import find
    from ..zoo import open as open_model

    with wrong_arguments():
        content = "\n".join(lines_of(None if text is None else [text], file))
        entry = find(model)
        opened: OpenedModel = open_model(entry, device=device, loader="transformers")
        inputs = _inputs(opened, content, target, tokens)
        sighting, seconds, unwatched_seconds = _watch(opened, inputs, kernel, "full" if proof == "full" else "sampled", baseline)
        sighting.model = entry.name
    if not len(sighting):
        sys.stderr.write(f"{sighting!r}\n" if sighting.missed else f"{entry.name} has no attention layers to inspect\n")
        raise typer.Exit(1)
    head_labels = None if labels is False else _labels(opened, explain_failure=labels is True)
    if head_labels is not None:
        sighting = sighting.with_labels(head_labels)
    sys.stdout.write(_summary(sighting, seconds, unwatched_seconds, head_labels) + "\n")
    if draw or head is not None:
        sys.stdout.write(_drawing(sighting, draw, head) + "\n")
    for path in out or ():
        _write(sighting, path)


def _inputs(opened: OpenedModel, text: str, target: str | None, tokens: int | None) -> Any:
    """The encoded text, truncated to the model's limit and to --tokens."""
    inputs = opened.inputs(text, target=target)
    length = opened.length(inputs)
    limit = min((n for n in (tokens, opened.limit) if n is not None), default=length)
    if limit < length:
        sys.stderr.write(f"reading the first {limit:,} of {length:,} tokens\n")
        return opened.cut(inputs, limit)
    return inputs


def _watch(
    opened: OpenedModel, inputs: Any, kernel: str, proof: Literal["sampled", "full"], baseline: bool
) -> tuple[Sighting, float, float | None]:
    """Run the model under `watch`: the sighting, its seconds, and the seconds of a run without `watch` (None without baseline)."""
    from ..sight import watch

    unwatched_seconds = None
    if baseline:
        start = time.perf_counter()
        opened.run(inputs)
        unwatched_seconds = time.perf_counter() - start
    tokens, source_tokens = opened.tokens(inputs)
    start = time.perf_counter()
    with watch(opened.model, kernel=kernel, proof=proof, tokens=tokens) as sighting:
        opened.run(inputs)
    seconds = time.perf_counter() - start
    sighting.source_tokens = source_tokens
    return sighting, seconds, unwatched_seconds


def _labels(opened: OpenedModel, *, explain_failure: bool) -> Labels | None:
    """The labels of the heads; None for a model that cannot be labelled, with the reason on stderr if `explain_failure`."""
    from ..sight import label_heads

    try:
        return label_heads(opened.model)
    except (ValueError, TypeError, RuntimeError) as error:
        if explain_failure:
            sys.stderr.write(f"the heads could not be labelled: {error}\n")
        return None


def _summary(sighting: Sighting, seconds: float, unwatched_seconds: float | None, labels: Any) -> str:
    """A line on the model and the proof, a line with the best head of each label, then a line per layer."""
    proof = sighting.proof
    title, *layers = repr(sighting).split("\n")
    baseline = "" if unwatched_seconds is None else f" (unwatched {unwatched_seconds:.1f} s)"
    error = "of the row sums" if math.isnan(proof.output_error) else f"{proof.output_error:.0e}"  # a pick has no weighted sum to compare
    lines = [f"{title}, exact, {seconds:.1f} s{baseline}, proof {error} {'✓' if proof.holds else '✗ DOES NOT HOLD'}"]
    if labels is not None:
        best: dict[str, str] = {}
        for layer, number, label, score in labels:
            best.setdefault(label, f"{layer}.{number} {label} {score:.2f}")
        lines += [" · ".join(best.values())] if best else []
    return "\n".join([*lines, *layers])


def _drawing(sighting: Sighting, all_heads: bool, head: str | None) -> str:
    """Thumbnails of all heads, the weights of one head, or both."""
    from ..sight.views.terminal import heads_text, pattern_text

    parts = [heads_text(sighting)] if all_heads else []
    if head is not None:
        layer, _, number = head.partition(".")
        if not (layer.isdecimal() and number.isdecimal() and len(head) < 20):
            raise typer.BadParameter(f"--head is {head!r}; give a layer and a head, such as 3.5", param_hint="--head")
        try:
            parts.append(pattern_text(sighting, int(layer), int(number)))
        except IndexError as error:
            raise typer.BadParameter(str(error), param_hint="--head") from error
    return "\n".join(parts)


def _write(sighting: Sighting, path: Path) -> None:
    """Save a report; the ending of the file decides its format."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            sighting.save(path)
    except ImportError as error:
        raise ImportError(f"{path.suffix} files need matplotlib ({error}): pip install 'regard[pictures]'") from error
    sys.stdout.write(f"wrote {path}\n")
