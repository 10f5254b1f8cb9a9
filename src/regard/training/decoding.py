"""From a trained translator to text: greedy, sampled and beam decoding, with the alignment on request.

Axes: B sentences, K beams, V words, S source positions, T target positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    rows, device = len(source), source.device
    state = model.start(model.encode(source, lengths)).select(torch.arange(rows, device=device).repeat_interleave(width))
    scores = torch.full((rows, width), -torch.inf, device=device)
    scores[:, 0] = 0.0  # the copies of a sentence are alike before the first word: only one may be extended
    tokens = torch.full((rows, width, 1), BOS, device=device)
    alignment: Tensor | None = None  # (B, K, T, S)
    finished: list[list[Hypothesis]] = [[] for _ in range(rows)]
    alive = list(range(rows))  # the sentences still in the tensors, by their number

    def penalty(length: int) -> float:
        return float(((5 + length) / 6) ** length_penalty)

    for length in range(1, max_length + 1):
        step = model.step(state, tokens[..., -1].flatten())
        log_p = _speakable(step.logits).log_softmax(dim=-1).view(len(alive), width, -1)  # (B, K, V)
        if length == max_length:  # no room left: everything must end here
            end = log_p[..., EOS].clone()
            log_p = torch.full_like(log_p, -torch.inf)
            log_p[..., EOS] = end
        words = log_p.shape[-1]
        # 2K candidates: at most K of them end, so K open ones are always among them.
        best, flat = (scores[..., None] + log_p).flatten(1).topk(min(2 * width, width * words), dim=-1)
        parent, word = flat // words, flat % words
        if align and step.alignment is not None:
            looks = step.alignment.view(len(alive), width, 1, -1)
            alignment = looks if alignment is None else torch.cat([alignment, looks], dim=2)
        ends = word == EOS
        kept: list[int] = []
        for i, ended in enumerate(ends.tolist()):
            sentence = alive[i]
            for j, is_end in enumerate(ended[:width]):  # an end below the best K is no better than an open prefix that was dropped
                if is_end and best[i, j] > -torch.inf:
                    k = int(parent[i, j])
                    looked = None if alignment is None else alignment[i, k, : length - 1, : int(lengths[sentence])].clone()
                    value = float(best[i, j])
                    finished[sentence].append(Hypothesis(tokens[i, k, 1:].tolist(), value, value / penalty(length), looked))
            finished[sentence].sort(key=lambda h: -h.score)
            hopes = best[i].masked_fill(ends[i], -torch.inf).max()
            # Log-probabilities only fall; a penalty that grows with length helps most at the greatest length hoped for.
            far = max_length if hoped is None else max(min(hoped[sentence], max_length), length + 1)
            reach = float(hopes) / penalty(far if length_penalty > 0 else length + 1)
            done = len(finished[sentence]) >= n_best and finished[sentence][n_best - 1].score >= reach
            if not done and hopes > -torch.inf:
                kept.append(i)
        if not kept:
            break
        at = torch.tensor(kept, device=device)
        open_ = best.masked_fill(ends, -torch.inf)[at]
        scores, pick = open_.topk(width, dim=-1)  # (b, K)
        parent, word = parent[at].gather(1, pick), word[at].gather(1, pick)
        tokens = torch.cat([tokens[at].gather(1, parent[..., None].expand(-1, -1, length)), word[..., None]], dim=-1)
        if alignment is not None:
            alignment = alignment[at].gather(1, parent[..., None, None].expand(-1, -1, *alignment.shape[2:]))
        state = step.state.select((at[:, None] * width + parent).flatten())
        alive = [alive[i] for i in kept]
    return [hypotheses[:n_best] for hypotheses in finished]


def _speakable(logits: Tensor) -> Tensor:
    """Logits with every special token but </s> ruled out: they are never part of a text."""
    logits = logits.float().clone()
    logits[..., [PAD, BOS, UNK, MASK]] = -torch.inf
    return logits


def _until_end(row: list[int]) -> list[int]:
    return row[: row.index(EOS)] if EOS in row else [t for t in row if t != PAD]
