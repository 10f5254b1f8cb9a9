"""`regard answer QUESTION`: from a text (`regard read`), from a model trained on questions and answers, or from a chat model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .boundary import wrong_arguments
from .options import LARGEST, LARGEST_BEAM, Device, within
from .read import read
from .text_input import text_of


def answer(
    question: Annotated[str, typer.Argument(help='the question; "-" reads it from standard input')],
    context: Annotated[
        Path | None, typer.Option("--context", "-c", help="answer from this text file, as `regard read` does", exists=True, dir_okay=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="a model trained on questions and answers, or one with a chat template (default: smollm2)"),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option("--beam", help="beam size of a trained model; 1 is greedy (default: its own)", callback=within(1, LARGEST_BEAM)),
    ] = None,
    max_new: Annotated[int, typer.Option("--max-new", help="the most tokens a chat model writes", callback=within(1, LARGEST))] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="print the question and the answer as JSON")] = False,
    device: Device = "cpu",
) -> None:
    """Answer a question: from a text, with a model trained on your own questions and answers, or with a chat model.

    With --context the answer is found in a text: this is `regard read FILE --ask QUESTION`. Without, a model trained on your own pairs
    answers (`regard train summarise PAIRS.tsv` or `regard train translation PAIRS.tsv`, a question and an answer on each line), or a chat
    model does (smollm2: `regard models add smollm2`), from what it remembers of its training: check what it says.
    """
    with wrong_arguments():
        asked = text_of(question)
        if not any(c.isalnum() for c in asked):
            raise ValueError(f"the question {asked!r} has no words; ask something")
    if context is not None:
        options: dict[str, Any] = {} if model is None else {"model": model}
        read(str(context), [asked], as_json=as_json, device=device, **options)
        return
    from .summarise import open_summariser

    with wrong_arguments():
        opened, name = open_summariser(model, device)
        reply = _answer(opened, name, asked, beam, max_new)
    sys.stdout.write((json.dumps({"question": asked, "answer": reply}, ensure_ascii=False) if as_json else reply) + "\n")


def _answer(opened: Any, name: str, question: str, beam: int | None, max_new: int) -> str:
    if hasattr(opened, "candidates"):  # a run of `summarise` or `translation`
        return str(opened.candidates([question], width=beam)[0][0].text)
    if hasattr(opened, "reply") and opened.template is not None:
        return str(opened.reply([{"role": "user", "content": question}], max_new=max_new, temperature=0.0))
    raise ValueError(f"{name} cannot answer; give a run trained on questions and answers, or a model with a chat template, such as smollm2")
