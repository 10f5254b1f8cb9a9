"""The queue of heavy jobs, which run one at a time in a worker process. A request to a full queue gets the error `busy`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from .request_error import RequestError
from .worker import DONE, HEAD, PROGRESS, frame

TYPICAL_PROGRAM_SECONDS = 15.0  # of a program run when idle; only for its progress bar
MAX_STARTS = 5  # of a worker for one job, if it dies before it begins it
STOP_SECONDS = 5.0  # a cancelled job has to stop before its process is killed


@dataclass(eq=False)
class Job:
    """A job that is waiting or running."""

    name: str
    task: str
    started: float | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)


class Jobs:
    """The queue and the worker process. `await jobs.run(task, arguments)` returns the result as JSON, or raises a RequestError."""

    def __init__(self, folders: dict[str, str], *, threads: int = 0, max_waiting: int = 16) -> None:
        self._settings = {"folders": folders, "threads": threads or os.cpu_count() or 1}
        self._process: asyncio.subprocess.Process | None = None
        self._progress = 0.0
        self._begun = False  # whether the worker has begun the job it was sent
        self._lock = asyncio.Lock()
        self._starting = asyncio.Lock()  # a start that is cancelled midway would wait for its process for ever (Python 3.11)
        self._closed = False
        self._job_added = asyncio.Event()
        self._queue: list[Job] = []
        self._typical_seconds = 0.5  # of a job: a running mean
        self.max_waiting = max_waiting
        self.restarts = 0

    async def start(self) -> None:
        """Start the worker process; it imports torch while the page loads."""
        pipe = asyncio.subprocess.PIPE
        async with self._starting:
            if self._closed:
                raise RequestError("cancelled", "the studio is closing")
            self._process = await asyncio.create_subprocess_exec(sys.executable, "-m", "regard.studio.worker", stdin=pipe, stdout=pipe)
            self._send(self._settings)

    async def close(self) -> None:
        """Kill the worker process, and start no other."""
        self._closed = True
        async with self._starting:
            await self._kill()

    async def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None

    async def run(self, task: str, arguments: dict[str, Any], *, seconds: float, name: str = "") -> bytes:
        """Run a job in the worker and return its result as JSON. seconds: how long it may run, without the time in the queue."""
        job = Job(name, task)
        self._enter(job)
        try:
            await self._wait_turn(job)
            try:
                return await self._work(job, task, arguments, seconds)
            finally:
                self._lock.release()
        finally:
            self._queue.remove(job)

    async def run_when_idle(self, command: list[str], *, seconds: float, name: str = "") -> bytes:
        """Run a program while no job waits, and return its output. When a job arrives it is stopped, and restarted afterwards."""
        job = Job(name, "program")
        self._enter(job)
        try:
            for _ in range(20):
                await self._wait_turn(job)
                try:
                    if (output := await self._program(job, command, seconds)) is not None:
                        return output
                finally:
                    self._lock.release()
                    job.started = None
            raise RequestError("busy", "other jobs kept coming; try again in a minute", seconds=60, waiting=len(self._queue))
        finally:
            self._queue.remove(job)

    async def _program(self, job: Job, command: list[str], seconds: float) -> bytes | None:
        """The output of a program; None if it was stopped because a job arrived."""
        job.started, self._progress = time.monotonic(), 0.0
        self._job_added.clear()
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        finished = asyncio.create_task(process.communicate())
        interrupts = {asyncio.create_task(event.wait()) for event in (job.cancelled, self._job_added)}
        try:
            while not finished.done() and not any(event.done() for event in interrupts) and time.monotonic() - job.started < seconds:
                await asyncio.wait({finished, *interrupts}, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
                self._progress = min(0.95, (time.monotonic() - job.started) / TYPICAL_PROGRAM_SECONDS)
            if not finished.done():
                process.kill()
            output = (await finished)[0]
        finally:
            for event in interrupts:
                event.cancel()
            if process.returncode is None:
                process.kill()
        if process.returncode == 0:
            return output
        if job.cancelled.is_set():
            raise RequestError("cancelled", "the job was cancelled")
        if self._job_added.is_set():
            return None
        if time.monotonic() - job.started >= seconds:
            raise self._timeout_error(seconds)
        raise RequestError("failed", f"{' '.join(command[2:])} ended with code {process.returncode}; see the terminal for its error")

    def _enter(self, job: Job) -> None:
        """Add a job to the queue, unless it is full."""
        if len(self._queue) > self.max_waiting:
            wait = max(1, math.ceil(self._typical_seconds * len(self._queue) / 2))
            raise RequestError(
                "busy", f"{len(self._queue)} jobs are waiting; try again in {wait} s", seconds=wait, waiting=len(self._queue)
            )
        self._queue.append(job)
        self._job_added.set()

    def state(self, name: str) -> tuple[Literal["waiting", "running"], int, float]:
        """The state of a job: (state, number of jobs before it, share done)."""
        place, job = self._find(name)
        return ("waiting", place, 0.0) if job.started is None else ("running", 0, self._progress)

    def cancel(self, name: str) -> None:
        """Cancel a job that is running or waiting."""
        self._find(name)[1].cancelled.set()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def _find(self, name: str) -> tuple[int, Job]:
        entry = next(((place, job) for place, job in enumerate(self._queue) if name and job.name == name), None)
        if entry is None:
            raise RequestError("unknown_job", f"no job is called {name!r}; it may have ended")
        return entry

    async def _wait_turn(self, job: Job) -> None:
        """Wait until the job may run and hold the lock, or raise if it was cancelled."""
        acquired, cancelled = asyncio.ensure_future(self._lock.acquire()), asyncio.ensure_future(job.cancelled.wait())
        try:
            await asyncio.wait({acquired, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            if job.cancelled.is_set():
                raise RequestError("cancelled", "the job was cancelled")
        except BaseException:
            if not acquired.cancel():  # the lock was already acquired
                self._lock.release()
            raise
        finally:
            cancelled.cancel()

    async def _work(self, job: Job, task: str, arguments: dict[str, Any], seconds: float) -> bytes:
        """The result of a job. A worker that dies is replaced and the job run once more: a job only computes, so nothing is done twice.

        Deaths before the worker had begun the job do not count against it.
        """
        crashes = 0
        for _ in range(MAX_STARTS):
            self._begun = False
            with contextlib.suppress(EOFError, OSError):
                return await self._try(job, task, arguments, seconds)
            crashes += self._begun
            if crashes == 2:
                break
        raise RequestError(
            "crashed", "the worker process died twice, most likely because memory ran out; try a shorter text or a smaller model"
        )

    async def _try(self, job: Job, task: str, arguments: dict[str, Any], seconds: float) -> bytes:
        """The result of a job; raises EOFError or OSError if the worker died, after starting another."""
        if self._process is None or self._process.returncode is not None:
            await self._restart()
        self._progress = 0.0
        job.started = time.monotonic()
        timed_out = False
        answer, cancelled = asyncio.create_task(self._request(task, arguments)), asyncio.create_task(job.cancelled.wait())
        try:
            await asyncio.wait({answer, cancelled}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                timed_out = not job.cancelled.is_set()
                self._send("stop")
                await asyncio.wait({answer}, timeout=STOP_SECONDS)
            if not answer.done():
                await self._kill()
            response = await answer
        except asyncio.CancelledError:  # the server is closing
            await self._kill()
            await asyncio.gather(answer, return_exceptions=True)
            raise
        except (EOFError, OSError):
            await self._restart()
            if timed_out:
                raise self._timeout_error(seconds) from None
            if job.cancelled.is_set():
                raise RequestError("cancelled", "the job was cancelled") from None
            raise
        finally:
            cancelled.cancel()
        self._typical_seconds = 0.8 * self._typical_seconds + 0.2 * (time.monotonic() - job.started)
        if response[:1] == DONE:
            return response[1:]
        error = json.loads(response[1:])
        raise self._timeout_error(seconds) if timed_out else RequestError(error["code"], error["message"], **error["values"])

    async def _request(self, task: str, arguments: dict[str, Any]) -> bytes:
        """Send a job to the worker and read frames until its response; raises EOFError if the process dies."""
        assert self._process is not None and self._process.stdout is not None
        self._send([task, arguments])
        while True:
            head = await self._process.stdout.readexactly(HEAD)
            data = await self._process.stdout.readexactly(int.from_bytes(head, "little"))
            self._begun = True
            if data[:1] != PROGRESS:
                return data
            self._progress = float(data[1:])

    def _send(self, message: Any) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(frame(json.dumps(message).encode()))

    @staticmethod
    def _timeout_error(seconds: float) -> RequestError:
        return RequestError(
            "late", f"this took longer than {seconds:g} s and was stopped; try a shorter text or a smaller model", seconds=seconds
        )

    async def _restart(self) -> None:
        """Replace a worker process that died or did not stop."""
        await self._kill()
        self.restarts += 1
        await self.start()
