"""Stop a training after the current step on SIGINT, SIGTERM and SIGHUP."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Within this context, the first of these signals calls `stop` with its number; a second has its usual effect.

    Only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP
    before = {s: signal.getsignal(s) for name in names if (s := getattr(signal, name, None)) is not None}
    before = {s: handler for s, handler in before.items() if handler is not signal.SIG_IGN}  # nohup stays in force

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop(number)
        signal.signal(number, before[signal.Signals(number)])

    for s in before:
        signal.signal(s, on_signal)
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
