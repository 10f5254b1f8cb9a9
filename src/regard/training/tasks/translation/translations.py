"""A trained translator with its vocabularies: translates texts and returns alignments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from ....models.translator import Translator
from ....text.alignment import draw, word_alignment
from ....text.batches import bucketed, padded
from ....text.sentences import split_to_fit
from ....text.vocabulary import BOS, EOS, Vocabulary
from ...decoding import Hypothesis, beam, sample
from ...opened import OpenedModel, TokenRows
from ...runs import load_best, run_config
from .config import Decoding, TranslationConfig


@dataclass(frozen=True, eq=False)
class Translated:
    """One translation: its text, score, and the alignment (target words × source words) with its words."""

    text: str
    score: float
    log_prob: float
    source_words: list[str]
    target_words: list[str]
    alignment: Tensor | None

    def picture(self, *, colour: bool = False, dark: bool = True) -> str:
        """Return the alignment drawn as text, or "" if there is none."""
        if self.alignment is None:
            return ""
        return draw(self.alignment, self.target_words, self.source_words, colour=colour, dark=dark)


class Translations(OpenedModel):
    """A trained translator with its vocabularies. `limit` is the longest source, in tokens, it was trained on."""

    limit: int

    def __init__(self, model: nn.Module, source: Vocabulary, target: Vocabulary, decoding: Decoding, *, limit: int = 100) -> None:
        self.model, self.source, self.target, self.decoding, self.limit = model, source, target, decoding, limit

    @classmethod
    def open(cls, folder: str | Path, *, device: str = "cpu") -> Translations:
        """Load the best model of a finished or running training."""
        config = run_config(folder, "translation", TranslationConfig)
        source, target = (Vocabulary.load(Path(folder) / f"{side}.vocabulary.json") for side in ("source", "target"))
        model = config.model.build(len(source), len(target), shared=config.target.kind == "shared")
        load_best(model, folder)
        return cls(model.to(device), source, target, config.decoding, limit=config.data.max_length)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return source ids; those of an empty text are </s> alone, because attention needs at least one key."""
        return [ids or [EOS] for ids in self.source.encode_all(texts)]

    def fits(self, text: str) -> bool:
        """Return whether a text has at most `limit` tokens."""
        return len(self.source.encode(text)) <= self.limit

    def sentences(self, text: str) -> list[str]:
        """Split a text into parts of at most `limit` tokens: the text itself if it fits, else its sentences or parts of them."""
        return [text] if self.fits(text) else split_to_fit(text, self.fits)

    def translate(
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
        """Return the `n_best` translations of each text, best first.

        width        of the beam; 1 is greedy decoding; None: that of the config
        temperature  sample instead of beam search
        hard         put all attention weight on the source position with the largest weight
        """
        width = self.decoding.beam if width is None else max(width, n_best)
        ids = self.encode(texts)
        result: list[list[Translated]] = [[] for _ in texts]
        was_training = self.model.training
        self.model.eval()
        attention = cast(Translator, self.model).hard_attention() if hard else nullcontext()
        try:
            with attention:
                for rows in bucketed([len(row) for row in ids], tokens=max(batch_tokens // width, 1), seed=0, epoch=0):
                    decoded = self._decode([ids[i] for i in rows], width, n_best, align, temperature, generator)
                    for i, hypotheses in zip(rows, decoded, strict=True):
                        result[i] = [self._translated(ids[i], hypothesis) for hypothesis in hypotheses]
        finally:
            self.model.train(was_training)
        return result

    def translate_long(self, texts: Sequence[str], **options: Any) -> list[list[Translated]]:
        """Translate texts of any length: those over `limit` are split into `sentences`, and their translations joined.

        A joined translation has no alignment, and its scores are the sums over its parts.
        """
        parts = [self.sentences(text) for text in texts]
        translated = iter(self.translate([part for row in parts for part in row], **options))
        return [_joined([next(translated) for _ in row]) for row in parts]

    def inputs(self, text: str, *, target: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return source ids (1, S), their number (1,), and target ids (1, T) beginning with <s>."""
        target_text = self.translate([text], width=1)[0][0].text if target is None else target
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

    def _translated(self, ids: list[int], hypothesis: Hypothesis) -> Translated:
        source, target = self.source.words(ids), self.target.words(hypothesis.tokens)
        alignment = None if hypothesis.alignment is None else word_alignment(hypothesis.alignment, target, source)
        text = self.target.decode(hypothesis.tokens)
        words = [w.text for w in source], [w.text for w in target]
        return Translated(text, hypothesis.score, hypothesis.log_prob, *words, alignment)


def _joined(parts: list[list[Translated]]) -> list[Translated]:
    """Join the best translations of every part, then the second best of each, and so on."""
    if len(parts) == 1:
        return parts[0]
    return [
        Translated(
            " ".join(part.text for part in row),
            sum(part.score for part in row),
            sum(part.log_prob for part in row),
            [word for part in row for word in part.source_words],
            [word for part in row for word in part.target_words],
            None,
        )
        for row in zip(*parts, strict=False)
    ]
