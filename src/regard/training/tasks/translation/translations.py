"""A trained translator with its vocabularies: translates texts and returns alignments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Self, cast, overload

import torch
from torch import Tensor, nn

from ....models.translator import Translator
from ....text.alignment import word_alignment
from ....text.batches import bucketed, padded
from ....text.sentences import split_to_fit
from ....text.vocabulary import BOS, EOS, UNK, Vocabulary
from ...decoding import Hypothesis, beam, sample
from ...opened import OpenedModel, TokenRows
from ...runs import build_best, run_config
from .config import Decoding, TranslationConfig
from .translated import Translated, best_with_others, joined


class Translations(OpenedModel):
    """A trained translator with its vocabularies. `limit` is the longest source, in tokens, it was trained on.

    model: a :class:`regard.models.Translator`.
    source, target: the vocabularies.
    decoding: beam width and length limit.
    limit: the longest source, in tokens.

    >>> import regard
    >>> regard.open("zh-en-transformer").fits("我爱中国")
    True
    """

    task = "translation"
    limit: int

    def __init__(self, model: nn.Module, source: Vocabulary, target: Vocabulary, decoding: Decoding, *, limit: int = 100) -> None:
        self.model, self.source, self.target, self.decoding, self.limit = model, source, target, decoding, limit

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> Self:
        """Load the best model of a finished or running training.

        folder: of the run.
        device: where the weights are loaded.
        """
        config = run_config(folder, cls.task, TranslationConfig)
        source, target = (Vocabulary.load(Path(folder) / f"{side}.vocabulary.json") for side in ("source", "target"))
        model = build_best(lambda: config.model.build(len(source), len(target), shared=config.target.kind == "shared"), folder)
        return cls(model.to(device), source, target, config.decoding, limit=config.data.max_length)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return source ids; those of an empty text are </s> alone, because attention needs at least one key."""
        return [ids or [EOS] for ids in self.source.encode_all(texts)]

    def fits(self, text: str) -> bool:
        """Return whether a text has at most `limit` tokens."""
        return len(self.source.encode(text)) <= self.limit

    def rare_share(self, text: str) -> float:
        """Return the share of a text that is rare in the training data: words in four or more pieces, or tokens of the rarer half.

        Characters and words are numbered by frequency, so the rarer half of the vocabulary has the higher ids.
        """
        ids = self.source.encode(text)
        if self.source.kind in ("char", "word"):
            rare = [id == UNK or 2 * id >= len(self.source) for id in ids]
        else:
            rare = [word.stop - word.start >= 4 for word in self.source.words(ids)]
        return sum(rare) / max(len(rare), 1)

    def sentences(self, text: str) -> list[str]:
        """Split a text at its line ends, and lines of more than `limit` tokens into their sentences or parts of them."""
        lines = [line for line in text.splitlines() if line.strip()] or [text]
        return [part for line in lines for part in ([line] if self.fits(line) else split_to_fit(line, self.fits))]

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is a Sequence[str] too
        self,
        texts: str,
        *,
        width: int | None = ...,
        n_best: int = ...,
        align: bool = ...,
        temperature: float | None = ...,
        generator: torch.Generator | None = ...,
        hard: bool = ...,
        batch_tokens: int = ...,
    ) -> Translated: ...
    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        width: int | None = ...,
        n_best: int = ...,
        align: bool = ...,
        temperature: float | None = ...,
        generator: torch.Generator | None = ...,
        hard: bool = ...,
        batch_tokens: int = ...,
    ) -> list[Translated]: ...
    def translate(
        self,
        texts: str | Sequence[str],
        *,
        width: int | None = None,
        n_best: int = 1,
        align: bool = True,
        temperature: float | None = None,
        generator: torch.Generator | None = None,
        hard: bool = False,
        batch_tokens: int = 4000,
    ) -> Translated | list[Translated]:
        """Translate one text, or a list of texts of any length, and return one `Translated` or a list of them.

        width         of the beam search; 1 is greedy decoding; None: that of the model's config
        n_best        how many candidates; the first is returned, the rest are its `others`
        align         whether to return the attention weights between target and source words
        temperature   sample instead of searching: 1 samples from the model's distribution, less is more cautious
        generator     of the random numbers of sampling, for repeatable output
        hard          put all attention weight on the source position with the largest weight
        batch_tokens  about how many source tokens are decoded at once (more is faster and takes more memory)

        A text of more than `limit` tokens is translated in parts (`sentences`), which are joined; it has no alignment.

        >>> from regard import open
        >>> translator = open("zh-en-transformer")
        >>> translator.translate("我爱中国").text
        'I love China.'
        >>> [str(one) for one in translator.translate(["我爱中国", "你好"], align=False)][0]
        'I love China.'
        """
        rows = [texts] if isinstance(texts, str) else list(texts)
        parts = [self.sentences(text) for text in rows]
        flat = [part for row in parts for part in row]
        beams = iter(
            self.candidates(
                flat,
                width=width,
                n_best=n_best,
                align=align,
                temperature=temperature,
                generator=generator,
                hard=hard,
                batch_tokens=batch_tokens,
            )
        )
        result = [best_with_others(joined([next(beams) for _ in row], text)) for text, row in zip(rows, parts, strict=True)]
        return result[0] if isinstance(texts, str) else result

    def candidates(
        self,
        texts: Sequence[str],
        *,
        width: int | None = None,
        n_best: int = 1,
        align: bool = False,
        temperature: float | None = None,
        generator: torch.Generator | None = None,
        hard: bool = False,
        batch_tokens: int = 4000,
    ) -> list[list[Translated]]:
        """Return the `n_best` translations of each text, best first; a text is not split. Arguments: see `translate`."""
        width = self.decoding.beam if width is None else max(width, n_best)
        ids = self.encode(texts)
        result: list[list[Translated]] = [[] for _ in texts]
        was_training = self.model.training
        if was_training:  # eval() visits every module, which takes longer than a short step
            self.model.eval()
        attention = cast(Translator, self.model).hard_attention() if hard else nullcontext()
        try:
            with attention:
                for rows in bucketed([len(row) for row in ids], tokens=max(batch_tokens // width, 1), seed=0, epoch=0):
                    decoded = self._decode([ids[i] for i in rows], width, n_best, align, temperature, generator)
                    for i, hypotheses in zip(rows, decoded, strict=True):
                        result[i] = [self._translated(texts[i], ids[i], hypothesis) for hypothesis in hypotheses]
        finally:
            if was_training:
                self.model.train()
        return result

    @torch.no_grad()
    def align(self, source: str, target: str) -> tuple[list[str], list[str], Tensor | None]:
        """Return source words, target words, and the weights (T, S) the model has while this target is given to it, word by word.

        The weights are None for a model without attention, or if either text has no words.
        """
        model = cast(Translator, self.model)
        ids, targets = self.encode([source])[0], self.target.encode(target)
        state = model.start(model.encode(torch.tensor([ids], device=self.device), torch.tensor([len(ids)], device=self.device)))
        rows: list[Tensor] = []
        for token in [BOS, *targets][: len(targets)]:  # each step predicts the next token of the target
            step = model.step(state, torch.tensor([token], device=self.device))
            rows, state = rows if step.alignment is None else [*rows, step.alignment], step.state
        source_words, target_words = self.source.words(ids), self.target.words(targets)
        weights = word_alignment(torch.cat(rows), target_words, source_words) if rows and source_words else None
        return [w.text for w in source_words], [w.text for w in target_words], weights

    def inputs(self, text: str, *, target: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return source ids (1, S), their number (1,), and target ids (1, T) beginning with <s>.

        text: the source; target: the target; None: the translation of the text.
        """
        target_text = self.candidates([text], width=1)[0][0].text if target is None else target
        source = torch.tensor(self.encode([text]), device=self.device)
        length = torch.tensor([source.shape[1]], device=self.device)
        return source, length, torch.tensor([[BOS, *self.target.encode(target_text)]], device=self.device)

    def tokens(self, inputs: tuple[Tensor, Tensor, Tensor]) -> tuple[TokenRows, TokenRows]:
        source, _, target = inputs
        return [[self.target.piece(id) for id in target[0].tolist()]], [[self.source.piece(id) for id in source[0].tolist()]]

    def cut(self, inputs: tuple[Tensor, Tensor, Tensor], length: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs with the source cut to its first `length` tokens."""
        source, lengths, target = inputs
        return source[:, :length], lengths.clamp(max=length), target

    def length(self, inputs: tuple[Tensor, Tensor, Tensor]) -> int:
        """Return the number of tokens of the source."""
        return int(inputs[0].shape[1])

    def _decode(
        self, rows: list[list[int]], width: int, n_best: int, align: bool, temperature: float | None, generator: torch.Generator | None
    ) -> Iterator[list[Hypothesis]]:
        source, lengths = (tensor.to(self.device) for tensor in padded(rows))
        model, max_length = cast(Translator, self.model), self.decoding.max_length
        if temperature is not None or width == 1:
            temperature = 0.0 if temperature is None else temperature
            samples = [
                sample(model, source, lengths, max_length=max_length, temperature=temperature, generator=generator, align=align)
                for _ in range(n_best)
            ]
            return (list(row) for row in zip(*samples, strict=True))
        penalty, expected_lengths = self.decoding.length_penalty, [2 * len(row) + 10 for row in rows]
        return iter(
            beam(
                model,
                source,
                lengths,
                width=width,
                n_best=n_best,
                length_penalty=penalty,
                max_length=max_length,
                expected_lengths=expected_lengths,
                align=align,
            )
        )

    def _translated(self, text: str, ids: list[int], hypothesis: Hypothesis) -> Translated:
        source, target = self.source.words(ids), self.target.words(hypothesis.tokens)
        alignment = None if hypothesis.alignment is None else word_alignment(hypothesis.alignment, target, source)
        words = [w.text for w in source], [w.text for w in target]
        return Translated(self.target.decode(hypothesis.tokens), hypothesis.score, hypothesis.log_prob, *words, alignment, text)
