"""A rank killed in the middle of training: torchrun starts the ranks again and they go on from the last checkpoint."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_training import log, write

from regard.training.loop import checkpoints
from regard.training.runs import train

STEPS = 60


def children(parent: int) -> dict[str, int]:
    """The processes torchrun started, by rank."""
    results = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent:
                environment = dict(line.split("=", 1) for line in (folder / "environ").read_text().split("\0") if "=" in line)
                if "RANK" in environment:
                    results[environment["RANK"]] = int(folder.name)
    return results


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the ranks in /proc; run it on Linux")
@pytest.mark.parametrize("options", [[], ["--context-parallel", "2"]], ids=["batches", "sequences"])
def test_a_killed_rank_is_started_again_and_training_goes_on(tmp_path, options):
    kinds = {"steps": STEPS, "positions": "learned"}
    config = write(tmp_path / "killed", "lm", accumulate=1, **kinds)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]
    run = config.parent / "run"
    with (tmp_path / "output.txt").open("w") as output:
        started = subprocess.Popen(
            [*launch, "-m", "regard", "train", "lm", str(config), "--quiet", *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            deadline = time.monotonic() + 300
            while not checkpoints.steps_in(run / "checkpoints"):
                assert started.poll() is None, (tmp_path / "output.txt").read_text()[-3000:]
                assert time.monotonic() < deadline, "no checkpoint in time"
                time.sleep(0.05)
            before = children(started.pid)
            assert checkpoints.steps_in(run / "checkpoints")[-1] < STEPS, "it was over before it could be killed"
            os.kill(before["1"], signal.SIGKILL)
            while (again := children(started.pid)).keys() != before.keys() or set(again.values()) & set(before.values()):
                assert started.poll() is None, (tmp_path / "output.txt").read_text()[-3000:]
                assert time.monotonic() < deadline, "the ranks were not started again"
                time.sleep(0.05)
            started.wait(timeout=300)
        finally:
            for process in children(started.pid).values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            started.kill()
            started.wait()
    told = (tmp_path / "output.txt").read_text()
    assert started.returncode == 0, told[-3000:]
    assert checkpoints.steps_in(run / "checkpoints")[-1] == STEPS
    train("lm", write(tmp_path / "whole", "lm", accumulate=1 if options else 2, **kinds))
    for a, b in zip(log(tmp_path / "whole" / "run"), log(run), strict=True):
        assert (a["event"], a["step"]) == (b["event"], b["step"])
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)
