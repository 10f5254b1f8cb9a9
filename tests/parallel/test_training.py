"""However a step is shared out (batches, sequences, weights), training is that of one process; a run goes on with other ranks."""

import json
import random
from pathlib import Path

import pytest
import torch
from ranks import run_ranks

from regard.training.loop import checkpoints
from regard.training.runs import train

STEPS = 6
LM = """
out = "run"
[data]
train = "t.txt"
batch = {batch}
[model]
d_model = 16
heads = 4
kv_heads = 2
layers = 2
context = 22
positions = "{positions}"
{model}
[training]
steps = {steps}
rate = 1e-2
accumulate = {accumulate}
evaluate_every = 6
checkpoint_every = 3
log_every = 1
"""
MLM = """
out = "run"
[data]
train = "t.txt"
valid = "t.txt"
batch_tokens = 150
[vocabulary]
kind = "char"
[model]
d_model = 16
heads = 4
layers = 1
context = 40
dropout = 0.0
positions = "{positions}"
[training]
steps = {steps}
rate = 1e-2
accumulate = {accumulate}
evaluate_every = 6
checkpoint_every = 3
log_every = 1
"""
# name: (task, options of the config, ranks that share a sequence, how weights are held); four ranks in all
JOBS = {
    "copies": ("lm", {"positions": "learned"}, 1, "ddp"),
    "parts of weights": ("lm", {"positions": "learned"}, 1, "fsdp"),
    "sequences over 4": ("lm", {"positions": "rotary"}, 4, "ddp"),
    "sequences over 2, in copies": ("lm", {"positions": "learned", "model": "window = 5"}, 2, "ddp"),
    "sequences over 2, in parts": ("lm", {"positions": "sinusoidal"}, 2, "fsdp"),
    "hidden tokens over 4": ("mlm", {"positions": "learned"}, 4, "ddp"),
    "hidden tokens over 2": ("mlm", {"positions": "rotary"}, 2, "ddp"),
}


QUICK = ["copies", "parts of weights", "sequences over 4", "hidden tokens over 2"]


def text() -> str:
    dice = random.Random(0)
    return "".join("".join(dice.choices("abcdef ", k=dice.randint(3, 30))) + "\n" for _ in range(120))


def write(folder: Path, task: str, *, accumulate: int, steps: int = STEPS, **options: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "t.txt").write_text(text())
    path = folder / "config.toml"
    settings = {"accumulate": accumulate, "steps": steps, "model": "", "batch": 2, **options}
    path.write_text((LM if task == "lm" else MLM).format(**settings))
    return path


def log(run: Path) -> list[dict]:
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in ("time", "samples", "crc32")} for row in rows]


def same(one: Path, other: Path, step: int = STEPS) -> None:
    """The same log to 1e-4, the same weights."""
    for a, b in zip(log(one), log(other), strict=True):
        assert (a["event"], a["step"]) == (b["event"], b["step"])
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4), (a, b)
        assert a.get("tokens") == b.get("tokens")
    first, second = (checkpoints.read(run / "checkpoints" / checkpoints.name_of(step))[0] for run in (one, other))
    assert first.keys() == second.keys()
    for name in first:
        if name.startswith("model."):
            torch.testing.assert_close(first[name], second[name], rtol=2e-3, atol=2e-4)


def train_all(folder: Path, names: list[str]) -> dict[str, tuple[Path, Path]]:
    """Jobs on four ranks, all in one start, and the same in this process: where both runs are."""
    jobs, runs = [], {}
    for name in names:
        task, options, ranks, held = JOBS[name]
        accumulate = 4 // ranks  # as many batches a step as the ranks read at once
        many, one = (folder / side / name.replace(" ", "-").replace(",", "") for side in ("many", "one"))
        jobs.append(f"{task}:{write(many, task, accumulate=1, **options)}:{ranks}:{held}")
        train(task, write(one, task, accumulate=accumulate, **options))
        runs[name] = (one / "run", many / "run")
    run_ranks("train_ranks.py", 4, *jobs, timeout=200)
    return runs


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_all(tmp_path_factory.mktemp("trained"), QUICK)


@pytest.mark.parametrize("name", QUICK)
def test_four_ranks_train_as_one_process(trained, name):
    same(*trained[name])


@pytest.mark.slow
def test_so_they_do_in_every_other_mixture(tmp_path):
    for runs in train_all(tmp_path, [name for name in JOBS if name not in QUICK]).values():
        same(*runs)


@pytest.mark.parametrize("name", ["parts of weights", "sequences over 4"])
def test_a_run_goes_on_with_another_number_of_ranks(trained, name, tmp_path):
    """Four ranks made the first steps; one process makes the rest, as one process does that made all."""
    task, options, ranks, _ = JOBS[name]
    accumulate = 4 // ranks
    for side, run in zip(("one", "many"), trained[name], strict=True):
        here = write(tmp_path / side, task, accumulate=accumulate, steps=STEPS + 4, **options)
        target = here.parent / "run"
        target.mkdir()
        for file in run.rglob("*"):
            if file.is_file():
                (target / file.relative_to(run)).parent.mkdir(parents=True, exist_ok=True)
                (target / file.relative_to(run)).write_bytes(file.read_bytes())
        train(task, here)
    same(tmp_path / "one" / "run", tmp_path / "many" / "run", STEPS + 4)
