"""`regard classify TEXT --model RUN`: the probabilities of the labels, and the words the classifier attended to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..terminal import weights_text
from .boundary import wrong_arguments
from .options import LARGEST, Device, within
from .text_input import lines_of


def classify(
    model: Annotated[str, typer.Option("--model", "-m", help="the folder of a run of `regard train classify`")],
    text: Annotated[list[str] | None, typer.Argument(help="texts to classify (default: the lines of standard input)")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="classify the lines of a file", exists=True, dir_okay=False)] = None,
    top: Annotated[int, typer.Option("--top", help="how many labels to print, the most likely first", callback=within(1, LARGEST))] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per text")] = False,
    device: Device = "cpu",
) -> None:
    """Classify texts with a model trained by `regard train classify`.

    Texts given as arguments are shown with the probabilities of the labels and the words that got the most attention in the last layer.
    A file or standard input gives one line per text: the label, a tab, its probability.
    """
    if text and file:
        raise typer.BadParameter("give texts or --file, not both")
    from ..zoo import open as open_model

    batch = not text
    with wrong_arguments():
        lines = lines_of(text, file)
        classifier = open_model(model, device=device, task="classify")
        probabilities = classifier.probabilities(lines)
        looked = None if batch and not as_json else [classifier.words_looked_at(line) if line.strip() else [] for line in lines]
    for i, (line, row) in enumerate(zip(lines, probabilities.tolist(), strict=True)):
        ranked = sorted(zip(classifier.labels, row, strict=True), key=lambda item: -item[1])[:top]
        if as_json:
            words = [{"word": word, "weight": weight} for word, weight in (looked or [])[i]]
            sys.stdout.write(json.dumps({"text": line, "labels": dict(ranked), "attended": words}, ensure_ascii=False) + "\n")
        elif looked is None:
            sys.stdout.write(f"{ranked[0][0]}\t{ranked[0][1]:.4f}\n")
        else:
            sys.stdout.write("".join(f"  {p:6.1%}  {label}\n" for label, p in ranked))
            sys.stdout.write(f"  attended to  {weights_text(looked[i])}\n")
