"""The process that does the heavy work, so that a job that dies (out of memory, a broken model) takes nobody with it.

Run as `python -m regard.studio.worker`. It speaks frames (eight bytes of length, then JSON) over its standard input and output: in come
the models' folders, then jobs `[task, arguments]` or a `"stop"`; out goes one byte that says what follows, then it: how far the job is, its
answer, or why there is none.
"""

from __future__ import annotations

import contextlib
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

from .refusal import Refusal

DONE, REFUSED, FAR = b"+", b"-", b"%"
HEAD = 8  # bytes of a frame's length


class Cancelled(Exception):
    """Somebody asked the job to stop."""


class Progress:
    """How far a job is, told at most ten times a second, and whether it should stop."""

    def __init__(self, send: Callable[[bytes], None], stop: threading.Event) -> None:
        self._send, self._stop, self._told = send, stop, 0.0

    def tell(self, share: float) -> None:
        """Say which share in [0, 1] is done; ends the job if it was cancelled."""
        if self._stop.is_set():
            raise Cancelled
        now = time.monotonic()
        if now - self._told > 0.1:
            self._told = now
            self._send(FAR + str(round(min(max(share, 0.0), 1.0), 4)).encode())

    @contextlib.contextmanager
    def over(self, model: Any, passes: float = 1.0, begin: float = 0.0, end: float = 1.0) -> Iterator[None]:
        """Watch a model's parts run: each one moves the progress on, and is a chance to stop. passes: forward passes expected."""
        leaves = [module for module in model.modules() if not next(module.children(), None)]
        done, whole = 0, max(1.0, len(leaves) * passes)

        def ran(*_: Any) -> None:
            nonlocal done
            done += 1
            self.tell(begin + (end - begin) * min(done / whole, 0.99))

        hooks = [leaf.register_forward_hook(ran) for leaf in leaves]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(HEAD, "little") + data


def read_frame(pipe: BinaryIO) -> bytes | None:
    """The next frame; None when the pipe was closed."""
    head = pipe.read(HEAD)
    return pipe.read(int.from_bytes(head, "little")) if len(head) == HEAD else None


def work(pipe: BinaryIO, out: BinaryIO) -> None:
    """The loop of the process: until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which closes the pipe
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")  # if memory runs out, this process goes first
    given = json.loads(read_frame(pipe) or b"null")
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop = threading.Event()

    def send(data: bytes) -> None:
        out.write(frame(data))
        out.flush()

    def listen() -> None:
        while (data := read_frame(pipe)) is not None:
            if (asked := json.loads(data)) == "stop":
                stop.set()
            else:
                stop.clear()
                jobs.put(asked)
        os._exit(0)  # the server is gone

    threading.Thread(target=listen, daemon=True).start()
    import warnings

    import torch

    from .bench import Bench
    from .library import Library

    torch.set_grad_enabled(False)
    warnings.simplefilter("ignore")
    bench = Bench(Library({name: Path(path) for name, path in given["folders"].items()}), Progress(send, stop), given["threads"])
    while True:
        task, arguments = jobs.get()
        send(_run(task, bench, arguments))


def _run(task: str, bench: Any, arguments: dict[str, Any]) -> bytes:
    from .pages import worker_task

    begin = time.perf_counter()
    try:
        found = worker_task(task)(bench, **arguments)
        found["seconds"] = round(time.perf_counter() - begin, 4)
        return DONE + json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except Cancelled:
        refusal = Refusal("cancelled", "the job was cancelled")
    except Refusal as error:
        refusal = error
    except MemoryError as error:
        refusal = Refusal("memory", f"there was not enough memory: {error}", needed="")
    except Exception as error:  # whatever a model throws must not end the worker
        traceback.print_exc()
        refusal = Refusal("failed", f"{type(error).__name__}: {error}"[:500])
    return REFUSED + json.dumps(refusal.plain(), ensure_ascii=False).encode()


if __name__ == "__main__":
    private = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not end up among the frames
    work(sys.stdin.buffer, private)
