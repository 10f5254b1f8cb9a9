"""Articles: sentences with their places in the text, and questions about them in the JSON form of SQuAD.

SQuAD: Rajpurkar et al. 2016, arXiv:1606.05250. CMRC 2018, DRCD, XQuAD and COVID-QA use the same form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import MAX_TEXT_BYTES, read_json

_STOP = re.compile(r"[。！？!?….\n]")  # what a boundary begins with; searching for it first is fast
_CLOSING = "\"'”’)\\]」』）》】"
_BOUNDARY = re.compile(
    rf"(?P<wide>[。！？!?…]*[。！？][。！？!?…]*[{_CLOSING}]*)"  # Chinese full stops need no space after them
    rf"|(?P<narrow>[.!?]+[{_CLOSING}]*)(?=\s+[\"'“‘(\[]*[^\s{_CLOSING}a-z,;:])"
    r"|(?P<paragraph>\n[^\S\n]*\n\s*)"
    r"|(?P<line>\n)"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[])(?:[A-Za-z]|al|e\.g|i\.e|cf|vs|etc|Figs?|Eqs?|Refs?|Nos?|Vol|pp|Dr|Mr|Mrs|Ms|Prof|St|Jr|Sr|Inc|Ltd|Co|approx|ca|spp?"
    r"|Tab|Suppl|Sec|U\.S|U\.K)\.$"
)
_BROKEN_CHINESE = re.compile(r"(?<=[\u3400-\u9fff，。、；：])\s*\n\s*(?=[\u3400-\u9fff])")
_FULL_LINE = 50  # columns; a shorter line without a full stop is a heading or an entry of a list


@dataclass(frozen=True)
class Sentence:
    """A sentence: its place [start, stop) in the article, and its text with line breaks removed."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True)
class Question:
    """A question, with its given answers as (text, place in the article)."""

    text: str
    answers: tuple[tuple[str, int], ...] = ()

    def right_sentences(self, sentences: Sequence[Sentence]) -> set[int]:
        """Return the indices of the sentences that contain the first letter or digit of an answer."""
        places = [start + next((i for i, c in enumerate(text) if c.isalnum()), 0) for text, start in self.answers]
        return {n for n, sentence in enumerate(sentences) for place in places if sentence.start <= place < sentence.stop}


@dataclass(frozen=True)
class QuestionedArticle:
    """A text with questions about it. `title` names the article it is from: split data by title, not by text."""

    text: str
    questions: tuple[Question, ...]
    title: str


def split_article(text: str) -> tuple[Sentence, ...]:
    """Split an article into sentences. Lines broken by a page layout are joined; headings and list entries are sentences of their own.

    >>> [s.text for s in split_article("A title\\n\\nThe first (Fig. 2) was\\nlong. The 2nd, 3.5 m, was not.\\n他来了。她走了！")]
    ['A title', 'The first (Fig. 2) was long.', 'The 2nd, 3.5 m, was not.', '他来了。', '她走了！']
    """
    sentences: list[Sentence] = []
    begin = 0
    for match in _boundaries(text):
        kind, end = match.lastgroup, match.end()
        if kind == "narrow" and match[0][0] == "." and _ABBREVIATION.search(text, max(begin, match.start() - 12), match.start() + 1):
            continue
        if kind == "line" and _broken_by_layout(text, match.start()):
            continue
        _append(sentences, text, begin, end)
        begin = end
    _append(sentences, text, begin, len(text))
    return tuple(sentences)


def _boundaries(text: str) -> Iterator[re.Match[str]]:
    """Yield what `_BOUNDARY.finditer(text)` does."""
    stop = _STOP.search(text)
    while stop:
        match = _BOUNDARY.match(text, stop.start())
        if match:
            yield match
        stop = _STOP.search(text, (match or stop).end())


def _append(sentences: list[Sentence], text: str, start: int, stop: int) -> None:
    """Append the sentence in [start, stop); marks without letters or digits are added to the sentence before."""
    part = text[start:stop]
    body = part.strip()
    start += len(part) - len(part.lstrip())
    if any(c.isalnum() for c in body):
        sentences.append(Sentence(start, start + len(body), _joined(body)))
    elif body and sentences:
        first, stop = sentences[-1].start, start + len(body)
        sentences[-1] = Sentence(first, stop, _joined(text[first:stop]))


def _broken_by_layout(text: str, place: int) -> bool:
    """Return whether the line break at `place` is inside a sentence: the line is full, or it clearly goes on in the next."""
    line = text[text.rfind("\n", 0, place) + 1 : place].strip()
    end = text.find("\n", place + 1)
    following = text[place + 1 : end if end >= 0 else len(text)].strip()
    if not line or not following:
        return False
    if following[0].islower() or line[-1] in ",;-，、；":
        return True
    return len(line) + sum(c >= "\u2e80" for c in line) >= _FULL_LINE  # Chinese characters take two columns


def _joined(body: str) -> str:
    """Return a sentence on one line."""
    if "\n" in body:
        body = _BROKEN_CHINESE.sub("", body)
    return " ".join(body.split())


def read_questions(path: str | Path) -> list[QuestionedArticle]:
    """Read a SQuAD-form JSON file. Answers not found in their text are left out; misplaced ones are put at the nearest occurrence."""
    path = Path(path)
    content = read_json(path, MAX_TEXT_BYTES)
    try:
        articles = [
            _questioned(paragraph, str(entry.get("title") or paragraph.get("document_id") or number))
            for number, entry in enumerate(content["data"])
            for paragraph in entry["paragraphs"]
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is not in the form of SQuAD ({type(error).__name__}: {error}); expected"
            ' {"data": [{"title", "paragraphs": [{"context", "qas": [{"question", "answers": [{"text", "answer_start"}]}]}]}]}'
        ) from error
    if not any(article.questions for article in articles):
        raise ValueError(f"{path} has no question with an answer in its text")
    return articles


def _questioned(paragraph: dict[str, Any], title: str) -> QuestionedArticle:
    text = str(paragraph["context"])
    questions = []
    for entry in paragraph["qas"]:
        placed = [_placed(text, str(answer["text"]), int(answer["answer_start"])) for answer in entry["answers"]]
        if answers := tuple(answer for answer in placed if answer is not None):
            questions.append(Question(str(entry["question"]), answers))
    return QuestionedArticle(text, tuple(questions), title)


def _placed(text: str, answer: str, start: int) -> tuple[str, int] | None:
    """Return an answer with its place, the occurrence nearest to `start`; None if the text does not contain it."""
    if start >= 0 and text.startswith(answer, start):
        return answer, start
    answer = answer.strip()
    places = [match.start() for match in re.finditer(re.escape(answer), text)] if answer else []
    return (answer, min(places, key=lambda place: abs(place - start))) if places else None
