"""A run that is killed, again and again, at moments nobody chose, ends as if nothing had happened."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
import torch
from pairs_of import config, events, reversal

from regard.training.loop import checkpoints
from regard.training.runs import train

SETTINGS = """
steps = 120
rate = 5e-3
warmup = 10
schedule = "cosine"
smoothing = 0.1
evaluate_every = 40
checkpoint_every = 11
log_every = 5
keep = 3
average = 2
accumulate = 2
metric = "bleu"
"""
MODEL = "embedding = 12\nstate = 16\nalignment = 8\ndropout = 0.2"
# Says each step, so that the killer knows training has begun; waits a little, so that there is time to be killed.
CHILD = """
import sys, time
from regard.training.runs import train
def watch(progress):
    print(progress.step, flush=True)
    time.sleep(0.004)
train("translation", sys.argv[1], watch=watch)
"""


def start(path: Path) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True, env=environment)


def make(folder: Path) -> Path:
    folder.mkdir()
    reversal(folder, train=150, valid=8, longest=6)
    return config(folder, SETTINGS, model=MODEL, batch_tokens=100)


def assert_same_run(a: Path, b: Path) -> None:
    assert events(a) == events(b)
    assert checkpoints.steps_in(a / "checkpoints") == checkpoints.steps_in(b / "checkpoints")
    for name in ["best.safetensors", *(f"checkpoints/{checkpoints.name_of(s)}" for s in checkpoints.steps_in(a / "checkpoints"))]:
        (first, _), (second, _) = checkpoints.read(a / name), checkpoints.read(b / name)
        assert first.keys() == second.keys()
        assert [k for k in first if not torch.equal(first[k], second[k])] == [], name


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    path = make(tmp_path_factory.mktemp("whole") / "a")
    child = start(path)
    child.communicate(timeout=300)
    assert child.returncode == 0
    return path.parent / "run"


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_bit_identical(tmp_path, uninterrupted):
    path, dice, kills = make(tmp_path / "b"), Random(os.environ.get("REGARD_KILL_SEED", "0")), 0
    for _ in range(3):
        child = start(path)
        child.stdout.readline()  # training has begun
        time.sleep(dice.random() * 0.5)
        child.send_signal(signal.SIGKILL)
        child.stdout.close()
        kills += child.wait() == -signal.SIGKILL
    assert kills >= 1
    child = start(path)
    child.communicate(timeout=300)
    assert child.returncode == 0
    assert_same_run(path.parent / "run", uninterrupted)


def test_a_polite_signal_saves_first_and_loses_nothing(tmp_path, uninterrupted):
    path = make(tmp_path / "c")
    child = start(path)
    last = 0
    while last < 20:
        last = int(child.stdout.readline())
    child.send_signal(signal.SIGTERM)
    last = max([last, *map(int, child.communicate(timeout=300)[0].split())])
    assert child.returncode == 0
    assert checkpoints.steps_in(path.parent / "run" / "checkpoints")[-1] == last
    child = start(path)
    steps = [int(line) for line in child.communicate(timeout=300)[0].split()]
    assert steps[0] == last + 1
    assert_same_run(path.parent / "run", uninterrupted)


def test_a_finished_run_is_not_run_again(uninterrupted):
    before = {p: p.read_bytes() for p in uninterrupted.rglob("*") if p.is_file()}
    state, folder = train("translation", uninterrupted.parent / "config.toml")
    assert state.finished
    assert state.step == 120
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
