"""The worker process for heavy work: a crash of it (out of memory, a broken model) does not stop the server.

Run as `python -m regard.studio.worker`. It exchanges frames (eight bytes of length, then the data) over its standard input and output. It
receives the settings once, then jobs `[task, arguments]` or `"stop"`, as JSON. It sends one byte for the kind of message (DONE, REFUSED or
PROGRESS), then the result or error as JSON, or the share that is done.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .request_error import RequestError

DONE, REFUSED, PROGRESS = b"+", b"-", b"%"
HEAD = 8  # bytes of the length of a frame


class Cancelled(Exception):
    """The job was cancelled."""


class Progress:
    """Sends the progress of a job, at most ten times per second, and raises Cancelled if it should stop."""

    def __init__(self, send: Callable[[bytes], None], stop: threading.Event) -> None:
        self._send, self._stop, self._last_sent = send, stop, 0.0

    def report(self, share: float) -> None:
        """Report the share in [0, 1] that is done; raises Cancelled if the job was cancelled."""
        if self._stop.is_set():
            raise Cancelled
        now = time.monotonic()
        if now - self._last_sent > 0.1:
            self._last_sent = now
            self._send(PROGRESS + str(round(min(max(share, 0.0), 1.0), 4)).encode())

    @contextlib.contextmanager
    def follow(self, model: Any, passes: float = 1.0, begin: float = 0.0, end: float = 1.0) -> Iterator[None]:
        """Report progress from `begin` to `end` while the modules of a model run. passes: the expected number of forward passes."""
        leaves = [module for module in model.modules() if not next(module.children(), None)]
        done, total = 0, max(1.0, len(leaves) * passes)

        def count(*_: Any) -> None:
            nonlocal done
            done += 1
            self.report(begin + (end - begin) * min(done / total, 0.99))

        hooks = [leaf.register_forward_hook(count) for leaf in leaves]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def frame(data: bytes) -> bytes:
    """The data with its length in front."""
    return len(data).to_bytes(HEAD, "little") + data


def read_frame(pipe: BinaryIO) -> bytes | None:
    """The data of the next frame; None if the pipe was closed."""
    head = pipe.read(HEAD)
    return pipe.read(int.from_bytes(head, "little")) if len(head) == HEAD else None


def work(pipe: BinaryIO, out: BinaryIO) -> None:
    """Run jobs until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which closes the pipe
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")  # if memory runs out, the system kills this process first
    settings = json.loads(read_frame(pipe) or b"null")
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop = threading.Event()

    def send(data: bytes) -> None:
        out.write(frame(data))
        out.flush()

    def listen() -> None:
        while (data := read_frame(pipe)) is not None:
            if (message := json.loads(data)) == "stop":
                stop.set()
            else:
                stop.clear()
                jobs.put(message)
        os._exit(0)  # the server has ended

    threading.Thread(target=listen, daemon=True).start()
    import warnings

    import torch

    from .library import Library
    from .worker_state import WorkerState

    torch.set_grad_enabled(False)
    warnings.simplefilter("ignore")
    state = WorkerState(
        Library({name: Path(path) for name, path in settings["folders"].items()}), Progress(send, stop), settings["threads"]
    )
    modules = 0
    while True:
        task, arguments = jobs.get()
        send(PROGRESS + b"0")  # the job has begun
        send(_run(task, state, arguments))
        if len(sys.modules) != modules:
            modules = len(sys.modules)
            _leave_imported_objects_alone()


def _leave_imported_objects_alone() -> None:
    """Exclude the objects that exist now from garbage collection: looking through all of torch's takes 0.1 s, in the middle of a job."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _run(task: str, state: Any, arguments: dict[str, Any]) -> bytes:
    """Run a job; the message with its result or its error."""
    from .pages import worker_task

    begin = time.perf_counter()
    try:
        result = worker_task(task)(state, **arguments)
        result["seconds"] = round(time.perf_counter() - begin, 4)
        return DONE + json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except Cancelled:
        error = RequestError("cancelled", "the job was cancelled")
    except RequestError as request_error:
        error = request_error
    except MemoryError as exception:
        error = RequestError("memory", f"there was not enough memory: {exception}", needed="")
    except Exception as exception:  # an error of a model must not end the worker
        traceback.print_exc()
        error = RequestError("failed", f"{type(exception).__name__}: {exception}"[:500])
    return REFUSED + json.dumps(error.to_json(), ensure_ascii=False).encode()


if __name__ == "__main__":
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not mix with the frames
    work(sys.stdin.buffer, output)
