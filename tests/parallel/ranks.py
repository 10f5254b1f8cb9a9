"""Start ranks for a test: each runs a file, says what it found as JSON, and is ended at the latest when its time is over."""

import contextlib
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def run_ranks(file: str, ranks: int, *arguments: str, timeout: float = 120.0, expect: int | None = 0) -> list[subprocess.CompletedProcess]:
    """Run tests/parallel/FILE on each of so many ranks; what each wrote to stdout and stderr."""
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", str(HERE / file), *arguments],
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(ranks),
                    "LOCAL_WORLD_SIZE": str(ranks),
                    "RING_STORE": f"{folder}/store",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        done = []
        try:
            for process in started:
                out, err = process.communicate(timeout=timeout)
                done.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
        finally:
            for process in started:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait()
    wrong = [rank for rank, process in enumerate(done) if expect is not None and process.returncode != expect]
    told = "\n".join(f"rank {rank} ended with {done[rank].returncode}:\n{done[rank].stderr[-1500:]}" for rank in wrong)
    assert not wrong, told
    return done


def join() -> tuple[int, int]:
    """In a rank: meet the others. (rank, ranks)."""
    import torch.distributed as dist

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = f"file://{os.environ['RING_STORE']}"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=100))
    return rank, ranks


def say(found: object) -> None:
    json.dump(found, sys.stdout)
    sys.stdout.flush()
