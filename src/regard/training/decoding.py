"""Greedy, sampled and beam decoding of sequence-to-sequence models, with alignments if requested.

Axes: B sentences, K beams, V words, S source positions, T target positions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..models.sampling import next_token
from ..models.translator import Translator
from ..text.vocabulary import BOS, EOS, MASK, PAD, UNK

MAX_WIDTH = 1_000  # of a beam


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One decoded output: its tokens (without <s> and </s>), log-probability, score (with the length penalty), and alignment.

    alignment: (T, S), one row per token without </s>; None if it was not requested or the model has no attention.
    """

    tokens: list[int]
    log_prob: float
    score: float
    alignment: Tensor | None = None


@torch.no_grad()
def sample(
    model: Translator,
    source: Tensor,
    lengths: Tensor,
    *,
    max_length: int = 100,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    align: bool = False,
) -> list[Hypothesis]:
    """Decode one target for each source (B, S) by sampling; `temperature=0` is greedy decoding."""
    state = model.start(model.encode(source, lengths))
    rows = len(source)
    token = source.new_full((rows,), BOS)
    unfinished = torch.ones(rows, dtype=torch.bool, device=source.device)
    log_prob = torch.zeros(rows, device=source.device)
    tokens, alignments = [], []
    for _ in range(max_length):
        step = model.step(state, token, align=align)
        logits = _without_special_tokens(step.logits)
        token = next_token(logits, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
        token = token.masked_fill(~unfinished, PAD)
        log_prob += logits.log_softmax(dim=-1).gather(1, token[:, None])[:, 0].masked_fill(~unfinished, 0.0)
        unfinished = unfinished & (token != EOS)
        state = step.state
        tokens.append(token)
        if align and step.alignment is not None:
            alignments.append(step.alignment)
        if not unfinished.any():
            break
    grid = torch.stack(tokens, dim=1).tolist() if tokens else [[] for _ in range(rows)]
    weights = torch.stack(alignments, dim=1) if alignments else None  # (B, T, S)
    result = []
    for i, row in enumerate(grid):
        words = _until_end(row)
        score = float(log_prob[i])
        result.append(Hypothesis(words, score, score, None if weights is None else weights[i, : len(words), : int(lengths[i])]))
    return result


def greedy(model: Translator, source: Tensor, lengths: Tensor, *, max_length: int = 100, align: bool = False) -> list[Hypothesis]:
    """Decode one target for each source by always taking the most likely next word."""
    return sample(model, source, lengths, max_length=max_length, temperature=0.0, align=align)


@torch.no_grad()
def beam(
    model: Translator,
    source: Tensor,
    lengths: Tensor,
    *,
    width: int = 5,
    n_best: int = 1,
    length_penalty: float = 1.0,
    max_length: int = 100,
    expected_lengths: Sequence[int] | None = None,
    align: bool = False,
) -> list[list[Hypothesis]]:
    """Decode the `n_best` targets of each source with a beam of `width` hypotheses, best first.

    Finished hypotheses are ranked by log p(y) / ((5 + |y|) / 6)^length_penalty (Wu et al. 2016, arXiv:1609.08144, section 7), |y| counting
    </s>; 0 ranks by probability alone. The search of a sentence ends when no unfinished hypothesis can overtake its n-th best finished one
    within `expected_lengths` words (one number per sentence; default: `max_length`). A smaller number ends the search earlier.
    """
    if width > MAX_WIDTH:
        raise ValueError(f"width is {width:,}; expected a beam of at most {MAX_WIDTH:,} hypotheses")
    if not 1 <= n_best <= width:
        raise ValueError(f"n_best is {n_best} and width {width}; expected 1 ≤ n_best ≤ width")
    ranking = _Ranking(length_penalty, max_length, expected_lengths)
    search = _BeamSearch(model, source, lengths, width=width, n_best=n_best, ranking=ranking, align=align)
    while search.alive and search.length < max_length:
        search.advance()
    return [hypotheses[:n_best] for hypotheses in search.finished]


@dataclass(frozen=True)
class _Ranking:
    """The ranking of finished hypotheses, and the longest length of a target."""

    length_penalty: float
    max_length: int
    expected_lengths: Sequence[int] | None

    def score(self, log_prob: float, length: int) -> float:
        """Return log p(y) / ((5 + |y|) / 6)^length_penalty."""
        return log_prob / float(((5 + length) / 6) ** self.length_penalty)

    def bound(self, log_prob: float, length: int, sentence: int) -> float:
        """Return an upper bound of the score a hypothesis of `length` words can still reach.

        Log-probabilities only decrease; a positive length penalty raises the score most at the greatest expected length.
        """
        if self.expected_lengths is None:
            longest = self.max_length
        else:
            longest = max(min(self.expected_lengths[sentence], self.max_length), length + 1)
        return self.score(log_prob, longest if self.length_penalty > 0 else length + 1)


class _BeamSearch:
    """The state of a beam search over a batch.

    alive      indices of the b sentences still being decoded (of the B in the batch)
    tokens     (b, K, T), scores (b, K) and alignment (b, K, T, S) of their unfinished hypotheses
    state      the decoder's state, one row per hypothesis
    finished   finished hypotheses of all B sentences, best first
    """

    def __init__(
        self, model: Translator, source: Tensor, lengths: Tensor, *, width: int, n_best: int, ranking: _Ranking, align: bool
    ) -> None:
        rows, device = len(source), source.device
        self.model, self.lengths, self.width, self.n_best, self.ranking, self.align = model, lengths, width, n_best, ranking, align
        self.state = model.start(model.encode(source, lengths)).select(torch.arange(rows, device=device).repeat_interleave(width))
        self.scores = torch.full((rows, width), -torch.inf, device=device)
        self.scores[:, 0] = 0.0  # the K hypotheses of a sentence are equal before the first word: only one may be extended
        self.tokens = torch.full((rows, width, 1), BOS, device=device)
        self.alignment: Tensor | None = None
        self.finished: list[list[Hypothesis]] = [[] for _ in range(rows)]
        self.alive = list(range(rows))
        self.length = 0

    def advance(self) -> None:
        """Extend every hypothesis by one word: store those that end, drop the finished sentences, keep the best K of the others."""
        self.length += 1
        step = self.model.step(self.state, self.tokens[..., -1].flatten(), align=self.align)
        best, parent, word = self._candidates(step.logits)
        if self.align and step.alignment is not None:
            rows = step.alignment.view(len(self.alive), self.width, 1, -1)
            self.alignment = rows if self.alignment is None else torch.cat([self.alignment, rows], dim=2)
        ends = word == EOS
        self._finish(best, parent, ends)
        unfinished = best.masked_fill(ends, -torch.inf)
        highest = unfinished.amax(-1).tolist()
        kept = [i for i, log_prob in enumerate(highest) if log_prob > -torch.inf and not self._done(self.alive[i], log_prob)]
        self._keep(kept, unfinished, parent, word, step.state)

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best 2K one-word extensions of each sentence, best first: log-probability, parent and word, each (b, 2K).

        At most K of them end, so at least K do not.
        """
        log_p = _without_special_tokens(logits).log_softmax(dim=-1).view(len(self.alive), self.width, -1)  # (b, K, V)
        if self.length == self.ranking.max_length:  # the longest length is reached: only </s> is allowed
            end = log_p[..., EOS].clone()
            log_p = torch.full_like(log_p, -torch.inf)
            log_p[..., EOS] = end
        words = log_p.shape[-1]
        best, flat = (self.scores[..., None] + log_p).flatten(1).topk(min(2 * self.width, self.width * words), dim=-1)
        return best, flat // words, flat % words

    def _finish(self, best: Tensor, parent: Tensor, ends: Tensor) -> None:
        """Store the extensions that end and are among the best K; lower ones are dropped like any other hypothesis below the beam."""
        for i, j in ends[:, : self.width].nonzero().tolist():
            log_prob = float(best[i, j])
            if log_prob == -torch.inf:
                continue
            sentence, k = self.alive[i], int(parent[i, j])
            rows = None if self.alignment is None else self.alignment[i, k, : self.length - 1, : int(self.lengths[sentence])].clone()
            tokens = self.tokens[i, k, 1:].tolist()
            self.finished[sentence].append(Hypothesis(tokens, log_prob, self.ranking.score(log_prob, self.length), rows))
        for sentence in self.alive:
            self.finished[sentence].sort(key=lambda h: -h.score)

    def _done(self, sentence: int, highest: float) -> bool:
        """Return whether no unfinished hypothesis can overtake the n-th best finished one; `highest` is their best log-probability."""
        finished = self.finished[sentence]
        return len(finished) >= self.n_best and finished[self.n_best - 1].score >= self.ranking.bound(highest, self.length, sentence)

    def _keep(self, kept: list[int], unfinished: Tensor, parent: Tensor, word: Tensor, state: Any) -> None:
        """Continue with the sentences at indices `kept` of `alive`, each with its best K unfinished hypotheses."""
        self.alive = [self.alive[i] for i in kept]
        if not kept:
            return
        index = torch.tensor(kept, device=parent.device)
        self.scores, best = unfinished[index].topk(self.width, dim=-1)  # (b, K)
        parent, word = parent[index].gather(1, best), word[index].gather(1, best)
        self.tokens = torch.cat([self.tokens[index].gather(1, parent[..., None].expand(-1, -1, self.length)), word[..., None]], dim=-1)
        if self.alignment is not None:
            self.alignment = self.alignment[index].gather(1, parent[..., None, None].expand(-1, -1, *self.alignment.shape[2:]))
        self.state = state.select((index[:, None] * self.width + parent).flatten())


def _without_special_tokens(logits: Tensor) -> Tensor:
    """Return logits in which every special token but </s> is −∞."""
    return logits.float().index_fill(-1, _special_tokens(logits.device), -torch.inf)


@functools.cache
def _special_tokens(device: torch.device) -> Tensor:
    return torch.tensor([PAD, BOS, UNK, MASK], device=device)


def _until_end(row: list[int]) -> list[int]:
    """Return the tokens before </s>, without padding."""
    return row[: row.index(EOS)] if EOS in row else [t for t in row if t != PAD]
