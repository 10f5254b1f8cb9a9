"""Each task from its files to a model that is opened again, small enough for seconds."""

import json
import math
from pathlib import Path
from random import Random

import pytest
import torch
from pairs_of import config, events, reversal

from regard.models.bert import BertClassifier
from regard.readings import Entropy
from regard.text import MASK, Vocabulary
from regard.training.loop import checkpoints
from regard.training.runs import train
from regard.training.tasks.classify import Classifier
from regard.training.tasks.lm import Excerpts, LanguageModel, held_out_loss
from regard.training.tasks.mlm import TrainableMaskedModel
from regard.training.tasks.translation import Translations

TINY = "d_model = 24\nheads = 2\nlayers = 1\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


def test_a_language_model_learns_a_cycle_and_writes_it_on(tmp_path):
    (tmp_path / "t.txt").write_text("abcdefg\n" * 400)
    path = write(
        tmp_path,
        f'out = "run"\n[data]\ntrain = "t.txt"\nbatch = 8\n[model]\n{TINY}context = 16\n'
        "[training]\nsteps = 80\nrate = 1e-2\nwarmup = 10\nevaluate_every = 40\ncheckpoint_every = 40\n",
    )
    state, run = train("lm", path)
    assert state.metrics["loss"] < 0.15  # every next letter is certain; only the first of a window has no past
    assert LanguageModel.open(run).generate("abc", max_new=10, temperature=0) == "abcdefg\nabcde"
    assert LanguageModel.open(run).generate("abc", max_new=5, seed=1) == LanguageModel.open(run).generate("abc", max_new=5, seed=1)


def test_entropy_regularisation_spreads_the_attention(tmp_path):
    """The same training with a reward for entropy ends with attention spread further, and the loss that is reported stays the text's."""
    (tmp_path / "t.txt").write_text("abcdefg\n" * 400)
    entropies = []
    for reward in (0.0, 1.0):
        path = write(
            tmp_path,
            f'out = "run{reward}"\n[data]\ntrain = "t.txt"\nbatch = 8\n[model]\n{TINY}context = 16\n[regularisation]\nentropy = {reward}\n'
            "[training]\nsteps = 60\nrate = 1e-2\nwarmup = 10\nevaluate_every = 60\ncheckpoint_every = 60\n",
        )
        state, run = train("lm", path)
        assert state.metrics["loss"] > 0
        opened = LanguageModel.open(run)
        ids = torch.tensor([opened.encode("abcdefg\nabcdefg\n")])
        _, attended = opened.model.observe(ids, readings=[Entropy()])
        entropies.append(float(torch.stack([layer.readings["entropy"].mean() for layer in attended]).mean()))
    assert entropies[1] > entropies[0] + 0.1


def test_windows_are_a_function_of_seed_epoch_and_number():
    ids = torch.arange(1000)
    first = Excerpts(ids, batch=4, context=10, seed=0, epoch=3)
    assert len(first) == 25
    assert torch.equal(first[7], Excerpts(ids, batch=4, context=10, seed=0, epoch=3)[7])
    assert not torch.equal(first[7], first[8])
    assert not torch.equal(first[7], Excerpts(ids, batch=4, context=10, seed=0, epoch=4)[7])
    assert first[7].diff(dim=1).eq(1).all()
    assert first[7].shape == (4, 11)


