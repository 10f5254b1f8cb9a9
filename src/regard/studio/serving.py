"""Start the studio: find the models, take a port on this machine alone, open the browser once there is something to see."""

from __future__ import annotations

import asyncio
import socket
import sys
import webbrowser
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PORT = 8500


def serve(models: Iterable[Path] = (), *, port: int | None = None, open_page: bool = True, report: Callable[[str], Any] = print) -> None:
    """Serve until Ctrl-C. port None: 8500, or the next free one. `report` gets the line with the address."""
    import uvicorn

    from .app import create
    from .library import gather

    taken = listen(port)
    address = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    app = create(gather(models))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_keep_alive=30, limit_concurrency=200, server_header=False))

    async def run() -> None:
        serving = asyncio.create_task(server.serve(sockets=[taken]))
        while not (server.started or serving.done()):
            await asyncio.sleep(0.02)
        if server.started:
            report(f"the studio is at {address}  (stop with Ctrl-C)")
            if open_page:
                initial = app.state.initial_results
                shown = asyncio.create_task(initial.of(initial.names[0]))
                await asyncio.wait({shown, serving}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.to_thread(webbrowser.open, address)
        await serving

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        sys.stderr.write("\n")


def listen(port: int | None) -> socket.socket:
    """A socket on 127.0.0.1. A given port must be free; otherwise the first free one from 8500 on is taken."""
    for candidate in range(PORT, PORT + 50) if port is None else (port,):
        taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", candidate))
            taken.listen(128)  # binding alone does not claim a port: another studio starting now could bind it too
            return taken
        except OSError as error:
            taken.close()
            if port is not None:
                raise ValueError(f"port {port} cannot be used ({error.strerror}); give another, or none to take a free one") from error
    raise ValueError(f"no port from {PORT} to {PORT + 49} is free; give one with --port")
