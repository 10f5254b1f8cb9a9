"""Two processes that share a group of batches train as one process that adds them up."""

import subprocess
import sys

import pytest
import torch
from pairs_of import config, events, reversal

from regard.training.loop import checkpoints
from regard.training.runs import train


@pytest.mark.slow
def test_two_processes_train_like_one_with_twice_the_batches(tmp_path):
    made = []
    for name, accumulate in (("one", 2), ("two", 1)):
        folder = tmp_path / name
        folder.mkdir()
        reversal(folder, train=61, valid=6, longest=5)  # an odd number of batches: one process is left without at the end of an epoch
        settings = (
            f'steps = 12\nrate = 3e-3\naccumulate = {accumulate}\nevaluate_every = 4\ncheckpoint_every = 6\nmetric = "loss"\nlog_every = 3'
        )
        made.append(config(folder, settings, model="embedding = 8\nstate = 12\ndropout = 0.0", batch_tokens=30))
    train("translation", made[0])
    code = "import sys; from regard.training.runs import train; train('translation', sys.argv[1])"
    (tmp_path / "go.py").write_text(code)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, str(tmp_path / "go.py"), str(made[1])]
    done = subprocess.run(command, timeout=300, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (path.parent / "run" for path in made)
    for a, b in zip(events(one), events(two), strict=True):
        assert a["event"] == b["event"]
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)
    first, second = (checkpoints.read(run / "checkpoints" / checkpoints.name_of(12))[0] for run in (one, two))
    for name in first:
        if name.startswith("model."):
            torch.testing.assert_close(first[name], second[name], rtol=1e-3, atol=1e-4)