def test_the_held_out_loss_counts_every_token_once():
    class Uniform(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = torch.nn.Parameter(torch.zeros(1))
            self.seen = 0

        def forward(self, ids):
            self.seen += ids.numel()
            return torch.zeros(*ids.shape, 5) + self.p

    for length in (12, 41, 50):
        model = Uniform()
        assert held_out_loss(model, torch.zeros(length, dtype=torch.int64), 10) == pytest.approx(math.log(5), rel=1e-5)
        assert model.seen == length - 1


MASKED = f"""
out = "run"
[data]
train = "t.txt"
valid = "v.txt"
batch_tokens = 400
[vocabulary]
kind = "word"
[model]
{TINY}context = 16
dropout = 0.0
"""


def masked_text(folder: Path) -> None:
    """Lines that say one word over and over: what stands around a gap tells what was in it."""
    dice = Random(0)
    words = [f"w{i}" for i in range(12)]
    for name, count in (("t.txt", 400), ("v.txt", 40)):
        rows = [" ".join([dice.choice(words)] * dice.randint(4, 9)) for _ in range(count)]
        (folder / name).write_text("\n".join(rows) + "\n")


def test_a_masked_model_fills_gaps_and_a_classifier_starts_from_it(tmp_path):
    masked_text(tmp_path)
    path = write(tmp_path, MASKED + '[training]\nsteps = 150\nrate = 3e-3\nwarmup = 20\nevaluate_every = 75\nmetric = "accuracy"\n')
    state, run = train("mlm", path)
    assert state.metrics["accuracy"] >= 90
    assert "<mask>" in [e for e in events(run) if e["event"] == "evaluation"][-1]["samples"]

    dice = Random(1)
    for name, count in (("t.tsv", 300), ("v.tsv", 40)):
        rows = [(dice.randrange(12), dice.randint(4, 9)) for _ in range(count)]
        lines = [" ".join([f"w{s}"] * n) + f"\t{'late' if s >= 6 else 'early'}" for s, n in rows]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    path = write(
        tmp_path,
        'out = "named"\nstart = "run"\n[data]\ntrain = "t.tsv"\nvalid = "v.tsv"\nbatch_tokens = 300\n'
        '[training]\nsteps = 60\nrate = 3e-3\nevaluate_every = 30\nmetric = "accuracy"\n',
    )
    state, named = train("classify", path)
    assert state.metrics["accuracy"] >= 95
    label, p = Classifier.open(named).classify(["w8 w8 w8 w8"])[0]
    assert label == "late"
    assert p > 0.5


def test_a_classifier_begins_with_the_masked_models_encoder(tmp_path):
    masked_text(tmp_path)
    (tmp_path / "t.tsv").write_text("w1 w2\tx\nw3 w4\ty\n")
    train("mlm", write(tmp_path, MASKED + "[training]\nsteps = 2\nevaluate_every = 2\n"))
    path = write(tmp_path, 'out = "named"\nstart = "run"\n[data]\ntrain = "t.tsv"\nvalid = "t.tsv"\n[training]\nsteps = 1\nrate = 0.0\n')
    train("classify", path)
    encoder, _ = checkpoints.read(tmp_path / "run" / "best.safetensors")
    model = Classifier.open(tmp_path / "named").model
    assert isinstance(model, BertClassifier)
    taken = {k: v for k, v in model.bert.state_dict().items() if k in encoder}
    assert len(taken) > 10
    assert all(torch.equal(taken[k], encoder[k]) for k in taken)


def test_what_is_hidden_is_a_function_of_seed_epoch_and_number(tmp_path):
    masked_text(tmp_path)
    (tmp_path / "run").mkdir()
    from regard.training.config import read_config
    from regard.training.tasks.mlm import MaskedConfig

    settings = read_config(write(tmp_path, MASKED + "[training]\nsteps = 1\n"), MaskedConfig)
    task = TrainableMaskedModel.build(settings, tmp_path, tmp_path / "run")
    a, b, c = task.batches(0)[2], task.batches(0)[2], task.batches(1)[2]
    assert torch.equal(a.ids, b.ids)
    assert torch.equal(a.targets, b.targets)
    assert a.ids.shape != c.ids.shape or not torch.equal(a.ids, c.ids)
    hidden = a.targets != -100
    assert 0 < hidden.float().mean() < 0.5
    assert (a.ids[~hidden] != MASK).all()


@pytest.mark.parametrize("kind", ["bahdanau", "fixed", "transformer"])
def test_every_translator_trains_and_opens_again(tmp_path, kind):
    reversal(tmp_path, train=60, valid=8, longest=5)
    shape = "d_model = 16\nheads = 2\nencoder_layers = 1\ndecoder_layers = 1" if kind == "transformer" else "embedding = 8\nstate = 12"
    path = config(tmp_path, "steps = 6\nevaluate_every = 3\ncheckpoint_every = 3\nsmoothing = 0.1", kind=kind, model=shape)
    path.write_text(path.read_text().replace('[target]\nkind = "word"', '[target]\nkind = "shared"'))
    state, run = train("translation", path)
    assert state.finished
    opened = Translations.open(run)
    result = opened.candidates(["a b c", "", "zzz"], n_best=2, align=True)
    assert [len(row) for row in result] == [2, 2, 2]
    if kind != "fixed":
        assert result[0][0].alignment.shape == (len(result[0][0].target_words), 3)
    assert len({id(v) for v in (opened.source.to_json(), opened.target.to_json())}) == 2
    assert opened.source.to_json() == opened.target.to_json()


@pytest.mark.parametrize("score", ["dot", "scaled-dot", "bilinear"])
def test_the_score_is_chosen_in_the_config(tmp_path, score):
    reversal(tmp_path, train=40, valid=4, longest=4)
    path = config(tmp_path, "steps = 2\nevaluate_every = 2", model=f'embedding = 8\nstate = 12\nscore = "{score}"\nquery = "current"')
    _, run = train("translation", path)
    kind = {"dot": "Dot", "scaled-dot": "ScaledDot", "bilinear": "Bilinear"}[score]
    assert type(Translations.open(run).model.score).__name__ == kind


def test_a_run_with_another_config_or_other_data_is_refused(tmp_path):
    reversal(tmp_path, train=40, valid=4, longest=4)
    shape = "embedding = 8\nstate = 12"
    train("translation", config(tmp_path, "steps = 2\nevaluate_every = 2", model=shape))
    with pytest.raises(ValueError, match=r"training.rate was 0.001, is 0.1"):
        train("translation", config(tmp_path, "steps = 2\nevaluate_every = 2\nrate = 0.1", model=shape))
    state, _ = train("translation", config(tmp_path, "steps = 4\nevaluate_every = 2", model=shape))  # more steps is the same run
    assert state.step == 4
    reversal(tmp_path, train=41, valid=4, longest=4)
    with pytest.raises(ValueError, match="other data"):
        train("translation", config(tmp_path, "steps = 4\nevaluate_every = 2", model=shape))


def test_a_training_can_begin_where_another_ended(tmp_path):
    reversal(tmp_path, train=60, valid=8, longest=5)
    settings = "steps = 12\nrate = 1e-2\nevaluate_every = 6"
    shape = "embedding = 8\nstate = 12"
    path = config(tmp_path, settings, model=shape)
    first, run = train("translation", path)
    reversal(tmp_path, train=30, valid=8, longest=3, letters="abcd", seed=1)  # other data, with fewer words
    again = path.read_text().replace('out = "run"', 'out = "again"\nstart = "run"').replace("steps = 12", "steps = 1\nwarmup = 1000")
    path.write_text(again)
    _, after = train("translation", path)
    assert (after / "source.vocabulary.json").read_text() == (run / "source.vocabulary.json").read_text()
    old, new = Translations.open(run).model.state_dict(), Translations.open(after).model.state_dict()
    assert first.finished
    assert max(float((old[name] - new[name]).abs().max()) for name in old) < 1e-3  # one small step away
    path.write_text(again.replace("state = 12", "state = 16").replace('out = "again"', 'out = "third"'))
    with pytest.raises(ValueError, match=r"start: .*run has another \[model\], \[source\] or \[target\]"):
        train("translation", path)


def test_missing_files_and_foreign_folders_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"train\.tsv: no such file; paths in a config are relative"):
        train("translation", config(tmp_path, "steps = 2"))
    with pytest.raises(ValueError, match=r"not a run \(it has no run\.json"):
        Translations.open(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"task": "lm", "config": {}}))
    with pytest.raises(ValueError, match="is a run of 'lm', not 'translation'"):
        Translations.open(tmp_path)


def test_a_vocabulary_learnt_once_is_kept(tmp_path):
    reversal(tmp_path, train=40, valid=4, longest=4)
    path = config(tmp_path, "steps = 2\nevaluate_every = 2", model="embedding = 8\nstate = 12")
    _, run = train("translation", path)
    words = Vocabulary.load(run / "source.vocabulary.json")
    assert len(words) == 5 + 8
