"""Sentence vectors of a published BERT (MiniLM): an optional addition to skimming English articles.

A sentence's vector is the mean of its tokens' final vectors, normalised (Reimers and Gurevych 2019, arXiv:1908.10084). It costs a pass of
the BERT over the whole article, so it saves no time; it is here for quality.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ....text.batches import padded
from ....text.skimming import SkimmedArticle
from ...opened import TokenModel

_LONGEST = 256  # tokens of a sentence; all-MiniLM-L6-v2 was trained on no more


class SentenceVectors:
    """Vectors of sentences by an opened BERT; those of the last article are kept for its next question."""

    def __init__(self, opened: TokenModel) -> None:
        self.opened = opened
        self._article: SkimmedArticle | None = None
        self._vectors = torch.zeros(0)

    @torch.no_grad()
    def vectors(self, texts: Sequence[str], *, batch: int = 32) -> Tensor:
        """Return normalised vectors (N, D) of texts; those of like length are computed together."""
        ids = [self.opened.encode(text)[:_LONGEST] for text in texts]
        order = sorted(range(len(ids)), key=lambda n: len(ids[n]))
        parts = []
        for i in range(0, len(order), batch):
            rows = [ids[n] for n in order[i : i + batch]]
            tokens, lengths = (tensor.to(self.opened.device) for tensor in padded(rows))
            hidden = self.opened.model(tokens, lengths)
            visible = torch.arange(hidden.shape[1], device=hidden.device) < lengths.unsqueeze(-1)
            parts.append((hidden * visible.unsqueeze(-1)).sum(1) / lengths.unsqueeze(-1))
        return F.normalize(torch.cat(parts)[torch.tensor(order).argsort()], dim=-1).cpu()

    def cosines(self, article: SkimmedArticle, question: str) -> Tensor:
        """Return the cosine of the question and each sentence, (S,)."""
        if self._article is not article:
            self._article, self._vectors = article, self.vectors([sentence.text for sentence in article.sentences])
        return self._vectors @ self.vectors([question])[0]
