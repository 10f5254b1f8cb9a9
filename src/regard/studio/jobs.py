"""One heavy job at a time, in a process of its own; the others wait in line, and too long a line is told to come back."""

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

from .refusal import Refusal
from .worker import DONE, FAR, HEAD, frame

USUAL_PROGRAM = 15.0  # seconds a program run aside usually takes; only its progress bar knows
PATIENCE = 5.0  # seconds a cancelled job gets to stop by itself before its process is ended


@dataclass(eq=False)
class Job:
    """A piece of work somebody waits for."""

    name: str
    task: str
    begun: float | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)


class Jobs:
    """The line before the worker. `await jobs.run(task, arguments)` gives the answer's JSON, or raises a Refusal."""

    def __init__(self, folders: dict[str, str], *, threads: int = 0, most_waiting: int = 16) -> None:
        self._given = {"folders": folders, "threads": threads or os.cpu_count() or 1}
        self._process: asyncio.subprocess.Process | None = None
        self._share = 0.0
        self._turn = asyncio.Lock()
        self._wanted = asyncio.Event()  # somebody joined the line
        self._line: list[Job] = []
        self._usual = 0.5  # seconds a job took lately
        self.most_waiting = most_waiting
        self.restarts = 0

    async def start(self) -> None:
        """Begin the process; it imports torch while the page loads."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(sys.executable, "-m", "regard.studio.worker", stdin=pipe, stdout=pipe)
        self._send(self._given)

    async def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None

    async def run(self, task: str, arguments: dict[str, Any], *, seconds: float, name: str = "") -> bytes:
        """Wait for a turn, then for the answer. seconds: how long the work itself may take."""
        job = Job(name, task)
        self._enter(job)
        try:
            await self._wait_turn(job)
            try:
                return await self._work(job, task, arguments, seconds)
            finally:
                self._turn.release()
        finally:
            self._line.remove(job)

    async def aside(self, command: list[str], *, seconds: float, name: str = "") -> bytes:
        """Run a program when nobody waits, and give its output. It gives way to any other job and begins again after it."""
        job = Job(name, "aside")
        self._enter(job)
        try:
            for _ in range(20):
                await self._wait_turn(job)
                try:
                    if (found := await self._program(job, command, seconds)) is not None:
                        return found
                finally:
                    self._turn.release()
                    job.begun = None
            raise Refusal("busy", "other jobs kept coming; try again in a minute", seconds=60, waiting=len(self._line))
        finally:
            self._line.remove(job)

    async def _program(self, job: Job, command: list[str], seconds: float) -> bytes | None:
        """The output of a program; None if it was stopped because somebody else came."""
        job.begun, self._share = time.monotonic(), 0.0
        self._wanted.clear()
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        ended = asyncio.create_task(process.communicate())
        others = {asyncio.create_task(event.wait()) for event in (job.cancelled, self._wanted)}
        try:
            while not ended.done() and not any(other.done() for other in others) and time.monotonic() - job.begun < seconds:
                await asyncio.wait({ended, *others}, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
                self._share = min(0.95, (time.monotonic() - job.begun) / USUAL_PROGRAM)
            if not ended.done():
                process.kill()
            output = (await ended)[0]
        finally:
            for other in others:
                other.cancel()
            if process.returncode is None:
                process.kill()
        if process.returncode == 0:
            return output
        if job.cancelled.is_set():
            raise Refusal("cancelled", "the job was cancelled")
        if self._wanted.is_set():
            return None
        if time.monotonic() - job.begun >= seconds:
            raise self._late(seconds)
        raise Refusal("failed", f"{' '.join(command[2:])} ended with code {process.returncode}; the terminal says why")

    def _enter(self, job: Job) -> None:
        """Into the line, unless it is too long."""
        if len(self._line) > self.most_waiting:
            wait = max(1, math.ceil(self._usual * len(self._line) / 2))
            raise Refusal("busy", f"{len(self._line)} jobs are in line; try again in {wait} s", seconds=wait, waiting=len(self._line))
        self._line.append(job)
        self._wanted.set()

    def state(self, name: str) -> tuple[Literal["waiting", "running"], int, float]:
        """How a job stands: (state, how many are before it, the share done)."""
        place, job = self._find(name)
        return ("waiting", place, 0.0) if job.begun is None else ("running", 0, self._share)

    def cancel(self, name: str) -> None:
        """Ask a job to stop, running or waiting."""
        self._find(name)[1].cancelled.set()

    @property
    def waiting(self) -> int:
        return len(self._line)

    def _find(self, name: str) -> tuple[int, Job]:
        found = next(((place, job) for place, job in enumerate(self._line) if name and job.name == name), None)
        if found is None:
            raise Refusal("unknown_job", f"no job is called {name!r}; it may have ended")
        return found

    async def _wait_turn(self, job: Job) -> None:
        """Hold the turn, or leave the line because the job was cancelled."""
        turn, stopped = asyncio.ensure_future(self._turn.acquire()), asyncio.ensure_future(job.cancelled.wait())
        try:
            await asyncio.wait({turn, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if job.cancelled.is_set():
                raise Refusal("cancelled", "the job was cancelled")
        except BaseException:
            if not turn.cancel():  # it had come already
                self._turn.release()
            raise
        finally:
            stopped.cancel()

    async def _work(self, job: Job, task: str, arguments: dict[str, Any], seconds: float) -> bytes:
        if self._process is None or self._process.returncode is not None:
            await self._again()
        self._share = 0.0
        job.begun = time.monotonic()
        late = False
        answer, stopped = asyncio.create_task(self._ask(task, arguments)), asyncio.create_task(job.cancelled.wait())
        try:
            await asyncio.wait({answer, stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                late = not job.cancelled.is_set()
                self._send("stop")
                await asyncio.wait({answer}, timeout=PATIENCE)
            if not answer.done():
                await self.close()
            found = await answer
        except asyncio.CancelledError:  # the server is closing
            await self.close()
            await asyncio.gather(answer, return_exceptions=True)
            raise
        except (EOFError, OSError):
            await self._again()
            if late:
                raise self._late(seconds) from None
            if job.cancelled.is_set():
                raise Refusal("cancelled", "the job was cancelled") from None
            raise Refusal(
                "crashed", "the job's process died, most likely for want of memory; try a shorter text or a smaller model"
            ) from None
        finally:
            stopped.cancel()
        self._usual = 0.8 * self._usual + 0.2 * (time.monotonic() - job.begun)
        if found[:1] == DONE:
            return found[1:]
        told = json.loads(found[1:])
        raise self._late(seconds) if late else Refusal(told["code"], told["message"], **told["values"])

    async def _ask(self, task: str, arguments: dict[str, Any]) -> bytes:
        """Hand the worker a job and read frames until its answer; raises EOFError if it dies."""
        assert self._process is not None and self._process.stdout is not None
        self._send([task, arguments])
        while True:
            head = await self._process.stdout.readexactly(HEAD)
            data = await self._process.stdout.readexactly(int.from_bytes(head, "little"))
            if data[:1] != FAR:
                return data
            self._share = float(data[1:])

    def _send(self, asked: Any) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(frame(json.dumps(asked).encode()))

    @staticmethod
    def _late(seconds: float) -> Refusal:
        return Refusal("late", f"this took longer than {seconds:g} s and was stopped; give it less to do", seconds=seconds)

    async def _again(self) -> None:
        """A new process in place of one that died or would not stop."""
        await self.close()
        self.restarts += 1
        await self.start()
