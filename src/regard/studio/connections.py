"""HTTP connections that cannot be held open for nothing.

A connection waits until the head of a request is complete; only then does the server know who asks. So waiting is limited in time, and in
number: where more than MAX_WAITING wait, the one that has waited longest is closed. A new connection is always accepted.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # in which the head of the first request must arrive
KEEP_SECONDS = 30.0  # in which the head of a further request must arrive on the same connection
MAX_WAITING = 64
MAX_CONNECTIONS = 256  # with those whose request is being answered; more get the status 503


class Connection(H11Protocol):
    """A connection of uvicorn's, with the limits above."""

    waiting_since: float | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait(HEAD_SECONDS)
        waiting = [c for c in self.connections if isinstance(c, Connection) and c.waiting_since is not None]
        for connection in sorted(waiting, key=_age)[:-MAX_WAITING]:
            connection.transport.abort()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():  # else a further request is already here
            self._wait(KEEP_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self.waiting_since = self.loop.time()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        self.waiting_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _age(connection: Any) -> float:
    return float(connection.waiting_since)
