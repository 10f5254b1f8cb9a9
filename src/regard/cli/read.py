"""`regard read STORY --ask QUESTION`: answer a question from the sentences hard attention picks."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .device import Device
from .text_input import lines_of, text_of


def read(
    story: Annotated[str, typer.Argument(help='a text file, its sentences in the order of events; "-" reads standard input')],
    ask: Annotated[list[str], typer.Option("--ask", "-a", help="the question; may be repeated")],
    model: Annotated[str, typer.Option("--model", "-m", help="a name from `regard models` or the folder of a run")] = "reader",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per question")] = False,
    device: Device = "cpu",
) -> None:
    """Answer questions about a short story, reading only the sentences that hard attention picks for each question."""
    from ..text.sentences import split_sentences
    from ..text.stories import Story
    from ..zoo import open as open_model

    try:
        if story != "-" and not Path(story).is_file():
            raise ValueError(f"there is no file {story!r}; give a text file, or - to read standard input")
        sentences = split_sentences("\n".join(lines_of(None, None if story == "-" else Path(story))))
        for question in ask:
            text_of(question)
        reader = open_model(model, device=device, task="reader")
        words = [word for text in (*sentences, *ask) for word in text.split()]
        unknown = [word for word in words if reader.unknown_words(word)]
        unknown_list = ", ".join(sorted(set(unknown))[:20])
        if 2 * len(unknown) > len(words):
            raise ValueError(f"most words are not in the model's vocabulary ({unknown_list}); it knows: {', '.join(reader.known_words())}")
    except (ValueError, OSError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error
    if unknown:
        sys.stderr.write(f"not in the model's vocabulary, read as unknown: {unknown_list}\n")
    for answer in reader.answer([Story(sentences, question, "") for question in ask]):
        if as_json:
            plain = asdict(answer) | {"story": list(sentences), "question": answer.story.question}
            sys.stdout.write(json.dumps(plain, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(answer.picture() + "\n")
