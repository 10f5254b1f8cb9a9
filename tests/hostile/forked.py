"""Run many cases in a forked process with a limit of memory and of time, with everything imported already."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

MEMORY = 1_000_000_000  # bytes a case may take beyond what the imports take
SECONDS = 10.0  # of the processor that a case may take; most take milliseconds
WAITING = 12  # times as long on the clock, for a busy machine


def failures(case: Callable[[int], str], numbers: range) -> tuple[list[str], dict[str, int]]:
    """Run the cases and return what went wrong, and how often each outcome came.

    case(number) returns the name of its outcome. An exception, a kill (out of memory, out of time) or a hang is a failure.
    """
    torch.set_num_threads(1)
    wrong: list[str] = []
    outcomes: dict[str, int] = {}
    begin = numbers.start
    while begin < numbers.stop:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _run(case, range(begin, numbers.stop), writer)
        os.close(writer)
        with open(reader, encoding="utf-8") as pipe:
            lines = pipe.read().splitlines()
        status = os.waitpid(child, 0)[1]
        done = [json.loads(line) for line in lines]
        for number, outcome, trouble in done:
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            if trouble:
                wrong.append(f"case {number}: {trouble}")
        begin += len(done)
        if begin < numbers.stop:  # the child ended within a case
            wrong.append(f"case {begin}: the process ended with {os.waitstatus_to_exitcode(status)} (−14 and −26 are hangs, −9 is memory)")
            begin += 1
    return wrong, outcomes


def _run(case: Callable[[int], str], numbers: range, writer: int) -> None:
    """In the child: run the cases, write a line for each, and end without pytest's clean-up."""
    try:
        for number_of_signal in (signal.SIGALRM, signal.SIGVTALRM):
            signal.signal(number_of_signal, signal.SIG_DFL)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") if sys.platform == "linux" else 0
        if used:
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        for number in numbers:
            signal.setitimer(signal.ITIMER_REAL, SECONDS * WAITING)
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            try:
                outcome, trouble = case(number), ""
            except BaseException as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                outcome, trouble = "wrong", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.write(writer, (json.dumps([number, outcome, trouble]) + "\n").encode())
    finally:
        os._exit(0)
