"""A reader with hard attention: it picks the few sentences of a story that a question needs, and reads only those.

Every sentence is first encoded as a bag of words (`skim`). Each hop picks one sentence, its query computed from the question and the
sentences picked before. The picked sentences are then encoded word by word by a GRU (`read`), and the answer is computed from them alone.

"hard"  training samples a sentence (`regard.Sample`) and learns the picks by REINFORCE; evaluation takes the most likely one
"soft"  every sentence is encoded, and the hops take weighted sums

Axes: B stories, K samples of each, S sentences, W words of a sentence, T hops, d width, n state width.
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
from ..limits import check_fields
from ..masks import padding
from ..scores import ScaledDot

PAD = 0  # the padding id
TIMES = 4  # number of features of a distance between sentences


@dataclass(frozen=True)
class ReaderConfig:
    """Options of a reader of stories.

    words, answers: sizes of the two vocabularies.
    hops: how many sentences are picked, one after another.
    width: of a word vector.
    state: width of sentences and of the reader's state.
    attention: "hard" picks one sentence, "soft" mixes all.

    Raises ValueError for sizes below 1 or another attention.

    >>> ReaderConfig(words=10, answers=3).hops
    1
    """

    words: int
    answers: int
    hops: int = 1
    width: int = 32
    state: int = 64
    attention: Literal["hard", "soft"] = "hard"

    def __post_init__(self) -> None:
        if self.attention not in ("hard", "soft"):
            raise ValueError(f"attention is {self.attention!r}; expected 'hard' or 'soft'")
        check_fields(self, may_be_zero=("hops",))
        if self.hops < 1:
            raise ValueError(f"hops is {self.hops}; expected 1 or more (how many sentences are picked)")


@dataclass(frozen=True, eq=False)
class StoryBatch:
    """A batch of stories as ids, padded with 0: sentences (B, S, W), number of sentences (B,), questions (B, W')."""

    sentences: Tensor
    counts: Tensor
    questions: Tensor

    @classmethod
    def of(cls, stories: Sequence[Sequence[Sequence[int]]], questions: Sequence[Sequence[int]]) -> StoryBatch:
        """Pad stories (lists of sentences, which are lists of ids) and questions (lists of ids) into one batch.

        >>> StoryBatch.of([[[5, 6]], [[5], [7]]], [[8], [8, 9]]).sentences.tolist()
        [[[5, 6], [0, 0]], [[5, 0], [7, 0]]]
        """
        if not stories or not all(stories):
            raise ValueError("there is no story, or one without sentences; give at least one story, each with at least one sentence")
        S = max(map(len, stories))
        W = max(1, max(len(sentence) for story in stories for sentence in story))
        sentences = torch.zeros(len(stories), S, W, dtype=torch.int64)
        for b, story in enumerate(stories):
            for n, sentence in enumerate(story):
                sentences[b, n, : len(sentence)] = torch.tensor(sentence, dtype=torch.int64)
        padded_questions = torch.zeros(len(stories), max(1, max(map(len, questions))), dtype=torch.int64)
        for b, question in enumerate(questions):
            padded_questions[b, : len(question)] = torch.tensor(question, dtype=torch.int64)
        return cls(sentences, torch.tensor([len(story) for story in stories]), padded_questions)

    def to(self, device: torch.device) -> StoryBatch:
        return StoryBatch(self.sentences.to(device), self.counts.to(device), self.questions.to(device))


@dataclass(frozen=True, eq=False)
class Reading:
    """The output of a reader for B stories, K samples of each (1 in evaluation) and T hops.

    logits    (B, K, answers)
    picks     (B, K, T), indices of sentences (with soft attention: the mean position, rounded)
    age       (B, K, T), distance of each pick from the question, 1 for the last sentence
    log_prob  (B, K, T) of the sampled picks, or None
    baseline  (B, K, T), the expected reward before each pick, or None
    read      (B,), number of words read by the first sample; total: of the whole story
    """

    logits: Tensor
    picks: Tensor
    age: Tensor
    log_prob: Tensor | None
    baseline: Tensor | None
    read: Tensor
    total: Tensor


class Reader(nn.Module):
    """A model that answers questions about stories by picking sentences.

    config: its sizes and options, a :class:`ReaderConfig`.

    >>> reader = Reader(ReaderConfig(words=10, answers=3, hops=2)).eval()
    >>> stories = StoryBatch.of([[[5, 6], [7], [8, 9]]], [[7]])
    >>> reading = reader(stories)
    >>> reading.logits.shape, reading.picks.shape
    (torch.Size([1, 1, 3]), torch.Size([1, 1, 2]))
    """

    every_step = False  # `regard.watch` records each hop as a layer, although all attend to the same sentences

    def __init__(self, config: ReaderConfig) -> None:
        super().__init__()
        self.config = config
        d, n = config.width, config.state
        self.skimmed = nn.Embedding(config.words, d, padding_idx=PAD)
        self.key = nn.Linear(d, d, bias=False)
        # Hop t has the question and t sentences; its query concerns words, and distances to the question and to each pick.
        self.ask_words = nn.ModuleList(nn.Linear((t + 1) * d, d) for t in range(config.hops))
        self.ask_times = nn.ModuleList(_time_query((t + 1) * d, n, (t + 1) * TIMES) for t in range(config.hops))
        self.expect = nn.ModuleList(nn.Sequential(nn.Linear((t + 1) * d, n), nn.Tanh(), nn.Linear(n, 1)) for t in range(config.hops))
        self.embedding = nn.Embedding(config.words, n, padding_idx=PAD)
        self.gru = nn.GRU(n, n, batch_first=True)
        self.answer = nn.Sequential(nn.Linear((config.hops + 1) * n, n), nn.ReLU(), nn.Linear(n, config.answers))
        nn.init.normal_(self.skimmed.weight, std=d**-0.5)

    def forward(self, stories: StoryBatch, *, draws: int = 1, generator: torch.Generator | None = None) -> Reading:
        """Answer the questions of `stories`; training with hard attention samples the picks `draws` times per story.

        generator: of the random numbers of sampling.
        """
        hard = self.config.attention == "hard"
        sampling = hard and self.training
        search = _Search(self, stories, draws=draws if sampling else 1, choice=Sample() if sampling else Argmax() if hard else Softmax())
        for hop in range(self.config.hops):
            search.hop(hop, generator)
        picks = torch.stack(search.picks, -1)  # (B, K, T)
        question = self.read(stories.questions).unsqueeze(1).expand(*picks.shape[:2], -1)
        read = [self.read_picked(stories.sentences, picks)] if hard else search.read
        total = (stories.sentences != PAD).sum((1, 2))
        return Reading(
            logits=self.answer(torch.cat([question, *read], -1)),
            picks=picks,
            age=stories.counts.view(-1, 1, 1) - picks,
            log_prob=torch.stack(search.log_probs, -1) if sampling else None,
            baseline=torch.stack(search.expected, -1) if sampling else None,
            read=_words_of(stories.sentences, picks[:, 0]) if hard else total,
            total=total,
        )

    def skim(self, ids: Tensor) -> Tensor:
        """Encode sentences (…, W) as bags of words weighted by position, (…, d) (Sukhbaatar et al. 2015, section 4.1)."""
        not_padding = (ids != PAD).unsqueeze(-1)
        W, d = ids.shape[-1], self.config.width
        word = torch.arange(1, W + 1, device=ids.device).unsqueeze(-1) / not_padding.sum(-2, keepdim=True).clamp(min=1)  # (…, W, 1)
        part = torch.arange(1, d + 1, device=ids.device) / d
        weight = (1 - word) - part * (1 - 2 * word)
        bag: Tensor = (self.skimmed(ids) * weight * not_padding).sum(-2)
        return bag

    def read(self, ids: Tensor) -> Tensor:
        """Encode sentences (…, W) word by word with the GRU: (…, n)."""
        flat = ids.flatten(0, -2)
        states: Tensor = self.gru(self.embedding(flat))[0]
        last = (flat != PAD).sum(-1).clamp(min=1) - 1
        return states[torch.arange(len(flat), device=ids.device), last].view(*ids.shape[:-1], -1)

    def read_picked(self, sentences: Tensor, picks: Tensor) -> Tensor:
        """Encode the picked sentences: (B, S, W) and picks (B, K, T) → (B, K, T·n). One picked by several samples is encoded once."""
        B, S, W = sentences.shape
        unique, inverse = torch.unique(picks + S * torch.arange(B, device=picks.device).view(B, 1, 1), return_inverse=True)
        return self.read(sentences.view(B * S, W)[unique])[inverse].flatten(-2)


class _Search:
    """The hops of one forward pass: the vectors each hop's query is computed from, and the results.

    known   vectors of the question and of each pick so far, each (B, K, d)
    times   their positions in the story, each (B, K); the question comes after the last sentence
    """

    def __init__(self, reader: Reader, stories: StoryBatch, *, draws: int, choice: Choice) -> None:
        self.reader, self.choice, self.mask = reader, choice, padding(stories.counts)
        B, S, _ = stories.sentences.shape
        sentences = reader.skim(stories.sentences)  # (B, S, d)
        self.position = torch.arange(S, dtype=sentences.dtype, device=sentences.device)
        self.key_input, values = sentences, [sentences, self.position.expand(B, S).unsqueeze(-1)]
        if isinstance(choice, Softmax):
            values.append(reader.read(stories.sentences))  # soft attention encodes every sentence: (B, S, n)
        self.value = torch.cat(values, -1)
        self.known = [reader.skim(stories.questions).unsqueeze(1).expand(B, draws, -1)]
        self.times = [stories.counts.to(sentences.dtype).view(B, 1).expand(B, draws)]
        self.picks: list[Tensor] = []  # each (B, K)
        self.log_probs: list[Tensor] = []  # each (B, K), of the sampled picks
        self.expected: list[Tensor] = []  # each (B, K), the expected reward before a pick
        self.read: list[Tensor] = []  # each (B, K, n), outputs of soft attention

    def hop(self, t: int, generator: torch.Generator | None) -> None:
        """Pick one sentence and append it to `known`."""
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
        """Compute the bias that positions add to the scores of sentences: (B, K, S)."""
        distance = self.position - torch.stack(self.times, -1).unsqueeze(-1)  # (B, K, t+1, S)
        query = self.reader.ask_times[t](state).unflatten(-1, (t + 1, TIMES))
        return torch.einsum("bktf,bktsf->bks", query, time_features(distance))


_SCORE = ScaledDot()


def _time_query(known: int, hidden: int, times: int) -> nn.Sequential:
    """Return the network of a hop's query for positions.

    Initialised so that a sentence is picked with probability proportional to 1/(1 + age), since later sentences overrule earlier ones.
    """
    last = nn.Linear(hidden, times)
    with torch.no_grad():
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        last.bias[1] = 1.0  # the log-distance to the question, the second of `time_features`
    return nn.Sequential(nn.Linear(known, hidden), nn.Tanh(), last)


def time_features(distance: Tensor) -> Tensor:
    """Compute features (…, TIMES) of signed distances in sentences (…): linear, logarithmic, direction, and nearness."""
    near = distance.abs()
    return torch.stack([distance / 10, distance.sign() * torch.log1p(near), torch.tanh(distance), (-near).exp()], -1)


def reader_loss(reading: Reading, answers: Tensor, *, curiosity: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return the loss for answers (B,), summed over the stories, and the reward (B, K), the probability of the right answer.

    The answer is learned by cross-entropy. The picks are learned by REINFORCE, with the reward less a learned baseline. `curiosity` is the
    weight of a KL penalty towards picks with probability proportional to 1/(1 + age): it keeps the picks varied, and prefers the later of
    two equally good sentences.
    """
    B, K = reading.logits.shape[:2]
    answer_loss = F.cross_entropy(reading.logits.flatten(0, 1), answers.repeat_interleave(K), reduction="none").view(B, K)
    loss = answer_loss.mean()
    reward = (-answer_loss).exp().detach()
    if reading.log_prob is not None and reading.baseline is not None:
        returns = reward - curiosity * (reading.log_prob.detach() + torch.log1p(reading.age)).sum(-1)
        for log_prob, baseline in zip(reading.log_prob.unbind(-1), reading.baseline.unbind(-1), strict=True):
            advantage = (returns - baseline).detach()
            others = (advantage.sum(-1, keepdim=True) - advantage) / max(K - 1, 1)  # mean advantage of the story's other samples
            loss = loss + reinforce(log_prob, returns, baseline + others) + F.mse_loss(baseline, returns)
    return loss * B, reward


def _words_of(sentences: Tensor, picks: Tensor) -> Tensor:
    """Count the words of the picked sentences (B, T), each sentence once: (B,)."""
    picked = torch.zeros(sentences.shape[:2], dtype=torch.bool, device=sentences.device).scatter(1, picks, True)
    return ((sentences != PAD).sum(-1) * picked).sum(-1)
