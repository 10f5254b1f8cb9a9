"""The reader: what it picks and reads, that its gradient is REINFORCE's, and that it learns which sentences matter from answers alone."""

import random
import re

import pytest
import torch
from torch.nn import functional as F

from regard.models.reader import Reader, ReaderConfig, StoryBatch, reader_loss
from regard.text.stories import DROPS, tell_stories
from regard.training.runs import train
from regard.training.tasks.reader import StoryReader


def small(hops=1, **options):
    torch.manual_seed(0)
    return Reader(ReaderConfig(words=20, answers=4, hops=hops, width=8, state=8, **options))


def some_page():
    return StoryBatch.of([[[1, 2], [3], [4, 5, 6]], [[7, 8], [9]]], [[3], [7, 9]])


def test_hard_attention_reads_only_what_it_picks():
    reader, page = small(hops=2).eval(), some_page()
    reading = reader(page)
    assert reading.picks.shape == (2, 1, 2)
    assert (reading.picks[1] < 2).all()  # never the padding
    assert reading.total.tolist() == [6, 3]
    for b, words in enumerate([[2, 1, 3], [2, 1]]):
        assert reading.read[b] == sum(words[n] for n in set(reading.picks[b, 0].tolist()))
    picked = set(reading.picks[0, 0].tolist())
    for n, words in enumerate([[1, 2], [3], [4, 5, 6]]):
        blind = small(hops=2).eval()
        with torch.no_grad():
            blind.embedding.weight[words] += 1.0  # what these words mean when read; the skim has its own
            blind.embedding.weight[3] = reader.embedding.weight[3]  # the question is always read
        same = torch.equal(blind(page).logits[0], reading.logits[0])
        assert same == (n not in picked or words == [3])


def test_soft_attention_reads_everything_and_has_a_gradient_to_every_part():
    reader, page = small(hops=2, attention="soft"), some_page()
    reading = reader(page)
    assert reading.log_prob is None
    assert torch.equal(reading.read, reading.total)
    loss, _ = reader_loss(reading, torch.tensor([0, 1]))
    loss.backward()
    for name, parameter in reader.named_parameters():
        if not name.startswith("expect"):
            assert parameter.grad is not None, name
    assert reader.ask_words[0].weight.grad.abs().max() > 0


def test_padding_changes_nothing():
    reader = small(hops=2).eval()
    alone = reader(StoryBatch.of([[[7, 8], [9]]], [[7, 9]]))
    beside = reader(some_page())
    assert torch.equal(alone.picks[0], beside.picks[1])
    torch.testing.assert_close(alone.logits[0], beside.logits[1])


def test_draws_follow_the_seed_and_the_mode():
    reader, page = small(hops=2), some_page()
    one, same, other = (reader(page, draws=50, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.picks, same.picks)
    assert not torch.equal(one.picks, other.picks)
    assert one.log_prob.shape == one.baseline.shape == (2, 50, 2)
    assert reader.eval()(page, draws=50).picks.shape == (2, 1, 2)  # in use one reading is enough: the likeliest


def test_the_gradient_of_the_picks_is_that_of_the_expected_reward():
    """With few sentences the expectation over both picks can be written out; many draws of REINFORCE come to the same."""
    reader = small(hops=1)
    page, answer = StoryBatch.of([[[1, 2], [3], [4, 5, 6]]], [[3]]), torch.tensor([2])
    weight = reader.ask_words[0].weight
    reading = reader(page, draws=3)
    # The exact gradient: Σ_n R(n) ∇ p(n), R from reading each sentence.
    one_each = torch.arange(3).view(1, 3, 1)
    asked = reader.read(page.questions).unsqueeze(1).expand(1, 3, -1)
    logits = reader.answer(torch.cat([asked, reader.read_picked(page.sentences, one_each)], -1))
    reward = logits.log_softmax(-1)[0, :, 2].exp().detach()
    log_p = {}
    while len(log_p) < 3:
        reading = reader(page, draws=16)
        for k in range(16):
            log_p.setdefault(int(reading.picks[0, k, 0]), reading.log_prob[0, k, 0])
    expected = sum(reward[n] * log_p[n].exp() for n in range(3))
    (exact,) = torch.autograd.grad(-expected, weight, retain_graph=True)
    loss, _ = reader_loss(reader(page, draws=40_000, generator=torch.Generator().manual_seed(0)), answer)
    (sampled,) = torch.autograd.grad(loss, weight)
    assert exact.abs().max() > 0
    assert F.cosine_similarity(exact.flatten(), sampled.flatten(), dim=0) > 0.99
    assert float(sampled.norm() / exact.norm()) == pytest.approx(1, abs=0.1)


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="expected 'hard' or 'soft'"):
        ReaderConfig(words=5, answers=2, attention="firm")
    with pytest.raises(ValueError, match="hops is 0; expected 1 or more"):
        ReaderConfig(words=5, answers=2, hops=0)
    with pytest.raises(ValueError, match="at least one sentence"):
        StoryBatch.of([[]], [[1]])


