"""Twenty kills of trainings, two at once in a folder, within checkpoints, a full disk in between: what is left resumes, bit-identical."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
import torch

from regard.training.loop import checkpoints
from regard.training.loop.log import read_log

if not hasattr(signal, "SIGKILL"):
    pytest.skip("processes are killed; run on Linux or macOS", allow_module_level=True)

KILLS = int(os.environ.get("REGARD_KILLS", "20"))
FULL = KILLS // 4  # in every fifth round the disk is full instead
CONFIG = """
out = "run"
[data]
train = "text.txt"
valid = "text.txt"
[vocabulary]
kind = "char"
[model]
d_model = 32
heads = 2
layers = 1
context = 16
dropout = 0.1
[training]
steps = 300
rate = 3e-3
evaluate_every = 50
checkpoint_every = 3
log_every = 5
keep = 3
"""
# Says when a checkpoint is being written, so that it can be killed within one; waits at each step, so that there is time.
CHILD = """
import sys, time
from regard.training.loop import checkpoints
from regard.training.runs import train
write = checkpoints.write
def slowly(path, tensors, state):
    print("writing", flush=True)
    write(path, tensors, state)
checkpoints.write = slowly
train("lm", "lm.toml", watch=lambda progress: (print(progress.step, flush=True), time.sleep(0.002)))
"""


def start(folder: Path, *, largest_file: int | None = None) -> subprocess.Popen[str]:
    def limit() -> None:
        if largest_file is not None:  # writes beyond it fail, as on a full disk
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-c", CHILD]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=limit
    )


def make(folder: Path) -> Path:
    folder.mkdir()
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 40)
    (folder / "lm.toml").write_text(CONFIG)
    return folder


def finish(folder: Path) -> None:
    child = start(folder)
    _, err = child.communicate(timeout=600)
    assert child.returncode == 0, err


def _refused(children: list[subprocess.Popen[str]]) -> int:
    """How many of two trainings were refused because the other one holds the folder: waits until one has ended."""
    deadline = time.monotonic() + 600
    while len(children) > 1 and all(child.poll() is None for child in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    errors = [child.communicate()[1] for child in children if child.poll() is not None]
    assert all("FolderInUse" in error or "the file was not written" in error for error in errors), errors
    return sum("FolderInUse" in error for error in errors)


def _wait_for_a_checkpoint(child: subprocess.Popen[str], dice: Random) -> None:
    """Wait until a checkpoint is being written, a few steps on, and a moment more."""
    assert child.stdout is not None
    for number, line in enumerate(child.stdout):
        if line == "writing\n" and number > dice.randrange(20):
            time.sleep(dice.random() * 0.003)
            return


@pytest.mark.slow
def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    whole = make(tmp_path / "whole")
    finish(whole)
    folder, dice = make(tmp_path / "killed"), Random(int(os.environ.get("REGARD_KILL_SEED", "0")))
    refused = full = kills = 0
    for turn in range(KILLS + FULL):
        is_full = turn % 5 == 4
        children = [start(folder, largest_file=20_000 if is_full else None) for _ in range(1 + turn % 2)]
        refused += _refused(children)
        for child in [child for child in children if child.poll() is None]:
            if is_full:
                assert "the file was not written" in child.communicate(timeout=600)[1]
                full += 1
            else:
                _wait_for_a_checkpoint(child, dice)
                kills += child.poll() is None
                child.kill()
                child.communicate()
        steps = checkpoints.steps_in(folder / "run" / "checkpoints")
        assert all(checkpoints.read(folder / "run" / "checkpoints" / checkpoints.name_of(step)) for step in steps)
    print(f"{kills} kills, {refused} refused a folder in use, {full} full disks, then at step {steps[-1]}")
    assert kills >= KILLS * 0.9
    assert refused >= (KILLS + FULL) // 3
    assert full >= FULL * 0.6
    finish(folder)
    a, b = whole / "run", folder / "run"
    logs = [[{k: v for k, v in row.items() if k != "time"} for row in read_log(run / "log.jsonl")] for run in (a, b)]
    assert logs[0] == logs[1]
    names = ["best.safetensors", *(f"checkpoints/{checkpoints.name_of(step)}" for step in checkpoints.steps_in(a / "checkpoints"))]
    for name in names:
        (first, _), (second, _) = checkpoints.read(a / name), checkpoints.read(b / name)
        assert first.keys() == second.keys()
        assert [key for key in first if not torch.equal(first[key], second[key])] == [], name
