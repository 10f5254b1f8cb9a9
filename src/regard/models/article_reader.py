"""A reader of articles: it skims every sentence, picks a few by hard attention, and reads only those for the answer.

`Picker` scores each sentence from its skimmed features (`regard.text.skimming`); each of its heads has a hidden layer and a query of its
own. In training every head samples sentences (`regard.Sample`) and learns by REINFORCE; later the heads' scores are averaged and the
highest are picked. `LanguagePickers` is one picker for each language. `SpanReader` reads sentences unit by unit, together with the
question, and scores where an answer starts and ends.

Axes: B questions, S sentences, F features of a sentence, h heads, K samples, T picks; N passages (sentences to read), W units of a
passage, Q units of a question, d width, n state width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import attend, observe
from ..choices import Sample, reinforce
from ..masks import padding
from ..readings import TopK
from ..scores import Dot, ScaledDot

UNIT_FEATURES = 18  # numbers beside the id of each unit (`regard.text.passages`)
QUESTION_FEATURES = 2
CHINESE = 149  # the skimmed feature that is 1 in all sentences if the question is Chinese, and else 0
_PICKED = -1e4  # added to the score of a sentence that is picked already


@dataclass(frozen=True)
class ArticleReaderConfig:
    """Sizes of a reader: ids of units, skimmed features of a sentence, the picker's hidden layer and heads, the reader's widths.

    by_language: Chinese and English questions have a picker each.
    """

    units: int
    features: int
    hidden: int = 32
    heads: int = 4
    width: int = 48
    state: int = 64
    layers: int = 2
    dropout: float = 0.3
    by_language: bool = False

    def __post_init__(self) -> None:
        for name in ("units", "features", "hidden", "heads", "width", "state", "layers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 1 or more")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; expected a number in [0, 1)")
        if self.by_language and self.features <= CHINESE:
            raise ValueError(
                f"features is {self.features}; pickers by language need feature {CHINESE}, which says that a question is Chinese"
            )


@dataclass(frozen=True, eq=False)
class Passages:
    """Sentences to read, each with its question, padded with 0.

    questions (B, Q) ids, with question_features (B, Q, 2) and question_lengths (B,)
    units     (N, W) ids, with unit_features (N, W, 18) and lengths (N,); owner (N,), the question of each passage
    """

    questions: Tensor
    question_features: Tensor
    question_lengths: Tensor
    units: Tensor
    unit_features: Tensor
    lengths: Tensor
    owner: Tensor

    def to(self, device: torch.device) -> Passages:
        return Passages(*(getattr(self, field.name).to(device) for field in fields(self)))

    def rows(self, index: Tensor) -> Passages:
        """The passages of these indices, cut to the longest."""
        longest = int(self.lengths[index].max())
        return Passages(
            self.questions,
            self.question_features,
            self.question_lengths,
            self.units[index, :longest],
            self.unit_features[index, :longest],
            self.lengths[index],
            self.owner[index],
        )


class Picked(NamedTuple):
    """Sampled picks of a picker: found (h, B, K, T) whether the answer is among the first t picks, log_prob of each pick."""

    found: Tensor
    log_prob: Tensor


class SentencePicker(nn.Module, ABC):
    """What every picker does with the scores of its heads."""

    @abstractmethod
    def head_scores(self, features: Tensor) -> Tensor:
        """Return the scores of sentences by each head: (B, S, F) → (B, h, S); in training with dropout."""

    @abstractmethod
    def squares(self) -> Tensor:
        """Return the sum of the squares of the weights that are trained, a mean over heads (and pickers)."""

    @abstractmethod
    def normalise_by(self, features: Tensor) -> None:
        """Set the means and deviations by which features are normalised, from the features of many sentences (N, F)."""

    @abstractmethod
    def of(self, features: Tensor) -> Picker:
        """Return the picker of a question with these features (1, S, F)."""

    def scores(self, features: Tensor) -> Tensor:
        """Return the scores of sentences, averaged over the heads: (B, S, F) → (B, S)."""
        return self.head_scores(features).mean(1)

    def weights(self, features: Tensor, counts: Tensor) -> Tensor:
        """Return the attention weights of sentences (B, S) for articles of counts (B,) sentences."""
        visible = torch.arange(features.shape[1], device=features.device) < counts.unsqueeze(-1)
        return self.scores(features).masked_fill(~visible, -torch.inf).softmax(-1)

    def sample(self, scores: Tensor, counts: Tensor, right: Tensor, *, picks: int, samples: int) -> Picked:
        """Sample `picks` different sentences, one after the other, `samples` times per head, by scores (B, h, S) of `head_scores`.

        counts (B,), number of sentences; right (B, S), which of them hold the answer.
        """
        B, h, S = scores.shape
        keys, query = scores.unsqueeze(-1), scores.new_ones(B, h, samples, 1)  # all samples have the same scores: 1 · score
        taken = torch.zeros(B, h, samples, S, device=keys.device)
        values = right.to(keys.dtype).view(B, 1, S, 1).expand(B, h, S, 1)
        found, log_probs = [], []
        for _ in range(min(picks, S)):
            picked = observe(query, keys, values, score=_DOT, mask=padding(counts), bias=taken, choice=Sample())
            assert picked.index is not None and picked.log_prob is not None
            taken = taken.scatter(-1, picked.index.unsqueeze(-1), _PICKED)
            found.append(picked.output.squeeze(-1))
            log_probs.append(picked.log_prob)
        return Picked(torch.stack(found, -1).cummax(-1).values, torch.stack(log_probs, -1))

    def sample_independently(self, log_weights: Tensor, right: Tensor, *, samples: int) -> Picked:
        """Sample `samples` single sentences per head, independently of each other, by the log-weights (B, h, S) of the sentences.

        right (B, S), which of them hold the answer. Returns picks of T = 1. All samples have one distribution, so they are drawn together.
        """
        index = torch.multinomial(log_weights.detach().exp().flatten(0, 1), samples, replacement=True).view(*log_weights.shape[:2], samples)
        found = right.unsqueeze(1).expand(log_weights.shape).gather(-1, index).to(log_weights.dtype)
        return Picked(found.unsqueeze(-1), log_weights.gather(-1, index).unsqueeze(-1))


class Picker(SentencePicker):
    """Scores of sentences from skimmed features, by heads that each have a hidden layer and a query.

    >>> picker = Picker(features=5, hidden=4, heads=2).eval()
    >>> picker.weights(torch.randn(1, 3, 5), torch.tensor([2])).shape
    torch.Size([1, 3])
    """

    def __init__(self, features: int, hidden: int, heads: int, *, dropout: float = 0.2) -> None:
        super().__init__()
        self.dropout = dropout
        self.mean = nn.Parameter(torch.zeros(features), requires_grad=False)  # of the training data
        self.deviation = nn.Parameter(torch.ones(features), requires_grad=False)
        self.hidden = nn.Parameter(torch.randn(heads, features, hidden) * 0.7 * features**-0.5)
        self.offset = nn.Parameter(torch.zeros(heads, 1, hidden))
        query = torch.zeros(heads, 1, hidden + features)
        query[..., :hidden] = torch.randn(heads, 1, hidden) * 0.5 * hidden**-0.5
        self.query = nn.Parameter(query)

    def normalise_by(self, features: Tensor) -> None:
        self.mean.copy_(features.mean(0))
        self.deviation.copy_(features.std(0).clamp(min=0.05))

    def of(self, features: Tensor) -> Picker:
        return self

    def _normalised(self, features: Tensor) -> Tensor:
        return ((features - self.mean) / self.deviation).clamp(-4, 4)

    def _hidden(self, x: Tensor, kept: Tensor | float = 1.0) -> Tensor:
        """Return the hidden layers of the heads for normalised features: (B, S, F) → (B, S, h, hidden)."""
        weights = (self.hidden * kept).transpose(0, 1).flatten(1)  # (F, h · hidden)
        return F.gelu((x @ weights).unflatten(-1, (len(self.hidden), -1)) + self.offset.squeeze(1))

    def keys(self, features: Tensor) -> Tensor:
        """Return the key of each sentence for each head, without dropout: features (B, S, F) → (B, h, S, hidden + F)."""
        x = self._normalised(features)
        hidden = self._hidden(x).transpose(1, 2)
        return torch.cat([hidden, x.unsqueeze(1).expand(-1, hidden.shape[1], -1, -1)], -1)

    def head_scores(self, features: Tensor) -> Tensor:
        x, hidden_size = self._normalised(features), self.hidden.shape[-1]
        kept = torch.ones(len(self.hidden), features.shape[-1], 1, device=x.device)
        # A feature is left out for a whole batch, so that a head cannot rely on it; leaving out its weights is the same and cheaper.
        kept = F.dropout(kept, self.dropout / 2, self.training)
        hidden = F.dropout(self._hidden(x, kept), self.dropout, self.training)
        query = self.query.squeeze(1)  # (h, hidden + F)
        scores = (hidden * query[:, :hidden_size]).sum(-1) + x @ (query[:, hidden_size:] * kept.squeeze(-1)).T
        return scores.transpose(1, 2)

    def squares(self) -> Tensor:
        return (self.hidden.square().sum() + self.query.square().sum()) / len(self.hidden)


class LanguagePickers(SentencePicker):
    """A picker for Chinese questions and one for English questions, which learn nothing from each other.

    Which of them scores is said by the feature CHINESE.

    >>> pickers = LanguagePickers(features=CHINESE + 1, hidden=4, heads=2).eval()
    >>> pickers.of(torch.zeros(1, 3, CHINESE + 1)) is pickers.en
    True
    """

    def __init__(self, features: int, hidden: int, heads: int, *, dropout: float = 0.2) -> None:
        super().__init__()
        self.zh, self.en = (Picker(features, hidden, heads, dropout=dropout) for _ in range(2))

    def of(self, features: Tensor) -> Picker:
        return self.zh if features[0, 0, CHINESE] > 0.5 else self.en

    def head_scores(self, features: Tensor) -> Tensor:
        chinese = features[:, 0, CHINESE] > 0.5  # (B,)
        rows = [(picker, which.nonzero().squeeze(1)) for picker, which in ((self.zh, chinese), (self.en, ~chinese))]
        scores = torch.cat([picker.head_scores(features[index]) for picker, index in rows if len(index)])
        return scores[torch.cat([index for _, index in rows]).argsort()]

    def squares(self) -> Tensor:
        trained = [picker.squares() for picker in (self.zh, self.en) if picker.query.requires_grad]
        return torch.stack(trained).mean()

    def normalise_by(self, features: Tensor) -> None:
        chinese = features[:, CHINESE] > 0.5
        for picker, which in ((self.zh, chinese), (self.en, ~chinese)):
            if which.any():
                picker.normalise_by(features[which])


_DOT, _SCALED = Dot(), ScaledDot()


def reinforce_loss(picked: Picked) -> Tensor:
    """Return the REINFORCE loss of sampled picks, a mean over questions, samples and heads.

    After every pick there is a reward if the answer is in what was picked so far, so that finding it early earns more: with at most five
    picks in fixed shares, with more in proportion to 1, 1/2, 1/3 … The baseline is the mean reward of the question's other samples.
    """
    T, K = picked.found.shape[-1], picked.found.shape[-2]
    share = picked.found.new_tensor([0.4, 0.25, 0.15, 0.1, 0.1])[:T]
    if T > 5:
        share = 1 / torch.arange(1, T + 1, dtype=share.dtype, device=share.device)
        share = share / share.sum()
    returns = (picked.found * share).flip(-1).cumsum(-1).flip(-1)  # what is earned from this pick on
    others = (returns.sum(-2, keepdim=True) - returns) / max(K - 1, 1)
    return T * reinforce(picked.log_prob, returns, others)


def budget_loss(picked: Picked) -> Tensor:
    """Return the REINFORCE loss of K independent samples of one pick, for all reading budgets together: a mean over questions and heads.

    A budget of k is k independent picks, and its reward is 1 if the answer is in one of them. With weights 1/k the rewards of all budgets
    k = 1 … K − 1 have the gradient Σ (1 − p)^(k−1) ∇p, where p is the probability of a right pick; this tends to ∇ log p for many samples.
    So a question is learned from as much as any other, however rarely its answer is found, as long as it is found at all.
    Dividing the rewards of single picks by their mean estimates this gradient without bias: of samples among which c are right, the right
    ones have the advantage K/c − 1 and the others −1, and those of a question without a right sample have 0.
    """
    share = picked.found.mean(-2, keepdim=True).expand_as(picked.found)
    reward = torch.where(share > 0, picked.found / share.clamp(min=1e-9), 1.0)
    return reinforce(picked.log_prob, reward, 1.0)


class SpanReader(nn.Module):
    """Scores of where an answer starts and ends in passages.

    Units look at the question by attention (their embeddings first, their states after each layer); layers are GRUs in both directions.
    Chen et al. 2017, section 3.2 (arXiv:1704.00051), with attention after each layer.
    """

    def __init__(self, config: ArticleReaderConfig) -> None:
        super().__init__()
        d, n = config.width, config.state
        self.dropout = config.dropout
        self.embedding = nn.Embedding(config.units, d, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.align = nn.Linear(d, d)
        self.question = _TwoWay(d + QUESTION_FEATURES, n)
        self.summary = nn.Parameter(torch.zeros(2, 2 * n))  # queries that summarise the question for the start and the end
        self.layers = nn.ModuleList(_TwoWay(3 * d + UNIT_FEATURES if i == 0 else 4 * n, n) for i in range(config.layers))
        self.ask = nn.Linear(2 * n, 2 * n, bias=False)
        self.mix = nn.Linear(2 * n * config.layers, 2 * n)
        self.start, self.end = nn.Linear(2 * n, 2 * n), nn.Linear(2 * n, 2 * n)
        self.bias = nn.Linear(2 * n, 2)

    def forward(self, passages: Passages) -> Tensor:
        """Return the scores of start and end, (2, N, W); −10⁹ for padding."""
        owner, asked = passages.owner, padding(passages.question_lengths[passages.owner])
        question, units = self._drop(self.embedding(passages.questions)), self._drop(self.embedding(passages.units))
        aligned = attend(F.relu(self.align(units)), F.relu(self.align(question))[owner], question[owner], score=_DOT, mask=asked)
        states = torch.cat([units, aligned, units * aligned, passages.unit_features], -1)
        question = torch.cat([question, passages.question_features], -1)
        question = self._drop(self.question(question, passages.question_lengths))  # (B, Q, 2n)
        outputs = []
        for layer in self.layers:
            outputs.append(self._drop(layer(states, passages.lengths)))
            looked = attend(self.ask(outputs[-1]), question[owner], question[owner], score=_SCALED, mask=asked)
            states = torch.cat([outputs[-1], looked], -1)
        final = F.relu(self.mix(torch.cat(outputs, -1))) + outputs[-1]  # (N, W, 2n)
        query = self.summary.expand(len(question), -1, -1)
        summary = attend(query, question, question, score=_DOT, mask=padding(passages.question_lengths))[owner]  # (N, 2, 2n)
        wanted = torch.stack([self.start(summary[:, 0]), self.end(summary[:, 1])], 1) / 4
        scores: Tensor = torch.einsum("nwd,nsd->snw", final, wanted) + self.bias(final).permute(2, 0, 1)
        visible = torch.arange(final.shape[1], device=final.device) < passages.lengths.unsqueeze(-1)
        return scores.masked_fill(~visible, -1e9)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class _TwoWay(nn.Module):
    """A GRU from left to right and one from right to left over padded sequences: (N, W, in) → (N, W, 2n).

    The second reads each sequence reversed by its own length, so that padding comes last for both and changes nothing.
    """

    def __init__(self, inputs: int, state: int) -> None:
        super().__init__()
        self.forwards, self.backwards = (nn.GRU(inputs, state, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        place = torch.arange(x.shape[1], device=x.device)
        last = lengths.unsqueeze(-1) - 1
        reverse = torch.where(place <= last, last - place, place).unsqueeze(-1)
        backwards = self.backwards(x.gather(1, reverse.expand(-1, -1, x.shape[2])))[0]
        forwards: Tensor = self.forwards(x)[0]
        return torch.cat([forwards, backwards.gather(1, reverse.expand(-1, -1, backwards.shape[2]))], -1)


@dataclass(frozen=True, eq=False)
class ArticleInputs:
    """One question about one article: skimmed features (1, S, F), and all sentences as passages."""

    skimmed: Tensor
    passages: Passages


class ArticleReaderModel(nn.Module):
    """A picker and a span reader; `prior` is how much a sentence's log-weight counts beside the scores of the spans in it.

    >>> model = ArticleReaderModel(ArticleReaderConfig(units=10, features=5))
    >>> sum(p.numel() for p in model.picker.parameters())
    926
    """

    def __init__(self, config: ArticleReaderConfig) -> None:
        super().__init__()
        self.config = config
        kind = LanguagePickers if config.by_language else Picker
        self.picker: SentencePicker = kind(config.features, config.hidden, config.heads)
        self.reader = SpanReader(config)
        self.prior = nn.Parameter(torch.tensor(1.0))

    def take_span_reader(self, other: ArticleReaderModel) -> None:
        """Copy the span reader of another model of the same sizes."""
        ours, theirs = ((c.units, c.width, c.state, c.layers) for c in (self.config, other.config))
        if ours != theirs:
            raise ValueError(
                f"the span reader has units, width, state and layers {theirs}, this model {ours}; set [model] to the same sizes"
            )
        self.reader.load_state_dict(other.reader.state_dict())
        self.prior.data.copy_(other.prior.data)

    def keep_picker(self, language: str, other: ArticleReaderModel | None) -> None:
        """Copy the picker of a language ("zh", "en") from another model and do not train it.

        If the other model has no pickers by language, all sentences get the same weight.
        """
        ours = self.picker.get_submodule(language).requires_grad_(False)
        if other is None or not isinstance(other.picker, LanguagePickers):
            nn.init.zeros_(ours.get_parameter("query"))
            return
        theirs = other.picker.get_submodule(language).state_dict()
        for name, weight in ours.state_dict().items():
            if weight.shape != theirs[name].shape:
                raise ValueError(
                    f"{name} of the picker for {language!r} is {tuple(theirs[name].shape)} in the other model, {tuple(weight.shape)} in "
                    "this one; set hidden and heads to the same"
                )
        ours.load_state_dict(theirs)

    def forward(self, inputs: ArticleInputs, picks: int = 2) -> Tensor:
        """Pick sentences and read them: scores of start and end (2, picks, W) of the picked sentences, the best first."""
        # The heads' queries and keys side by side are one query and one key: their product is the sum of the heads' scores.
        picker = self.picker.of(inputs.skimmed)
        keys = picker.keys(inputs.skimmed).transpose(1, 2).flatten(2)  # (1, S, h·(hidden + F))
        query = picker.query.transpose(0, 1).flatten(1).unsqueeze(0) / len(picker.query)
        values = torch.arange(keys.shape[1], dtype=keys.dtype, device=keys.device).view(1, -1, 1)
        top = observe(query, keys, values, score=_DOT, readings=[TopK(min(picks, keys.shape[1]))]).readings["top"]
        scores: Tensor = self.reader(inputs.passages.rows(top.keys.flatten()))
        return scores
