"""`regard read ARTICLE --ask QUESTION`: answer a question from the few sentences that hard attention picks."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .boundary import wrong_arguments
from .options import LARGEST, Device, within
from .text_input import lines_of, text_of

if TYPE_CHECKING:
    from ..training.tasks.article import ArticleReader, ReadArticle
    from ..training.tasks.reader import StoryReader


def read(
    article: Annotated[str, typer.Argument(help='a text file in UTF-8, Chinese or English; "-" reads standard input')],
    ask: Annotated[list[str], typer.Option("--ask", "-a", metavar="<str>", help="the question; may be repeated")],
    model: Annotated[str, typer.Option("--model", "-m", help="a name from `regard models` or the folder of a run")] = "article-reader",
    picks: Annotated[int, typer.Option("--picks", "-n", help="how many sentences to read", callback=within(1, LARGEST))] = 2,
    soft: Annotated[bool, typer.Option("--soft", help="also answer with soft attention, which reads everything, and show both")] = False,
    skim: Annotated[
        str,
        typer.Option(
            "--skim",
            help="compare sentences and question by words, or also by vectors: minilm (`regard models add minilm`)",
        ),
    ] = "words",
    html: Annotated[Path | None, typer.Option("--html", help="also write the marked article as a page")] = None,
    compare: Annotated[bool, typer.Option("--compare/--no-compare", help="read everything too, to measure the time saved")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per question")] = False,
    device: Device = "cpu",
) -> None:
    """Answer questions about an article, reading only the sentences that hard attention picks for each question.

    All sentences are skimmed (which of the question's words they have, how
    rare those are, how close together); the best are picked and read. In
    Chinese the answer is a part of a sentence; in English it is a sentence.

    `--model reader` is a small example that knows 33 words of bAbI stories
    ("Where is Mary?") and picks one sentence after the other.
    """
    from ..zoo import open as open_model
    from ..zoo.catalog import locate, task_of

    with wrong_arguments():
        if article != "-" and not os.path.isfile(article):
            raise ValueError(f"there is no file {article!r}; give a text file, or - to read standard input")
        if skim not in ("words", "minilm"):
            raise ValueError(f"--skim is {skim!r}; expected words or minilm")
        text = "\n".join(lines_of(None, None if article == "-" else Path(article)))
        for question in ask:
            text_of(question)
        if task_of(locate(model)) == "reader":
            if soft or html or picks != 2 or skim != "words":
                raise ValueError("a reader of stories has its own number of picks; --soft, --html, --picks and --skim are for articles")
            _read_story(open_model(model, device=device, task="reader"), text, ask, as_json)
            return
        reader = open_model(model, device=device, task="article")
        if skim == "minilm":
            reader.add_sentence_vectors(open_model("minilm", device=device))
        results = list(_answers(reader, text, ask, picks, soft, compare))
    for hard, softly in results:
        if as_json:
            sys.stdout.write(json.dumps(_to_json(hard, softly), ensure_ascii=False) + "\n")
        else:
            _print(hard, softly)
    if html:
        from ..files import write_text
        from ..sight.views.article import article_html

        write_text(html, article_html([hard for hard, _ in results]))


def _answers(
    reader: ArticleReader, text: str, ask: list[str], picks: int, soft: bool, compare: bool
) -> list[tuple[ReadArticle, ReadArticle | None]]:
    """The result for each question, with that of soft attention if asked for."""
    results = []
    for question in ask:
        hard = reader.read(text, question, picks=picks, compare=compare)
        results.append((hard, reader.read(text, question, picks=picks, soft=True) if soft else None))
    return results


def _print(hard: ReadArticle, softly: ReadArticle | None) -> None:
    from ..terminal import Pen

    pen = Pen.detect()
    sys.stdout.write(hard.picture(pen) + "\n")
    if softly is not None:
        heaviest = ", ".join(f"{softly.weights[n]:.2f} sentence {n + 1}" for n in softly.picks)
        sys.stdout.write(f"  soft  {pen.strong(softly.answer.text)}  (read everything; heaviest: {heaviest}; {softly.seconds:.3f} s)\n")
    sys.stdout.write("\n")


def _to_json(hard: ReadArticle, softly: ReadArticle | None) -> dict[str, Any]:
    plain = asdict(hard) | {"sentences": [sentence.text for sentence in hard.sentences]}
    if softly is not None:
        plain["soft"] = {"answer": asdict(softly.answer), "seconds": softly.seconds}
    return plain


def _read_story(reader: StoryReader, text: str, ask: list[str], as_json: bool) -> None:
    """Answer questions about a story with the words of bAbI."""
    from ..text.sentences import split_sentences
    from ..text.stories import Story

    sentences = split_sentences(text)
    words = [word for part in (*sentences, *ask) for word in part.split()]
    unknown = [word for word in words if reader.unknown_words(word)]
    unknown_list = ", ".join(sorted(set(unknown))[:20])
    if 2 * len(unknown) > len(words):
        raise ValueError(f"most words are not in the model's vocabulary ({unknown_list}); it knows: {', '.join(reader.known_words())}")
    if unknown:
        sys.stderr.write(f"not in the model's vocabulary, read as unknown: {unknown_list}\n")
    for answer in reader.answer([Story(sentences, question, "") for question in ask]):
        if as_json:
            plain = asdict(answer) | {"story": list(sentences), "question": answer.story.question}
            sys.stdout.write(json.dumps(plain, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(answer.picture() + "\n")
