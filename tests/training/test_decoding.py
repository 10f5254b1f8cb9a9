"""Decoding against exhaustive search, on a model small enough to enumerate."""

import itertools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from regard.models.seq2seq import Bahdanau
from regard.models.translator import Step
from regard.text import BOS, EOS, MASK, PAD, UNK
from regard.training.decoding import beam, greedy, sample


@dataclass(frozen=True)
class Prefix:
    tokens: Tensor  # (B, T)
    row: Tensor  # (B,)

    def select(self, index: Tensor) -> "Prefix":
        return Prefix(self.tokens[index], self.row[index])


class Table:
    """A "translator" whose next-word logits are a hash of (sentence, whole prefix): nothing can be guessed from the last word."""

    def __init__(self, words: int = 9, seed: int = 0) -> None:
        self.words, self.seed = words, seed

    def encode(self, source: Tensor, lengths: Tensor) -> Tensor:
        return source[:, 0]

    def start(self, memory: Tensor) -> Prefix:
        return Prefix(torch.zeros(len(memory), 0, dtype=torch.int64), memory)

    def logits(self, row: int, prefix: list[int]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, row, *prefix)) % 2**40)
        return 2.0 * torch.randn(self.words, generator=generator)

    def step(self, state: Prefix, token: Tensor, *, align: bool = True) -> Step:
        tokens = torch.cat([state.tokens, token[:, None]], dim=1)
        logits = torch.stack([self.logits(int(r), p) for r, p in zip(state.row, tokens.tolist(), strict=True)])
        looked = torch.nn.functional.one_hot(torch.full((len(token),), tokens.shape[1] - 1) % 4, 4).float()
        return Step(logits, Prefix(tokens, state.row), looked)

    def score(self, row: int, words: list[int]) -> float:
        total, prefix = 0.0, [BOS]
        for word in [*words, EOS]:
            logits = self.logits(row, prefix)
            logits[[PAD, BOS, UNK, MASK]] = -torch.inf
            total += float(logits.log_softmax(-1)[word])
            prefix.append(word)
        return total

    def all_targets(self, longest: int) -> list[list[int]]:
        letters = [w for w in range(self.words) if w not in (PAD, BOS, EOS, UNK, MASK)]
        return [list(words) for n in range(longest) for words in itertools.product(letters, repeat=n)]


SOURCE, LENGTHS = torch.tensor([[3, 0, 0, 0], [7, 1, 1, 1], [9, 2, 2, 0]]), torch.tensor([1, 4, 3])


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_a_wide_beam_finds_the_best_of_all_targets(penalty):
    model = Table()
    result = beam(model, SOURCE, LENGTHS, width=80, n_best=3, length_penalty=penalty, max_length=4)
    for row, hypotheses in zip((3, 7, 9), result, strict=True):
        scored = sorted(((model.score(row, t) / ((5 + len(t) + 1) / 6) ** penalty, t) for t in model.all_targets(4)), reverse=True)
        assert [h.tokens for h in hypotheses] == [t for _, t in scored[:3]]
        assert [h.score for h in hypotheses] == pytest.approx([s for s, _ in scored[:3]], abs=1e-5)
        assert hypotheses[0].log_prob == pytest.approx(model.score(row, hypotheses[0].tokens), abs=1e-5)


def test_a_beam_of_one_is_greedy_and_a_wider_one_is_never_worse():
    for seed in range(5):
        model = Table(seed=seed)
        plain = greedy(model, SOURCE, LENGTHS, max_length=6)
        one = beam(model, SOURCE, LENGTHS, width=1, length_penalty=0.0, max_length=6)
        best = beam(model, SOURCE, LENGTHS, width=256, length_penalty=0.0, max_length=6)
        for g, o, b in zip(plain, one, best, strict=True):
            if len(g.tokens) < 6:  # the beam must end by itself at the last step, greedy decoding is cut
                assert g.tokens == o[0].tokens
                assert g.log_prob == pytest.approx(o[0].log_prob, abs=1e-5)
            assert b[0].log_prob >= o[0].log_prob - 1e-5


