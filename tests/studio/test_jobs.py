"""One heavy job at a time: the line, cancelling, what takes too long, what dies; and the server that goes on."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from regard.studio.jobs import Jobs
from regard.studio.refusal import Refusal

LONG = {"model": "letters", "text": "the lazy dog. " * 1500}  # 21,000 tokens: seconds of work
SHORT = {"model": "letters", "text": "the fox"}


def trial(folders: dict[str, Path], act: Callable[[Jobs], Awaitable[None]], **options: Any) -> None:
    """Run something with a worker of its own."""

    async def run() -> None:
        jobs = Jobs({name: str(path) for name, path in folders.items()}, threads=1, **options)
        await jobs.start()
        try:
            await jobs.run("look", SHORT, seconds=120)  # the worker is up, the model open
            await act(jobs)
        finally:
            await jobs.close()

    asyncio.run(run())


async def begun(jobs: Jobs, name: str) -> None:
    for _ in range(2000):
        try:
            if jobs.state(name)[0] == "running":
                return
        except Refusal:
            pass
        await asyncio.sleep(0.01)
    pytest.fail(f"{name} never began")


def test_a_running_job_can_be_cancelled_and_the_next_one_runs(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        first = asyncio.create_task(jobs.run("look", LONG, seconds=300, name="first"))
        await begun(jobs, "first")
        second = asyncio.create_task(jobs.run("look", SHORT, seconds=120, name="second"))
        await asyncio.sleep(0)
        assert jobs.state("second") == ("waiting", 1, 0.0)
        jobs.cancel("first")
        with pytest.raises(Refusal) as refused:
            await first
        assert refused.value.code == "cancelled"
        assert json.loads(await second)["read"] == 7
        assert jobs.waiting == 0

    trial(folders, act)


def test_waiting_jobs_can_leave_the_line_and_a_long_line_is_told_to_come_back(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        first = asyncio.create_task(jobs.run("look", LONG, seconds=300, name="first"))
        await begun(jobs, "first")
        second = asyncio.create_task(jobs.run("look", SHORT, seconds=120, name="second"))
        await asyncio.sleep(0)
        with pytest.raises(Refusal) as refused:
            await jobs.run("look", SHORT, seconds=120, name="third")
        assert refused.value.code == "busy"
        assert int(refused.value.headers["Retry-After"]) >= 1
        jobs.cancel("second")
        with pytest.raises(Refusal, match="cancelled"):
            await second
        with pytest.raises(Refusal) as unknown:
            jobs.cancel("second")
        assert unknown.value.status == 404
        jobs.cancel("first")
        with pytest.raises(Refusal, match="cancelled"):
            await first

    trial(folders, act, most_waiting=1)


def test_what_takes_too_long_is_stopped(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        with pytest.raises(Refusal) as refused:
            await jobs.run("look", LONG, seconds=0.05)
        assert refused.value.code == "late"
        assert refused.value.status == 504
        assert json.loads(await jobs.run("look", SHORT, seconds=120))["read"] == 7

    trial(folders, act)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL; run on Linux or macOS")
def test_a_job_that_dies_takes_nobody_along(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        running = asyncio.create_task(jobs.run("look", LONG, seconds=300, name="doomed"))
        await begun(jobs, "doomed")
        assert jobs._process is not None
        os.kill(jobs._process.pid, signal.SIGKILL)  # what the system does when memory runs out
        with pytest.raises(Refusal) as refused:
            await running
        assert refused.value.code == "crashed"
        assert jobs.restarts == 1
        assert json.loads(await jobs.run("look", SHORT, seconds=120))["read"] == 7

    trial(folders, act)


def test_a_task_that_raises_is_told_and_the_worker_stays(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        with pytest.raises(Refusal) as refused:
            await jobs.run("look", {"model": "letters"}, seconds=60)  # no text: the function itself raises
        assert refused.value.code == "failed"
        with pytest.raises(Refusal) as unknown:
            await jobs.run("look", {"model": "../../etc/passwd", "text": "a"}, seconds=60)
        assert unknown.value.code == "unknown_model"
        assert jobs.restarts == 0

    trial(folders, act)


def test_a_program_run_aside_gives_way_and_begins_again(folders: dict[str, Path], tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    program = (
        f"import time; open({str(marks)!r}, 'a').write('x'); time.sleep(0 if len(open({str(marks)!r}).read()) > 1 else 60); print('done')"
    )

    async def act(jobs: Jobs) -> None:
        aside = asyncio.create_task(jobs.aside([sys.executable, "-c", program], seconds=120, name="aside"))
        while not marks.exists():
            await asyncio.sleep(0.02)
        assert json.loads(await jobs.run("look", SHORT, seconds=120))["read"] == 7  # did not wait sixty seconds
        assert await aside == b"done\n"
        assert marks.read_text() == "xx"
        with pytest.raises(Refusal, match="code 3"):
            await jobs.aside([sys.executable, "-c", "raise SystemExit(3)"], seconds=60)

    trial(folders, act)
