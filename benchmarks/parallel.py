"""Ring attention over 1, 2 and 4 ranks on this machine: memory a rank, time and bytes, measured and predicted.

    python benchmarks/parallel.py [--tokens 16384] [--points 10000000]

Every rank is a process of one thread on gloo. Memory is the process's own high-water mark above what it held before its inputs were made.
The prediction (`cost.count.ranks.ring_seconds`) is fed with two numbers measured beside it: what one block takes to compute while all
ranks compute, and what it takes to send while all ranks send.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from regard.cost.measure.peak import ALLOCATOR_SETTINGS

HEADS, WIDTH = 4, 64


def best(runs: dict[str, Callable[[], object]], rounds: int = 3) -> dict[str, float]:
    """The fewest seconds of each, all ranks beginning together; the runs take turns, so that a busy machine weighs on all alike."""
    import torch.distributed as dist

    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            dist.barrier()
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    return {name: min(found) for name, found in times.items()}


def ring(tokens: int) -> dict[str, float]:
    """One rank's numbers for causal attention, forward and backward."""
    import torch
    import torch.distributed as dist

    import regard
    from regard import parallel
    from regard.cost.count.ranks import ring_seconds
    from regard.cost.measure.peak import peak_bytes
    from regard.parallel.attention import make_ring, run
    from regard.parallel.exchange import Exchange

    rank, ranks = dist.get_rank(), dist.get_world_size()
    n = tokens // ranks

    def inputs() -> list[torch.Tensor]:
        return [torch.randn(1, HEADS, n, WIDTH, requires_grad=True) for _ in range(3)]

    def step(given: list[torch.Tensor]) -> None:
        parallel.attend(*given, mask=regard.causal()).sum().backward()
        for x in given:
            x.grad = None

    small = [torch.randn(1, HEADS, 64, WIDTH, requires_grad=True) for _ in range(3)]
    step(small)
    dist.barrier()
    memory = peak_bytes(lambda: step(inputs()))

    given = inputs()
    q, half = given[0], [x[:, :, : n // 2].detach().requires_grad_() for x in given[1:]]
    exchange = Exchange(None, 300.0)
    room, mine = [torch.empty(1, HEADS, n, WIDTH) for _ in range(2)], [x.detach() for x in given[1:]]

    def send() -> None:
        if ranks > 1:
            for posted in exchange.post((rank + 1) % ranks, mine, (rank - 1) % ranks, room):
                posted.wait()

    found = best(
        {
            "forward": lambda: regard.observe(q.detach(), *(x.detach() for x in half)),
            "both": lambda: regard.observe(q, *half).output.sum().backward(),
            "sending": send,
            "step": lambda: step(given),
        }
    )
    forward, sending, measured = found["forward"], found["sending"] if ranks > 1 else 0.0, found["step"]
    backward = found["both"] - forward
    predicted = ring_seconds(ranks, forward, sending)[0] + ring_seconds(ranks, backward, 2 * sending)[0]
    made = make_ring(*given, mask=regard.causal())
    run(made)[0].sum().backward()
    block = 2 * HEADS * n * WIDTH * 4
    return {
        "memory": memory,
        "seconds": measured,
        "predicted": predicted,
        "block": forward,
        "block back": backward,
        "sending": sending,
        "link": block / sending if sending else 0.0,
        "bytes": made.exchange.sent_bytes,
        "bytes predicted": (ranks - 1) * block * 3,
    }


def regression(points: int) -> dict[str, float]:
    """One rank's numbers for Nadaraya–Watson over its share of the points."""
    import numpy as np
    import torch.distributed as dist

    from regard.cost.measure.peak import peak_bytes
    from regard.parallel.regression import ShardedNadarayaWatson

    rank, ranks = dist.get_rank(), dist.get_world_size()
    asked = np.linspace(0, 5, 1000)[:, None]
    found: list[float] = []

    def run(count: int) -> None:
        chance = np.random.default_rng(rank)
        x = chance.uniform(0, 5, (count, 1))
        y = 2 * np.sin(x[:, 0]) + x[:, 0] ** 0.8 + 0.5 * chance.standard_normal(count)
        answer = ShardedNadarayaWatson(width=20.0).fit(x, y).predict(asked)
        found.append(float(np.abs(answer - 2 * np.sin(asked[:, 0]) - asked[:, 0] ** 0.8)[100:-100].max()))

    run(1000)
    dist.barrier()
    begin = time.perf_counter()
    memory = peak_bytes(lambda: run(points // ranks))
    return {"memory": memory, "seconds": time.perf_counter() - begin, "error": found[-1]}


def worker(what: str, size: int) -> None:
    import torch
    import torch.distributed as dist

    from regard.cost.measure.peak import no_huge_pages

    no_huge_pages()
    torch.set_num_threads(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = f"file://{os.environ['RING_STORE']}"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=600))
    found = ring(size) if what == "ring" else regression(size)
    print(json.dumps(found))
    dist.destroy_process_group()


def start(what: str, size: int, ranks: int) -> list[dict[str, float]]:
    """What every rank found."""
    with tempfile.TemporaryDirectory() as folder:
        given = {"OMP_NUM_THREADS": "1", "WORLD_SIZE": str(ranks), "RING_STORE": f"{folder}/store", **ALLOCATOR_SETTINGS}
        started = [
            subprocess.Popen(
                [sys.executable, __file__, "--worker", what, str(size)],
                env={**os.environ, **given, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        try:
            told = [process.communicate(timeout=1500)[0] for process in started]
        finally:
            for process in started:
                process.kill()
                process.wait()
    if any(process.returncode for process in started):
        raise SystemExit("a rank failed; its message is above")
    return [json.loads(line) for line in told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--out", type=Path, help="also write the numbers to this JSON file")
    parser.add_argument("--worker", nargs=2, metavar=("WHAT", "SIZE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.worker[0], int(given.worker[1]))
        return
    numbers: dict[str, object] = {}
    print(f"causal attention, forward and backward, {given.tokens:,} tokens, {HEADS} heads of {WIDTH}, float32, {os.cpu_count()} cores")
    heading = ("MB a rank", "× ranks ÷ one", "seconds", "predicted", "ratio", "MB sent", "predicted")
    print(" ".join([f"{'ranks':>5}", *(f"{name:>{width}}" for name, width in zip(heading, (10, 14, 8, 10, 6, 8, 10), strict=True))]))
    first = 0.0
    for ranks in given.ranks:
        rows = start("ring", given.tokens, ranks)
        numbers[f"ring {ranks}"] = rows
        memory = max(row["memory"] for row in rows)
        first = first or memory * ranks
        seconds, predicted = max(row["seconds"] for row in rows), max(row["predicted"] for row in rows)
        sent, foreseen = max(row["bytes"] for row in rows), rows[0]["bytes predicted"]
        print(
            f"{ranks:>5} {memory / 1e6:>10.1f} {memory * ranks / first:>14.2f} {seconds:>8.2f} {predicted:>10.2f} "
            f"{seconds / predicted:>6.2f} {sent / 1e6:>8.1f} {foreseen / 1e6:>10.1f}",
            flush=True,
        )
    if given.points:
        print(f"Nadaraya–Watson, {given.points:,} points, 1,000 queries, float64")
        print(f"{'ranks':>5} {'MB a rank':>10} {'× ranks ÷ one':>14} {'seconds':>8} {'error':>8}")
        first = 0.0
        for ranks in given.ranks:
            rows = start("regression", given.points, ranks)
            numbers[f"regression {ranks}"] = rows
            memory = max(row["memory"] for row in rows)
            first = first or memory * ranks
            seconds = max(row["seconds"] for row in rows)
            print(f"{ranks:>5} {memory / 1e6:>10.1f} {memory * ranks / first:>14.2f} {seconds:>8.2f} {rows[0]['error']:>8.4f}", flush=True)
    if given.out:
        given.out.write_text(json.dumps({"tokens": given.tokens, "points": given.points, **numbers}, indent=1) + "\n")


if __name__ == "__main__":
    main()
