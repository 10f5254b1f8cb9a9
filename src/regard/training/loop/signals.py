"""Stop a training after the current step on SIGINT and SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Within this context, the first SIGINT or SIGTERM calls `stop`; the second has its usual effect. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop()
        signal.signal(number, before[signal.Signals(number)])

    for s in before:
        signal.signal(s, on_signal)
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
