"""Reading with a trained article reader: skim, pick, read the picked sentences, and measure what was saved."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ....html_table import html_table
from ....models.article_reader import ArticleInputs, ArticleReaderModel
from ....terminal import Pen
from ....text.articles import Sentence, split_article
from ....text.language import NAMES, detect
from ....text.passages import passages
from ....text.script import script_of
from ....text.skimming import SkimmedArticle, skim
from ....text.units import UNIT, UnitTable
from ...opened import OpenedModel, TokenModel, TokenRows
from ...results import short
from ...runs import load_best, run_config
from .config import ArticleConfig
from .vectors import SentenceVectors

UNITS = "units.vocabulary.json"
MOST_CHARACTERS = 1_000_000
_LANGUAGES = {"CJK": "zh", "LATIN": "en"}
_LONGEST_SPAN = {"zh": 30, "en": 60}  # units
VECTOR_WEIGHT = 6.0  # of a cosine beside the picker's scores; chosen by recipes/article_folds.py
UNSURE = 0.3  # below this probability two in five spans are wrong, above it one in seven (Chinese validation questions)
_SHOWN = 18  # picked sentences that are printed
_DETECTED = 5000  # characters the language is detected from


@dataclass(frozen=True, repr=False)
class Answer:
    """An answer from an article.

    text: the answer.
    start, stop: its place in the article, in characters.
    sentence: the number of its sentence.
    probability: of it, among all spans that were read.
    span: False where the reader gives the whole sentence, because it is not good at shorter spans in this language.

    >>> Answer("in 1702", 14, 21, sentence=0, probability=0.5, span=True)
    Answer('in 1702', sentence 0, probability 0.50)
    """

    text: str
    start: int
    stop: int
    sentence: int
    probability: float
    span: bool

    def certainty(self) -> str:
        """Return how sure the answer is, or that it is a whole sentence, for people to read.

        >>> Answer("in 1702", 14, 21, sentence=0, probability=0.2, span=True).certainty()
        '0.20: unsure, the answer may be another part of the sentence'
        """
        if not self.span:
            return "the sentence: no shorter answer in this language"
        return f"{self.probability:.2f}" + (": unsure, the answer may be another part of the sentence" if self.probability < UNSURE else "")

    def __repr__(self) -> str:
        return f"Answer({short(self.text)}, sentence {self.sentence}, probability {self.probability:.2f})"


@dataclass(frozen=True, repr=False)
class ReadArticle:
    """The result of reading an article for a question.

    question: the question.
    sentences: of the article, with their places.
    weights: attention weight of each sentence.
    picks: the sentences read, the heaviest first.
    answer: the answer, with its place.
    read, total: number of words (Chinese: characters) read, and of the article.
    seconds: of skimming and reading.
    seconds_everything: of reading all sentences with the same reader; None if not measured.

    >>> import regard
    >>> regard.open("article-reader").read("The ship sank in 1702. Nobody drowned. Lisbon mourned.", "When did the ship sink?", picks=1)
    ReadArticle('When did the ship sink?': 'The ship sank in 1702.', read 5 of 9 words)
    """

    question: str
    sentences: tuple[Sentence, ...]
    weights: tuple[float, ...]
    picks: tuple[int, ...]
    answer: Answer
    read: int
    total: int
    seconds: float
    seconds_everything: float | None = None

    def saving(self) -> str:
        """Return what was saved, in words and seconds."""
        text = f"read {self.read:,} of {self.total:,} words"
        text += f" ({1 - self.read / self.total:.0%} saved)" if self.read < self.total else " (nothing saved)"
        if self.seconds_everything is not None:
            text += f"; {self.seconds:.3f} s, reading everything {self.seconds_everything:.3f} s"
            ratio = self.seconds_everything / max(self.seconds, 1e-9)
            text += f" ({ratio:.1f}× faster)" if ratio > 1 else " (no time saved)"
        return text

    def picture(self, pen: Pen | None = None) -> str:
        """Return the article with the weights of the picked sentences in the margin, then the question, the answer and the saving."""
        pen = pen or Pen()
        lines = []
        for n, sentence in enumerate(self.sentences):
            if n in self.picks:
                lines.append(f"{pen.cell(self.weights[n], 6, f'{self.weights[n]:.2f}')} {self._marked(n, pen)}")
            else:
                lines.append(f"   {pen.quiet('·')}   {pen.quiet(sentence.text)}")
        answer = f"   =   {pen.strong(self.answer.text)}  ({self.answer.certainty()})"
        lines += [f"   ?   {self.question}", answer, f"       {self.saving()}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"ReadArticle({short(self.question)}: {short(self.answer.text)}, read {self.read:,} of {self.total:,} words)"

    def _picked(self) -> list[tuple[str, str, str]]:
        """The picked sentences, the heaviest first: number, weight, text."""
        return [(str(n), f"{self.weights[n]:.2f}", self.sentences[n].text) for n in self.picks[:_SHOWN]]

    def __str__(self) -> str:
        lines = [f"{weight}  {text if len(text) <= 100 else text[:99] + '…'}" for _, weight, text in self._picked()]
        return "\n".join([*lines, f"   ?  {self.question[:200]}", f"   =  {self.answer.text[:200]}", f"      {self.saving()}"])

    def _repr_html_(self) -> str:
        rows = self._picked()
        return html_table(
            [("sentence", "weight", "text"), *rows],
            title=f"{self.question} → {self.answer.text}",
            note=self.saving(),
            shades=[(None, self.weights[n], None) for n in self.picks[:_SHOWN]],
            rest=max(len(self.picks) - _SHOWN, 0),
        )

    def _marked(self, n: int, pen: Pen) -> str:
        """A picked sentence, with the answer marked if it is a part of it."""
        text = self.sentences[n].text
        if not self.answer.span or n != self.answer.sentence or self.answer.text not in text:
            return text
        before, _, after = text.partition(self.answer.text)
        return f"{before}{pen.current(self.answer.text)}{after}"


class ArticleReader(OpenedModel):
    """A trained article reader with its table of units.

    As `inputs` of a text, its last line or sentence is the question, and the sentences before it are the article.

    model: the picker and the reader of spans.
    table: characters and words with their rarity.
    span_languages: in which an answer is a part of a sentence; elsewhere it is the sentence.

    >>> import regard
    >>> regard.open("article-reader").language("他去了北京。", "text")
    'zh'
    """

    model: ArticleReaderModel

    def __init__(self, model: ArticleReaderModel, table: UnitTable, *, span_languages: Sequence[str] = ("zh",)) -> None:
        self.model, self.table, self.span_languages = model, table, tuple(span_languages)
        self.vectors: SentenceVectors | None = None

    @classmethod
    def untrained(cls, config: ArticleConfig, folder: Path) -> ArticleReader:
        """Build a model with new weights for the table of units in a run's folder.

        config: the config of the run.
        folder: the folder of the run.
        """
        table = UnitTable.load(folder / UNITS)
        return cls(ArticleReaderModel(config.model.sizes(len(table), table.features)), table, span_languages=config.model.span_languages)

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> ArticleReader:
        """Load the best model of a finished or running training.

        folder: of the run.
        device: where the weights are loaded.
        """
        folder = Path(folder)
        reader = cls.untrained(run_config(folder, "article", ArticleConfig), folder)
        load_best(reader.model, folder)
        reader.model.to(device)
        return reader

    def add_sentence_vectors(self, opened: TokenModel) -> None:
        """Also compare sentence vectors of an opened BERT (MiniLM) when skimming English articles."""
        self.vectors = SentenceVectors(opened)

    def skimmed(self, text: str) -> SkimmedArticle:
        """Return an article cut into sentences and units; raise ValueError if it cannot be read."""
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"the article has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read, so give a part of it")
        if "\0" in text:
            raise ValueError("the article has zero bytes, so it is not a text; give a text file in UTF-8")
        article = SkimmedArticle(text, self.table)
        if not article.sentences:
            raise ValueError("the article has no sentence (no letters or digits); give a text")
        self.language(text, "article")
        detected = detect(text[:_DETECTED])
        if (detected.language not in (*_LONGEST_SPAN, None) and detected.sure) or (detected.language is None and len(text) > 100):
            other = NAMES[detected.language] if detected.language else "in another language"
            raise ValueError(f"the article appears to be {other}; the model reads Chinese and English")
        return article

    def language(self, text: str, what: str) -> str:
        """Return "zh" or "en" by the script of a text; raise ValueError for any other script.

        what: what the error calls the text.
        """
        script = script_of(text)
        if script is not None and script not in _LANGUAGES:
            raise ValueError(f"the {what} is in {script.capitalize()} letters; the model reads Chinese and English")
        return _LANGUAGES.get(script or "LATIN", "en")

    def read(
        self, article: str | SkimmedArticle, question: str, *, picks: int = 2, soft: bool = False, compare: bool = False
    ) -> ReadArticle:
        """Answer a question from the `picks` sentences with the highest attention weights; with `soft`, from all, by their weights.

        article: the text, or what `skimmed` returned for it.
        question: the question.
        picks: how many sentences to read.
        soft: read all sentences, by their weights.
        compare: also read everything with the same reader, to measure the time saved.

        >>> import regard
        >>> reader = regard.open("article-reader")
        >>> reader.read("The ship sank in 1702. It had sailed from Lisbon. Nobody drowned.", "Where had it sailed from?").answer.text
        'It had sailed from Lisbon.'
        """
        if picks < 1:
            raise ValueError(f"picks is {picks}; expected 1 or more")
        self.language(question, "question")
        if not any(unit[0].isalnum() for unit in UNIT.findall(question)):
            raise ValueError(f"the question {question!r} has no words; ask with at least one word")
        if isinstance(article, str):
            self.skimmed(article)  # raises for what cannot be read; cut again below, because that belongs to the time of reading
        text = article if isinstance(article, str) else article.text
        everything = None
        if compare:
            self.seconds_of_everything(text[:2000], question)  # warm up, so that no time includes the first use of a library
            self._read(text, question, picks)
            everything = self.seconds_of_everything(text, question)
        begin = time.perf_counter()
        article, weights, chosen, answer = self._read(text, question, None if soft else picks)
        seconds = time.perf_counter() - begin
        sizes = [sum(article.surface[i][0].isalnum() for i in article.units_in(n)) for n in range(len(article.sentences))]
        read = sum(sizes[n] for n in chosen)
        shown = tuple(chosen[:picks])  # soft attention reads all; the heaviest are marked
        return ReadArticle(question, article.sentences, tuple(weights.tolist()), shown, answer, read, sum(sizes), seconds, everything)

    def _read(self, text: str, question: str, picks: int | None) -> tuple[SkimmedArticle, Tensor, list[int], Answer]:
        """Skim an article, pick sentences (None: take all), and read them."""
        article = SkimmedArticle(text, self.table)
        weights = self.weights(article, question)
        chosen = weights.argsort(descending=True, stable=True)[:picks].tolist()
        return article, weights, chosen, self.answer(article, question, chosen, weights)

    def seconds_of_everything(self, text: str, question: str) -> float:
        """Return the seconds of reading all sentences of the article `text` for a `question`, without skimming them."""
        begin = time.perf_counter()
        article = SkimmedArticle(text, self.table)
        every = range(len(article.sentences))
        if every:
            self.answer(article, question, every, torch.ones(len(every)))
        return time.perf_counter() - begin

    @torch.no_grad()
    def weights(self, article: SkimmedArticle, question: str) -> Tensor:
        """Return the attention weights of the sentences of an `article` for a `question`, (S,), from skimming alone."""
        skimmed = torch.from_numpy(skim(article, question)).unsqueeze(0).to(self.device)
        scores = self.model.picker.scores(skimmed)[0]
        if self.vectors is not None and self.language(question, "question") == "en":
            scores = scores + VECTOR_WEIGHT * self.vectors.cosines(article, question).to(self.device)
        return scores.softmax(-1)

    @torch.no_grad()
    def answer(self, article: SkimmedArticle, question: str, chosen: Sequence[int], weights: Tensor) -> Answer:
        """Read the chosen sentences, the heaviest first, and return the best span in them, or the first where spans are not given.

        article: what `skimmed` returned.
        question: the question.
        weights: what `weights` returned.
        """
        language = self.language(question, "question")
        scores = self.span_scores(article, question, chosen)
        scores = scores + self.model.prior * weights[list(chosen)].clamp(min=1e-30).log().cpu().view(-1, 1, 1)
        return self.best(article, chosen, scores, language)

    def best(self, article: SkimmedArticle, chosen: Sequence[int], scores: Tensor, language: str) -> Answer:
        """Return the best answer by the scores of spans (N, W, W) of the chosen sentences.

        article: what `skimmed` returned; language: "zh" or "en".
        """
        W = scores.shape[1]
        length = torch.arange(W) - torch.arange(W).unsqueeze(1) + 1
        scores = scores.masked_fill((length < 1) | (length > _LONGEST_SPAN[language]), -torch.inf)
        if language not in self.span_languages:  # the heaviest sentence: in English better than the one with the best span
            whole = article.sentences[chosen[0]]
            share = float(scores.flatten(1).logsumexp(1).softmax(0)[0])
            return Answer(whole.text, whole.start, whole.stop, chosen[0], share, span=False)
        flat = scores.flatten()
        place = int(flat.argmax())
        probability = float((flat[place] - flat.logsumexp(0)).exp())
        row, first, last = place // (W * W), place % (W * W) // W, place % W
        sentence = chosen[row]
        places = article.places(sentence)
        start, end = places[first][0], places[last][1]
        return Answer(article.text[start:end], start, end, sentence, probability, span=True)

    @torch.no_grad()
    def span_scores(self, article: SkimmedArticle, question: str, chosen: Sequence[int], *, batch: int = 32) -> Tensor:
        """Return the scores of every span of the chosen sentences, (N, W, W): start × end. Sentences of like length are read together.

        article, question: as in `answer`; batch: how many sentences at once.
        """
        sizes = torch.tensor([len(article.units_in(n)) for n in chosen])
        order = sizes.argsort(stable=True).tolist()
        parts: list[tuple[list[int], Tensor]] = []
        for i in range(0, len(order), batch):
            rows = order[i : i + batch]
            read = passages([(article, question, [chosen[row] for row in rows])]).to(self.device)
            parts.append((rows, self.model.reader(read).cpu()))
        W = max(scores.shape[-1] for _, scores in parts)
        result = torch.full((len(order), W, W), -1e9)
        for rows, (start, end) in parts:
            result[rows, : start.shape[1], : end.shape[1]] = start.unsqueeze(2) + end.unsqueeze(1)
        return result

    def inputs(self, text: str, *, target: str | None = None) -> ArticleInputs:
        sentences = split_article(text)
        if len(sentences) < 2:
            raise ValueError("a reader needs an article and a question; give at least two sentences, the question last")
        return self._inputs(self.skimmed(text[: sentences[-1].start]), sentences[-1].text)

    def _inputs(self, article: SkimmedArticle, question: str) -> ArticleInputs:
        read = passages([(article, question, range(len(article.sentences)))])
        skimmed = torch.from_numpy(skim(article, question)).unsqueeze(0)
        return ReaderInputs(skimmed.to(self.device), read.to(self.device), article, question)

    def tokens(self, inputs: ArticleInputs) -> tuple[TokenRows, TokenRows]:
        """Return the question, and the sentences of the article."""
        assert isinstance(inputs, ReaderInputs)
        return [[inputs.question]], [[sentence.text for sentence in inputs.article.sentences]]

    def cut(self, inputs: ArticleInputs, length: int) -> ArticleInputs:
        """Return inputs cut to the first `length` sentences."""
        assert isinstance(inputs, ReaderInputs)
        end = inputs.article.sentences[min(length, len(inputs.article.sentences)) - 1].stop
        return self._inputs(SkimmedArticle(inputs.article.text[:end], self.table), inputs.question)

    def length(self, inputs: ArticleInputs) -> int:
        """Return the number of sentences of the article."""
        return int(inputs.skimmed.shape[1])


@dataclass(frozen=True, eq=False)
class ReaderInputs(ArticleInputs):
    """The inputs of one question, with its article."""

    article: SkimmedArticle
    question: str
