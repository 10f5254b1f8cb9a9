"""Models trained for real, by the same function as `regard train`, must reach what they can reach."""

from pathlib import Path

import pytest
from pairs_of import articles, config, questions, reversal

from regard.text import read_pairs
from regard.training import metrics
from regard.training.runs import train
from regard.training.tasks.translation import Translations

SCHEDULE = 'schedule = "cosine"\nfloor = 0.02\nwarmup = 30\nevaluate_every = 1000\ncheckpoint_every = 1000\nmetric = "exact"\n'


def exact_by_length(folder: Path, kind: str, model: str) -> list[metrics.LengthRow]:
    """Train on reversal; greedy exact matches in four groups of source length."""
    reversal(folder, train=4000, valid=200, longest=14)
    path = config(folder, f"steps = 450\nrate = 4e-3\n{SCHEDULE}", kind=kind, model=model, batch_tokens=800)
    _, run = train("translation", path)
    pairs = read_pairs(folder / "valid.tsv")
    outputs = [results[0].text for results in Translations.open(run).candidates([p.source for p in pairs], width=1)]
    return metrics.by_length(outputs, [p.target for p in pairs], [len(p.source.split()) for p in pairs], rows=4)


def test_bahdanau_reverses_and_the_fixed_context_falls_behind_on_long_inputs(tmp_path, capsys):
    shape = "embedding = 32\nstate = 96\ndropout = 0.0\n"
    (tmp_path / "attention").mkdir()
    (tmp_path / "fixed").mkdir()
    attention = exact_by_length(tmp_path / "attention", "bahdanau", shape + "alignment = 48")
    fixed = exact_by_length(tmp_path / "fixed", "fixed", shape)
    with capsys.disabled():
        print("\nsource tokens   exact % with attention   with one fixed vector")
        for a, f in zip(attention, fixed, strict=True):
            print(f"{a.least:>6}–{a.most:<6} {a.exact:>18.1f} {f.exact:>23.1f}")
    sentences = sum(row.sentences for row in attention)
    assert sum(row.exact * row.sentences for row in attention) / sentences >= 95
    assert fixed[0].exact >= 75  # it has learnt the job: short inputs fit in its vector
    assert fixed[-1].exact <= 20  # long ones do not
    assert attention[-1].exact >= 90


@pytest.mark.parametrize(("make", "keys", "steps"), [(questions, ("question", "answer"), 400), (articles, ("article", "summary"), 350)])
def test_pairs_of_any_job_are_learnt(tmp_path, make, keys, steps):
    """Answering questions about a report, and summarising: the same model and command, another file of pairs."""
    make(tmp_path, train=3000, valid=100)
    shape = "embedding = 32\nstate = 64\nalignment = 32\ndropout = 0.0"
    path = config(tmp_path, f"steps = {steps}\nrate = 6e-3\n{SCHEDULE}", model=shape, batch_tokens=500)
    names = f'train = "train.jsonl"\nvalid = "valid.jsonl"\nkeys = {list(keys)}'.replace("'", '"')
    path.write_text(path.read_text().replace('train = "train.tsv"\nvalid = "valid.tsv"', names))
    state, run = train("translation", path)
    assert state.metrics["exact"] >= 90
    pair = read_pairs(tmp_path / "valid.jsonl", keys=keys)[0]
    assert Translations.open(run).candidates([pair.source])[0][0].text == pair.target
