"""`regard read STORY --ask QUESTION`: which sentences were picked, what they answer, and how little was read."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def read(
    story: Annotated[Path, typer.Argument(help="a text file, its sentences in the order they happened", exists=True, dir_okay=False)],
    ask: Annotated[list[str], typer.Option("--ask", "-a", help="the question; may be given several times")],
    model: Annotated[Path | None, typer.Option("--model", "-m", help="the folder of a `regard train reader` run")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a question")] = False,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, mps")] = "cpu",
) -> None:
    """Answer questions about a story, reading only the sentences picked for each."""
    if model is None:
        raise typer.BadParameter("no model: give --model with the folder of a `regard train reader` run", param_hint="--model")
    from ..text.pairs import read_lines
    from ..text.stories import Story
    from ..training.tasks.reader import StoryReader

    try:
        sentences = split_sentences("\n".join(read_lines(story)))
        if not sentences:
            raise ValueError(f"{story}: no sentences in it")
        reader = StoryReader.open(model, device=device)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    unknown = sorted({word for text in (*sentences, *ask) for word in reader.unknown_words(text)})
    if unknown:
        sys.stderr.write(f"not in the model's vocabulary, read as unknown: {', '.join(unknown)}\n")
    for answered in reader.answer([Story(sentences, question, "") for question in ask]):
        if as_json:
            plain = asdict(answered) | {"story": list(sentences), "question": answered.story.question}
            sys.stdout.write(json.dumps(plain, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(answered.picture() + "\n")


def split_sentences(text: str) -> tuple[str, ...]:
    """A text cut after its full stops and line ends.

    >>> split_sentences("Mary left. John stayed!\\nWho? 她走了。他没走。")
    ('Mary left.', 'John stayed!', 'Who?', '她走了。', '他没走。')
    """
    parts = re.split(r"(?<=[.!?])\s+|(?<=[。！？])|\n", text)
    return tuple(part.strip() for part in parts if part.strip())