def undropped(story):
    """Where a thing is dropped as soon as it was taken, either sentence leads to the answer: answers alone cannot tell which is meant."""
    return not any(verb in sentence for verb in DROPS for sentence in story.sentences)


class Class:
    """Stories told by our own world, their words as ids, and a plain training loop."""

    def __init__(self, facts, sentences, count):
        self.facts = facts
        self.lesson, self.exam = (
            sorted(filter(undropped, tell_stories(n, facts=facts, sentences=sentences, seed=seed)), key=lambda s: len(s.sentences))
            for seed, n in ((1, count), (2, 500))
        )
        self.words = {
            word: i for i, word in enumerate(sorted({w for s in self.lesson for t in (*s.sentences, s.question) for w in self.split(t)}), 1)
        }
        self.answers = sorted({s.answer for s in self.lesson})

    def split(self, text):
        return re.findall(r"\w+", text.lower())

    def page(self, stories):
        ids = [[[self.words[w] for w in self.split(t)] for t in (*s.sentences, s.question)] for s in stories]
        return StoryBatch.of([story[:-1] for story in ids], [story[-1] for story in ids]), torch.tensor(
            [self.answers.index(s.answer) for s in stories]
        )

    def teach(self, reader, *, steps, rate, first=1.0, curiosity=0.05, batch=32, draws=32):
        """`first` is the share of the stories, shortest first, to begin with."""
        chance = random.Random(0)
        optimiser = torch.optim.Adam(reader.parameters(), lr=rate)
        for step in range(steps):
            done = step / steps
            optimiser.param_groups[0]["lr"] = rate * min(1, 2 - 2 * done)
            known = int(len(self.lesson) * min(1, first + 1.2 * done))
            page, answers = self.page([self.lesson[chance.randrange(known)] for _ in range(batch)])
            loss, _ = reader_loss(reader(page, draws=draws), answers, curiosity=curiosity * max(0, 1 - 1.5 * done))
            optimiser.zero_grad()
            (loss / batch).backward()
            torch.nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
            optimiser.step()

    @torch.no_grad()
    def examine(self, reader):
        """Shares of right picks, right answers, and words read."""
        page, answers = self.page(self.exam)
        reading = reader.eval()(page)
        picked = [set(picks) == set(s.supports) for s, picks in zip(self.exam, reading.picks[:, 0].tolist(), strict=True)]
        right = (reading.logits[:, 0].argmax(-1) == answers).float().mean()
        return sum(picked) / len(picked), float(right), float(reading.read.sum() / reading.total.sum())

    def reader(self, attention="hard"):
        torch.manual_seed(0)
        return Reader(ReaderConfig(len(self.words) + 1, len(self.answers), hops=self.facts, state=32, attention=attention))


def test_hard_attention_learns_to_pick_the_sentence_that_answers():
    course = Class(facts=1, sentences=(3, 9), count=2000)
    reader = course.reader()
    assert course.examine(reader)[0] < 0.6
    course.teach(reader.train(), steps=300, rate=1e-2, draws=16)
    picked, right, read = course.examine(reader)
    assert picked >= 0.95
    assert right >= 0.95
    assert read < 0.25


