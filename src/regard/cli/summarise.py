"""`regard summarise TEXT`: the summary of a text, by a model trained on pairs or by a chat model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .boundary import wrong_arguments
from .options import LARGEST, LARGEST_BEAM, Device, within
from .text_input import lines_of, text_of

REQUEST = "Summarize the following text in one sentence.\n\n"


def summarise(
    text: Annotated[str | None, typer.Argument(help='the text, or the path of a text file; "-" reads standard input')] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="a run of `regard train summarise`, or a model with a chat template (default: smollm2)"),
    ] = None,
    lines: Annotated[
        Path | None, typer.Option("--lines", help="summarise every line of a file, one summary a line", exists=True, dir_okay=False)
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option("--beam", help="beam size of a trained model; 1 is greedy (default: its own)", callback=within(1, LARGEST_BEAM)),
    ] = None,
    max_new: Annotated[int, typer.Option("--max-new", help="the most tokens a chat model writes", callback=within(1, LARGEST))] = 80,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per text")] = False,
    device: Device = "cpu",
) -> None:
    """Summarise a text, with a model trained on your own pairs or with a chat model.

    A run of `regard train summarise` writes what its training pairs taught it. A chat model (smollm2: `regard models add smollm2`) is asked
    for one sentence, in the chat template it was published with.
    """
    if (text is None) == (lines is None):
        raise typer.BadParameter("give either a text (or a file, or -) or --lines")
    with wrong_arguments():
        texts = lines_of(None, lines) if lines is not None else [_content(text or "")]
        opened, name = open_summariser(model, device)
        summaries = _summaries(opened, name, texts, beam, max_new)
    for original, summary in zip(texts, summaries, strict=True):
        sys.stdout.write((json.dumps({"text": original, "summary": summary}, ensure_ascii=False) if as_json else summary) + "\n")


def open_summariser(model: str | None, device: str) -> tuple[Any, str]:
    """Open the model; the error names the ways to get one if none was given and smollm2 is not installed."""
    from ..zoo import names
    from ..zoo import open as open_model

    if model is None and "smollm2" not in names():
        raise ValueError(
            "give a model with --model: a run of `regard train summarise PAIRS.tsv`; or, for general texts: regard models add smollm2"
        )
    name = model or "smollm2"
    return open_model(name, device=device), name


def _summaries(opened: Any, name: str, texts: list[str], beam: int | None, max_new: int) -> list[str]:
    if hasattr(opened, "summarise"):
        _report_cut(opened, texts)
        return list(opened.summarise(texts, width=beam))
    if hasattr(opened, "reply") and opened.template is not None:
        return [
            opened.reply([{"role": "user", "content": REQUEST + text}], max_new=max_new, temperature=0.0) if text.strip() else ""
            for text in texts
        ]
    raise ValueError(f"{name} cannot summarise; give a run of `regard train summarise`, or a model with a chat template, such as smollm2")


def _report_cut(opened: Any, texts: list[str]) -> None:
    longer = sum(not opened.fits(text) for text in texts)
    if longer:
        what = "the text is" if len(texts) == 1 else f"{longer} of {len(texts)} texts are"
        sys.stderr.write(f"{what} longer than the {opened.limit} tokens the model reads; the summary is of the beginning\n")


def _content(text: str) -> str:
    """Return the content of a file if the argument is the path of one, else the argument."""
    path = Path(text) if text != "-" and len(text) < 1000 and "\n" not in text else None
    if path is not None and path.is_file():
        return "\n".join(lines_of(None, path))
    return text_of(text)
