"""Reading by focus: skim an article, pick the few sentences a question needs, and read only those.

Skimming is a bag of words a sentence. Each hop looks for one sentence with what it knows so far: the question, then the
sentences picked before. What was picked is read word by word, and the answer comes from that alone, so a hop that picks
the wrong sentence cannot be made up for.

"hard"  a sentence is drawn (`regard.Sample`) while training and REINFORCE rewards right answers; the likeliest is taken in use
"soft"  every sentence is read, and weighed

Axes: B stories, K draws of each, S sentences, W words of a sentence, T hops, d width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import observe
from ..choices import Argmax, Choice, Sample, Softmax, reinforce
from ..masks import padding
from ..scores import ScaledDot

PAD = 0  # the id of no word
TIMES = 4  # features of one distance in time


@dataclass(frozen=True)
class ReaderConfig:
    """words and answers are how many ids there are of each; hops is how many sentences are picked."""

    words: int
    answers: int
    hops: int = 1
    width: int = 32
    state: int = 64
    attention: Literal["hard", "soft"] = "hard"

    def __post_init__(self) -> None:
        if self.attention not in ("hard", "soft"):
            raise ValueError(f"attention is {self.attention!r}; expected 'hard' or 'soft'")
        if self.hops < 1:
            raise ValueError(f"hops is {self.hops}; at least one sentence must be picked")


@dataclass(frozen=True, eq=False)
class StoryBatch:
    """A batch of stories as ids, 0 where there is no word: sentences (B, S, W), counts of sentences (B,), questions (B, W')."""

    sentences: Tensor
    counts: Tensor
    questions: Tensor

    @classmethod
    def of(cls, stories: Sequence[Sequence[Sequence[int]]], questions: Sequence[Sequence[int]]) -> StoryBatch:
        """Pad stories, each a list of sentences, each a list of ids.

        >>> StoryBatch.of([[[5, 6]], [[5], [7]]], [[8], [8, 9]]).sentences.tolist()
        [[[5, 6], [0, 0]], [[5, 0], [7, 0]]]
        """
        if not stories or not all(stories):
            raise ValueError("a story without sentences has nothing to pick from; give at least one story with one sentence")
        S = max(map(len, stories))
        W = max(1, max(len(sentence) for story in stories for sentence in story))
        sentences = torch.zeros(len(stories), S, W, dtype=torch.int64)
        for b, story in enumerate(stories):
            for n, sentence in enumerate(story):
                sentences[b, n, : len(sentence)] = torch.tensor(sentence, dtype=torch.int64)
        asked = torch.zeros(len(stories), max(1, max(map(len, questions))), dtype=torch.int64)
        for b, question in enumerate(questions):
            asked[b, : len(question)] = torch.tensor(question, dtype=torch.int64)
        return cls(sentences, torch.tensor([len(story) for story in stories]), asked)

    def to(self, device: torch.device) -> StoryBatch:
        return StoryBatch(self.sentences.to(device), self.counts.to(device), self.questions.to(device))


@dataclass(frozen=True, eq=False)
class Reading:
    """What came of reading: B stories, K draws of each (one in use), T hops.

    logits (B, K, answers); picks (B, K, T), sentences from 0 (with soft attention: where it looked most);
    age (B, K, T), how far before the question each pick stands, 1 for the last sentence;
    log_prob (B, K, T) of the draws and baseline (B, K, T), the reward expected before each; both None unless drawing;
    read and total (B,): the words read, by the first draw, and those of the whole story.
    """

    logits: Tensor
    picks: Tensor
    age: Tensor
    log_prob: Tensor | None
    baseline: Tensor | None
    read: Tensor
    total: Tensor


class Reader(nn.Module):
    """Answers questions about stories by picking sentences.

    >>> reader = Reader(ReaderConfig(words=10, answers=3, hops=2)).eval()
    >>> stories = StoryBatch.of([[[5, 6], [7], [8, 9]]], [[7]])
    >>> reading = reader(stories)
    >>> reading.logits.shape, reading.picks.shape
    (torch.Size([1, 1, 3]), torch.Size([1, 1, 2]))
    """

    def __init__(self, config: ReaderConfig) -> None:
        super().__init__()
        self.config = config
        d, n = config.width, config.state
        self.skimmed = nn.Embedding(config.words, d, padding_idx=PAD)
        self.key = nn.Linear(d, d, bias=False)
        # Hop t knows the question and t sentences; it asks for words, and for times: since the end and since each pick.
        self.ask_words = nn.ModuleList(nn.Linear((t + 1) * d, d) for t in range(config.hops))
        self.ask_times = nn.ModuleList(_time_query((t + 1) * d, n, (t + 1) * TIMES) for t in range(config.hops))
        self.expect = nn.ModuleList(nn.Sequential(nn.Linear((t + 1) * d, n), nn.Tanh(), nn.Linear(n, 1)) for t in range(config.hops))
        self.embedding = nn.Embedding(config.words, n, padding_idx=PAD)
        self.gru = nn.GRU(n, n, batch_first=True)
        self.answer = nn.Sequential(nn.Linear((config.hops + 1) * n, n), nn.ReLU(), nn.Linear(n, config.answers))
        nn.init.normal_(self.skimmed.weight, std=d**-0.5)

    def forward(self, stories: StoryBatch, *, draws: int = 1, generator: torch.Generator | None = None) -> Reading:
        """Read the stories; while training with hard attention, `draws` times over."""
        hard = self.config.attention == "hard"
        drawing = hard and self.training
        search = _Search(self, stories, draws=draws if drawing else 1, choice=Sample() if drawing else Argmax() if hard else Softmax())
        for hop in range(self.config.hops):
            search.hop(hop, generator)
        picks = torch.stack(search.picks, -1)  # (B, K, T)
        asked = self.read(stories.questions).unsqueeze(1).expand(*picks.shape[:2], -1)
        read = [self.read_picked(stories.sentences, picks)] if hard else search.read
        total = (stories.sentences != PAD).sum((1, 2))
        return Reading(
            logits=self.answer(torch.cat([asked, *read], -1)),
            picks=picks,
            age=stories.counts.view(-1, 1, 1) - picks,
            log_prob=torch.stack(search.log_probs, -1) if drawing else None,
            baseline=torch.stack(search.expected, -1) if drawing else None,
            read=_words_of(stories.sentences, picks[:, 0]) if hard else total,
            total=total,
        )

    def skim(self, ids: Tensor) -> Tensor:
        """(…, W) → (…, d): a bag of words that knows their order (Sukhbaatar et al. 2015, section 4.1, "position encoding")."""
        real = (ids != PAD).unsqueeze(-1)
        W, d = ids.shape[-1], self.config.width
        word = torch.arange(1, W + 1, device=ids.device).unsqueeze(-1) / real.sum(-2, keepdim=True).clamp(min=1)  # (…, W, 1)
        part = torch.arange(1, d + 1, device=ids.device) / d
        weight = (1 - word) - part * (1 - 2 * word)
        bag: Tensor = (self.skimmed(ids) * weight * real).sum(-2)
        return bag

    def read(self, ids: Tensor) -> Tensor:
        """(…, W) → (…, n): word by word."""
        flat = ids.flatten(0, -2)
        states: Tensor = self.gru(self.embedding(flat))[0]
        last = (flat != PAD).sum(-1).clamp(min=1) - 1
        return states[torch.arange(len(flat), device=ids.device), last].view(*ids.shape[:-1], -1)

    def read_picked(self, sentences: Tensor, picks: Tensor) -> Tensor:
        """Sentences (B, S, W) and which were picked (B, K, T) → (B, K, T·n). What several draws picked is read once."""
        B, S, W = sentences.shape
        places, back = torch.unique(picks + S * torch.arange(B, device=picks.device).view(B, 1, 1), return_inverse=True)
        return self.read(sentences.view(B * S, W)[places])[back].flatten(-2)


class _Search:
    """One search through the sentences of a batch: what is known after each hop, and what every hop picked.

    known   the question, then each pick: (B, K, d)
    times   where each of them stands in the story: (B, K); the question after the last sentence
    """

    def __init__(self, reader: Reader, stories: StoryBatch, *, draws: int, choice: Choice) -> None:
        self.reader, self.choice, self.mask = reader, choice, padding(stories.counts)
        B, S, _ = stories.sentences.shape
        sentences = reader.skim(stories.sentences)  # (B, S, d)
        self.place = torch.arange(S, dtype=sentences.dtype, device=sentences.device)
        self.key_input, values = sentences, [sentences, self.place.expand(B, S).unsqueeze(-1)]
        if isinstance(choice, Softmax):
            values.append(reader.read(stories.sentences))  # soft attention reads everything: (B, S, n)
        self.value = torch.cat(values, -1)
        self.known = [reader.skim(stories.questions).unsqueeze(1).expand(B, draws, -1)]
        self.times = [stories.counts.to(sentences.dtype).view(B, 1).expand(B, draws)]
        self.picks: list[Tensor] = []  # each (B, K)
        self.log_probs: list[Tensor] = []  # each (B, K), of draws
        self.expected: list[Tensor] = []  # each (B, K), the reward expected before a draw
        self.read: list[Tensor] = []  # each (B, K, n), what soft attention read

    def hop(self, t: int, generator: torch.Generator | None) -> None:
        """Ask for one sentence with what is known, and add it to what is known."""
        reader, d = self.reader, self.reader.config.width
        state = torch.cat(self.known, -1)
        attended = observe(
            reader.ask_words[t](state),
            reader.key(self.key_input),
            self.value,
            score=_SCORE,
            mask=self.mask,
            bias=self._time_bias(t, state).unsqueeze(1),
            choice=self.choice,
            generator=generator,
        )
        self.known.append(attended.output[..., :d])
        self.times.append(attended.output[..., d])
        if isinstance(self.choice, Sample):
            assert attended.log_prob is not None
            self.log_probs.append(attended.log_prob)
            self.expected.append(reader.expect[t](state.detach()).squeeze(-1))
        if attended.index is not None:
            self.picks.append(attended.index)
        else:
            self.picks.append(attended.output[..., d].detach().round().long())
            self.read.append(attended.output[..., d + 1 :])

    def _time_bias(self, t: int, state: Tensor) -> Tensor:
        """What the times of sentences add to their scores: (B, K, S)."""
        distance = self.place - torch.stack(self.times, -1).unsqueeze(-1)  # (B, K, t+1, S)
        wanted = self.reader.ask_times[t](state).unflatten(-1, (t + 1, TIMES))
        return torch.einsum("bktf,bktsf->bks", wanted, time_features(distance))


_SCORE = ScaledDot()


def _time_query(known: int, hidden: int, times: int) -> nn.Sequential:
    """What a hop asks of the times. Later sentences overrule earlier ones, so it begins with chances that fall as 1/(1 + age)."""
    last = nn.Linear(hidden, times)
    with torch.no_grad():
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        last.bias[1] = 1.0  # the log-distance to the question, the second of `time_features`
    return nn.Sequential(nn.Linear(known, hidden), nn.Tanh(), last)


def time_features(distance: Tensor) -> Tensor:
    """(…) sentences later (negative: earlier) → (…, TIMES): how far, on two scales, whether before or after, and whether beside."""
    near = distance.abs()
    return torch.stack([distance / 10, distance.sign() * torch.log1p(near), torch.tanh(distance), (-near).exp()], -1)


def reader_loss(reading: Reading, answers: Tensor, *, curiosity: float = 0.0) -> tuple[Tensor, Tensor]:
    """What to minimise for answers (B,), summed over the stories; and the reward (B, K), the probability given to the right answer.

    The answer learns by cross-entropy from what was read. The picks learn by REINFORCE: the reward is how likely the answer is right,
    less a learned baseline that is asked before each pick. `curiosity` keeps the picks near chances that fall as 1/(1 + age): it takes
    its KL divergence from those off the reward, so that the picks stay varied, and the later of two equally good sentences is preferred.
    """
    B, K = reading.logits.shape[:2]
    wrong = F.cross_entropy(reading.logits.flatten(0, 1), answers.repeat_interleave(K), reduction="none").view(B, K)
    loss = wrong.mean()
    reward = (-wrong).exp().detach()
    if reading.log_prob is not None and reading.baseline is not None:
        earned = reward - curiosity * (reading.log_prob.detach() + torch.log1p(reading.age)).sum(-1)
        for log_prob, baseline in zip(reading.log_prob.unbind(-1), reading.baseline.unbind(-1), strict=True):
            surprise = (earned - baseline).detach()
            others = (surprise.sum(-1, keepdim=True) - surprise) / max(K - 1, 1)  # what the story's other draws earned more than expected
            loss = loss + reinforce(log_prob, earned, baseline + others) + F.mse_loss(baseline, earned)
    return loss * B, reward


def _words_of(sentences: Tensor, picks: Tensor) -> Tensor:
    """How many words the sentences picked (B, T) have, each counted once."""
    chosen = torch.zeros(sentences.shape[:2], dtype=torch.bool, device=sentences.device).scatter(1, picks, True)
    return ((sentences != PAD).sum(-1) * chosen).sum(-1)
