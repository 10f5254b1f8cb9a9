"""From a trained translator to text: greedy, sampled and beam decoding, with the alignment on request.

Axes: B sentences, K beams, V words, S source positions, T target positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..models.sampling import next_token
from ..models.translator import Translator
from ..text.vocabulary import BOS, EOS, MASK, PAD, UNK


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One output: its tokens (without <s> and </s>), log-probability, score (after the length penalty), and alignment.

    alignment is (T, S) on request, one row a token, the row of </s> left out; None when the model has none.
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
    """Write one target for each source (B, S), word by word; `temperature=0` is greedy decoding."""
    state = model.start(model.encode(source, lengths))
    rows = len(source)
    token = source.new_full((rows,), BOS)
    open_ = torch.ones(rows, dtype=torch.bool, device=source.device)
    log_prob = torch.zeros(rows, device=source.device)
    tokens, alignments = [], []
    for _ in range(max_length):
        step = model.step(state, token)
        logits = _speakable(step.logits)
        token = next_token(logits, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
        token = token.masked_fill(~open_, PAD)
        log_prob += logits.log_softmax(dim=-1).gather(1, token[:, None])[:, 0].masked_fill(~open_, 0.0)
        open_ = open_ & (token != EOS)
        state = step.state
        tokens.append(token)
        if align and step.alignment is not None:
            alignments.append(step.alignment)
        if not open_.any():
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
    """The most likely next word, each time."""
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
    hoped: Sequence[int] | None = None,
    align: bool = False,
) -> list[list[Hypothesis]]:
    """The `n_best` targets found for each source by a search that keeps `width` prefixes, best first.

    Finished targets are ranked by log p(y) / ((5 + |y|) / 6)^length_penalty (Wu et al. 2016, arXiv:1609.08144, section 7), |y| counting
    </s>; 0 ranks by probability alone. A sentence is done when no open prefix can overtake its n-th best finished one within `hoped` words
    (B numbers; default `max_length`): prefixes that are unlikely already could only win by growing far longer than a translation is.
    """
    if not 1 <= n_best <= width:
        raise ValueError(f"n_best is {n_best} and width {width}; n_best must be between 1 and width")
    ranking = _Ranking(length_penalty, max_length, hoped)
    search = _BeamSearch(model, source, lengths, width=width, n_best=n_best, ranking=ranking, align=align)
    while search.alive and search.length < max_length:
        search.advance()
    return [hypotheses[:n_best] for hypotheses in search.finished]


@dataclass(frozen=True)
class _Ranking:
    """How finished targets are ranked, and how long a target may become."""

    length_penalty: float
    max_length: int
    hoped: Sequence[int] | None

    def score(self, log_prob: float, length: int) -> float:
        """log p(y) / ((5 + |y|) / 6)^length_penalty."""
        return log_prob / float(((5 + length) / 6) ** self.length_penalty)

    def bound(self, log_prob: float, length: int, sentence: int) -> float:
        """The best score a prefix of `length` words can still reach.

        Log-probabilities only fall; a penalty that grows with length helps most at the greatest length hoped for.
        """
        far = self.max_length if self.hoped is None else max(min(self.hoped[sentence], self.max_length), length + 1)
        return self.score(log_prob, far if self.length_penalty > 0 else length + 1)


class _BeamSearch:
    """A beam search under way, over the sentences that are not done: `alive`, by their number in the batch (b of the B).

    tokens (b, K, T) and scores (b, K) of the open prefixes, alignment (b, K, T, S) once a step has given one, the decoder's state, and the
    finished hypotheses of all B sentences, best first.
    """

    def __init__(
        self, model: Translator, source: Tensor, lengths: Tensor, *, width: int, n_best: int, ranking: _Ranking, align: bool
    ) -> None:
        rows, device = len(source), source.device
        self.model, self.lengths, self.width, self.n_best, self.ranking, self.align = model, lengths, width, n_best, ranking, align
        self.state = model.start(model.encode(source, lengths)).select(torch.arange(rows, device=device).repeat_interleave(width))
        self.scores = torch.full((rows, width), -torch.inf, device=device)
        self.scores[:, 0] = 0.0  # the copies of a sentence are alike before the first word: only one may be extended
        self.tokens = torch.full((rows, width, 1), BOS, device=device)
        self.alignment: Tensor | None = None
        self.finished: list[list[Hypothesis]] = [[] for _ in range(rows)]
        self.alive = list(range(rows))
        self.length = 0

    def advance(self) -> None:
        """Extend every open prefix by a word: note those that end, drop the sentences that are done, keep the best K of the others."""
        self.length += 1
        step = self.model.step(self.state, self.tokens[..., -1].flatten())
        best, parent, word = self._candidates(step.logits)
        if self.align and step.alignment is not None:
            rows = step.alignment.view(len(self.alive), self.width, 1, -1)
            self.alignment = rows if self.alignment is None else torch.cat([self.alignment, rows], dim=2)
        ends = word == EOS
        self._finish(best, parent, ends)
        still_open = best.masked_fill(ends, -torch.inf)
        kept = [i for i, hope in enumerate(still_open.amax(-1).tolist()) if hope > -torch.inf and not self._done(self.alive[i], hope)]
        self._keep(kept, still_open, parent, word, step.state)

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best 2K one-word extensions of each sentence, best first: log-probability, prefix and word, each (b, 2K).

        At most K of them end, so K open ones are always among them.
        """
        log_p = _speakable(logits).log_softmax(dim=-1).view(len(self.alive), self.width, -1)  # (b, K, V)
        if self.length == self.ranking.max_length:  # no room left: everything must end here
            end = log_p[..., EOS].clone()
            log_p = torch.full_like(log_p, -torch.inf)
            log_p[..., EOS] = end
        words = log_p.shape[-1]
        best, flat = (self.scores[..., None] + log_p).flatten(1).topk(min(2 * self.width, self.width * words), dim=-1)
        return best, flat // words, flat % words

    def _finish(self, best: Tensor, parent: Tensor, ends: Tensor) -> None:
        """Note the extensions that end. An end below the best K is no better than an open prefix that was dropped."""
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

    def _done(self, sentence: int, hope: float) -> bool:
        """Whether no open prefix, the likeliest of which has log-probability `hope`, can overtake the n-th best finished one."""
        finished = self.finished[sentence]
        return len(finished) >= self.n_best and finished[self.n_best - 1].score >= self.ranking.bound(hope, self.length, sentence)

    def _keep(self, kept: list[int], still_open: Tensor, parent: Tensor, word: Tensor, state: Any) -> None:
        """Go on with the sentences at places `kept`, each with its best K open prefixes."""
        self.alive = [self.alive[i] for i in kept]
        if not kept:
            return
        at = torch.tensor(kept, device=parent.device)
        self.scores, chosen = still_open[at].topk(self.width, dim=-1)  # (b, K)
        parent, word = parent[at].gather(1, chosen), word[at].gather(1, chosen)
        self.tokens = torch.cat([self.tokens[at].gather(1, parent[..., None].expand(-1, -1, self.length)), word[..., None]], dim=-1)
        if self.alignment is not None:
            self.alignment = self.alignment[at].gather(1, parent[..., None, None].expand(-1, -1, *self.alignment.shape[2:]))
        self.state = state.select((at[:, None] * self.width + parent).flatten())


def _speakable(logits: Tensor) -> Tensor:
    """Logits with every special token but </s> ruled out: they are never part of a text."""
    logits = logits.float().clone()
    logits[..., [PAD, BOS, UNK, MASK]] = -torch.inf
    return logits


def _until_end(row: list[int]) -> list[int]:
    return row[: row.index(EOS)] if EOS in row else [t for t in row if t != PAD]