@pytest.mark.slow
def test_two_hops_learn_who_has_it_and_then_where_they_went():
    """No label says which sentence comes first: that the second pick needs the first is learned from right answers alone."""
    course = Class(facts=2, sentences=(3, 8), count=5000)
    reader = course.reader()
    course.teach(reader, steps=1200, rate=1e-2, first=0.2)
    picked, right, read = course.examine(reader)
    assert picked >= 0.95
    assert right >= 0.95
    assert read < 0.5


def test_soft_attention_learns_the_same_and_reads_everything():
    course = Class(facts=1, sentences=(3, 9), count=2000)
    reader = course.reader("soft")
    course.teach(reader, steps=300, rate=1e-2)
    picked, right, read = course.examine(reader)
    assert right >= 0.95
    assert picked >= 0.8
    assert read == 1


def write_babi(path, stories):
    lines = []
    for story in stories:
        lines += [f"{n} {sentence}" for n, sentence in enumerate(story.sentences, 1)]
        lines.append(f"{len(story.sentences) + 1} {story.question}\t{story.answer}\t{' '.join(str(n + 1) for n in story.supports)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


CONFIG = """
out = "{out}"
[data]
train = "stories.txt"
held_out = 100
first = 0.5
grow = 2
[model]
hops = {hops}
draws = 4
curious = 2
[training]
steps = {steps}
rate = 1e-2
evaluate_every = 20
checkpoint_every = 20
"""


@pytest.fixture
def folder(tmp_path):
    write_babi(tmp_path / "stories.txt", tell_stories(600, facts=1, sentences=(3, 6)))
    return tmp_path


def learn(folder, out, steps, hops=1):
    config = folder / f"{out}.toml"
    config.write_text(CONFIG.format(out=out, steps=steps, hops=hops))
    return train("reader", config)


def test_the_task_trains_resumes_and_opens(folder):
    learn(folder, "halves", 20)
    state, run = learn(folder, "halves", 40)
    whole, other = learn(folder, "whole", 40)
    assert state.step == whole.step == 40
    assert state.metrics == whole.metrics  # the draws, too, went on where they were
    assert {"loss", "answers", "picked", "saved"} == state.metrics.keys()
    ours, theirs = StoryReader.open(run), StoryReader.open(other)
    for (name, a), b in zip(ours.model.state_dict().items(), theirs.model.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_stories_grow_and_curiosity_fades_with_the_epochs(folder):
    learn(folder, "run", 1)
    from regard.training.config import read_config
    from regard.training.tasks.reader import ReaderTaskConfig, TrainableReader

    task = TrainableReader.build(read_config(folder / "run.toml", ReaderTaskConfig), folder, folder / "run")
    sizes = [sum(len(rows) for rows in task.batches(epoch).rows) for epoch in range(4)]
    assert sizes == [250, 354, 500, 500]
    assert [task.batches(epoch)[0].curiosity for epoch in range(3)] == pytest.approx([0.05, 0.025, 0])
    longest = [max(int(batch.stories.counts.max()) for batch in task.batches(epoch)) for epoch in (0, 2)]
    assert longest[0] < longest[1]
    assert task.batches(1).rows == task.batches(1).rows != task.batches(2).rows


def test_measures_and_pictures_are_those_of_the_answers(folder):
    _, run = learn(folder, "run", 20, hops=2)
    reader, stories = StoryReader.open(run), tell_stories(40, facts=1, sentences=(3, 6), seed=9)
    scores, answered = reader.measure(stories, batch=16), reader.answer(stories)
    assert scores["answers"] == sum(a.answer == s.answer for a, s in zip(answered, stories, strict=True)) / 40
    assert scores["saved"] == pytest.approx(1 - sum(a.read for a in answered) / sum(a.total for a in answered))
    lines = answered[0].picture().splitlines()
    assert len(lines) == len(stories[0].sentences) + 2
    for n, line in enumerate(lines[:-2]):
        assert line.startswith("   ·") == (n not in answered[0].picks)
    assert f"read {answered[0].read} of {answered[0].total} words" in lines[-1]


def test_too_many_held_out_is_refused(folder):
    config = folder / "bad.toml"
    config.write_text(CONFIG.format(out="bad", steps=1, hops=1).replace("held_out = 100", "held_out = 600"))
    with pytest.raises(ValueError, match="has 600 questions, but 600 are to be held out"):
        train("reader", config)