def test_sentences_do_not_disturb_each_other():
    model = Table()
    together = beam(model, SOURCE, LENGTHS, width=3, n_best=2, max_length=8)
    for i in range(3):
        alone = beam(model, SOURCE[i : i + 1], LENGTHS[i : i + 1], width=3, n_best=2, max_length=8)
        assert [h.tokens for h in alone[0]] == [h.tokens for h in together[i]]


def test_alignments_follow_their_hypothesis_and_are_cut_to_the_source():
    result = beam(Table(), SOURCE, LENGTHS, width=4, n_best=2, max_length=6, align=True)
    for hypotheses, length in zip(result, LENGTHS.tolist(), strict=True):
        for h in hypotheses:
            wanted = torch.nn.functional.one_hot(torch.arange(len(h.tokens)) % 4, 4).float()[:, :length]
            assert torch.equal(h.alignment, wanted)
    for h, length in zip(greedy(Table(), SOURCE, LENGTHS, max_length=6, align=True), LENGTHS.tolist(), strict=True):
        assert h.alignment.shape == (len(h.tokens), length)
    assert greedy(Table(), SOURCE, LENGTHS, max_length=6)[0].alignment is None


@torch.no_grad()
def test_a_real_model_aligns_in_the_beam_as_when_it_is_forced():
    torch.manual_seed(0)
    model = Bahdanau(12, 12, embedding=6, state=10, alignment=4).eval()
    source, lengths = torch.tensor([[5, 6, 7, 8], [9, 5, PAD, PAD]]), torch.tensor([4, 2])
    for i, hypotheses in enumerate(beam(model, source, lengths, width=4, n_best=4, max_length=7, align=True)):
        for h in hypotheses:
            state = model.start(model.encode(source[i : i + 1], lengths[i : i + 1]))
            total = 0.0
            for j, (previous, word) in enumerate(zip([BOS, *h.tokens], [*h.tokens, EOS], strict=True)):
                step = model.step(state, torch.tensor([previous]))
                logits = step.logits.clone()
                logits[:, [PAD, BOS, UNK, MASK]] = -torch.inf
                total += float(logits.log_softmax(-1)[0, word])
                if word != EOS:
                    torch.testing.assert_close(h.alignment[j], step.alignment[0, : lengths[i]])
                state = step.state
            assert total == pytest.approx(h.log_prob, abs=1e-4)


def test_samples_follow_the_models_distribution_and_the_seed():
    model = Table(words=7)
    many = sample(model, SOURCE[:1].expand(4000, -1), LENGTHS[:1].expand(4000), max_length=1, generator=torch.Generator().manual_seed(0))
    logits = model.logits(3, [BOS])
    logits[[PAD, BOS, UNK, MASK]] = -torch.inf
    p = logits.softmax(-1)
    for word in (5, 6):
        share = sum(h.tokens == [word] for h in many) / 4000
        assert share == pytest.approx(float(p[word]), abs=4 * float((p[word] * (1 - p[word]) / 4000).sqrt()) + 1e-9)
    assert sum(h.tokens == [] for h in many) / 4000 == pytest.approx(float(p[EOS]), abs=0.04)
    again = [sample(model, SOURCE, LENGTHS, max_length=5, generator=torch.Generator().manual_seed(3)) for _ in range(2)]
    assert [h.tokens for h in again[0]] == [h.tokens for h in again[1]]


def test_n_best_wider_than_the_beam_is_refused():
    with pytest.raises(ValueError, match="n_best is 3 and width 2"):
        beam(Table(), SOURCE, LENGTHS, width=2, n_best=3)


def test_hoping_for_less_stops_sooner_and_finds_the_same():
    torch.manual_seed(0)
    model = Bahdanau(20, 30, embedding=8, state=16).eval()
    steps = []
    step = model.step
    model.step = lambda *given, **options: steps.append(1) or step(*given, **options)
    source, lengths = torch.randint(5, 20, (1, 6)), torch.tensor([6])
    with torch.no_grad():
        model.readout.logits.bias[EOS] = 1.0  # ends are likely, so that some target is finished early
    results = {}
    for expected in (None, [9]):
        steps.clear()
        best = beam(model, source, lengths, width=4, max_length=80, expected_lengths=expected)[0][0]
        results[expected is None] = (best.tokens, len(steps))
    assert results[True][0] == results[False][0]
    assert results[False][1] < results[True][1]
