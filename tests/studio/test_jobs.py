"""The queue of jobs: cancelling, time limits, crashes of the worker, and programs run when idle."""

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
from regard.studio.request_error import RequestError

LONG = {"model": "letters", "text": "the lazy dog. " * 1500}  # 21,000 tokens: seconds of work
SHORT = {"model": "letters", "text": "the fox"}


def with_jobs(folders: dict[str, Path], act: Callable[[Jobs], Awaitable[None]], **options: Any) -> None:
    """Run `act` with a worker of its own."""

    async def run() -> None:
        jobs = Jobs({name: str(path) for name, path in folders.items()}, threads=1, **options)
        await jobs.start()
        try:
            await jobs.run("look", SHORT, seconds=120)  # the worker is up, the model open
            await act(jobs)
        finally:
            await jobs.close()

    asyncio.run(run())


async def wait_until_running(jobs: Jobs, name: str) -> None:
    for _ in range(2000):
        try:
            if jobs.state(name)[0] == "running":
                return
        except RequestError:
            pass
        await asyncio.sleep(0.01)
    pytest.fail(f"{name} never started")


def test_a_running_job_can_be_cancelled_and_the_next_one_runs(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        first = asyncio.create_task(jobs.run("look", LONG, seconds=300, name="first"))
        await wait_until_running(jobs, "first")
        second = asyncio.create_task(jobs.run("look", SHORT, seconds=120, name="second"))
        await asyncio.sleep(0)
        assert jobs.state("second") == ("waiting", 1, 0.0)
        jobs.cancel("first")
        with pytest.raises(RequestError) as error:
            await first
        assert error.value.code == "cancelled"
        assert json.loads(await second)["read"] == 7
        assert jobs.waiting == 0

    with_jobs(folders, act)


def test_waiting_jobs_can_be_cancelled_and_a_full_queue_refuses_jobs(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        first = asyncio.create_task(jobs.run("look", LONG, seconds=300, name="first"))
        await wait_until_running(jobs, "first")
        second = asyncio.create_task(jobs.run("look", SHORT, seconds=120, name="second"))
        await asyncio.sleep(0)
        with pytest.raises(RequestError) as error:
            await jobs.run("look", SHORT, seconds=120, name="third")
        assert error.value.code == "busy"
        assert int(error.value.headers["Retry-After"]) >= 1
        jobs.cancel("second")
        with pytest.raises(RequestError, match="cancelled"):
            await second
        with pytest.raises(RequestError) as unknown:
            jobs.cancel("second")
        assert unknown.value.status == 404
        jobs.cancel("first")
        with pytest.raises(RequestError, match="cancelled"):
            await first

    with_jobs(folders, act, max_waiting=1)


def test_a_job_is_stopped_at_its_time_limit(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        with pytest.raises(RequestError) as error:
            await jobs.run("look", LONG, seconds=0.05)
        assert error.value.code == "late"
        assert error.value.status == 504
        assert json.loads(await jobs.run("look", SHORT, seconds=120))["read"] == 7

    with_jobs(folders, act)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL; run on Linux or macOS")
def test_a_job_whose_worker_dies_is_run_once_more(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        running = asyncio.create_task(jobs.run("look", SHORT, seconds=300, name="killed"))
        await wait_until_running(jobs, "killed")
        assert jobs._process is not None
        os.kill(jobs._process.pid, signal.SIGKILL)
        assert json.loads(await running)["read"] == 7
        assert jobs._process is not None
        os.kill(jobs._process.pid, signal.SIGKILL)  # now between two jobs: the next is sent before anyone knows
        assert json.loads(await jobs.run("look", SHORT, seconds=300))["read"] == 7
        assert jobs.restarts >= 1

    with_jobs(folders, act)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL; run on Linux or macOS")
def test_a_job_that_kills_its_worker_twice_is_refused_and_the_next_one_runs(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        running = asyncio.create_task(jobs.run("look", LONG, seconds=300, name="killed"))
        for restarts in (0, 1):
            while jobs.restarts < restarts:
                await asyncio.sleep(0.01)
            await wait_until_running(jobs, "killed")
            while jobs._process is None or not jobs._begun:  # until the worker has it: a death before that would not count
                await asyncio.sleep(0.01)
            os.kill(jobs._process.pid, signal.SIGKILL)  # what the system does when memory runs out
        with pytest.raises(RequestError) as error:
            await running
        assert error.value.code == "crashed"
        assert jobs.restarts == 2
        assert json.loads(await jobs.run("look", SHORT, seconds=120))["read"] == 7

    with_jobs(folders, act)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL; run on Linux or macOS")
@pytest.mark.parametrize("moment", [0.0, 0.001, 0.01, 0.1])
def test_closing_while_the_worker_starts_again_ends_and_leaves_no_process(folders: dict[str, Path], moment: float) -> None:
    killed = []

    async def act(jobs: Jobs) -> None:
        running = asyncio.create_task(jobs.run("look", LONG, seconds=300, name="killed"))
        await wait_until_running(jobs, "killed")
        assert jobs._process is not None
        killed.append(jobs)
        os.kill(jobs._process.pid, signal.SIGKILL)
        while not jobs.restarts:
            await asyncio.sleep(0)
        await asyncio.sleep(moment)
        await jobs.close()
        with pytest.raises(RequestError, match=r"closing|died"):
            await running

    with_jobs(folders, act)
    assert killed[0]._process is None


def test_an_error_in_a_task_does_not_end_the_worker(folders: dict[str, Path]) -> None:
    async def act(jobs: Jobs) -> None:
        with pytest.raises(RequestError) as error:
            await jobs.run("look", {"model": "letters"}, seconds=60)  # no text: the function itself raises
        assert error.value.code == "failed"
        with pytest.raises(RequestError) as unknown:
            await jobs.run("look", {"model": "../../etc/passwd", "text": "a"}, seconds=60)
        assert unknown.value.code == "unknown_model"
        assert jobs.restarts == 0

    with_jobs(folders, act)


def test_a_program_run_when_idle_is_stopped_by_a_job_and_restarted(folders: dict[str, Path], tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    program = (
        f"import time; open({str(marks)!r}, 'a').write('x'); time.sleep(0 if len(open({str(marks)!r}).read()) > 1 else 60); print('done')"
    )

    async def act(jobs: Jobs) -> None:
        output = asyncio.create_task(jobs.run_when_idle([sys.executable, "-c", program], seconds=120, name="program"))
        while not marks.exists():
            await asyncio.sleep(0.02)
        assert json.loads(await jobs.run("look", SHORT, seconds=120))["read"] == 7  # did not wait sixty seconds
        assert await output == b"done\n"
        assert marks.read_text() == "xx"
        with pytest.raises(RequestError, match="code 3"):
            await jobs.run_when_idle([sys.executable, "-c", "raise SystemExit(3)"], seconds=60)

    with_jobs(folders, act)
