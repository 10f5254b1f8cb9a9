"""End a training in good order on SIGINT and SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Within this, the first SIGINT or SIGTERM calls `stop`; the second acts as usual. Outside the main thread nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        stop()
        signal.signal(number, before[signal.Signals(number)])

    for s in before:
        signal.signal(s, note)
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
