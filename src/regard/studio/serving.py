"""Start the studio: find the models, listen on 127.0.0.1, and open the browser once the first result is ready."""

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
    from .library import find_models

    listener = listen(port)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    app = create(find_models(models))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_keep_alive=30, limit_concurrency=200, server_header=False))

    async def run() -> None:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not (server.started or serving.done()):
            await asyncio.sleep(0.02)
        if server.started:
            report(f"the studio is at {address}  (stop with Ctrl-C)")
            if open_page:
                initial = app.state.initial_results
                first_result = asyncio.create_task(initial.of(initial.names[0]))
                await asyncio.wait({first_result, serving}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.to_thread(webbrowser.open, address)
        await serving

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        sys.stderr.write("\n")


def listen(port: int | None) -> socket.socket:
    """A socket that listens on 127.0.0.1, on `port` or, if None, on the first free port from 8500."""
    for candidate in range(PORT, PORT + 50) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", candidate))
            listener.listen(128)  # bind alone does not claim the port: another studio that starts now could bind it too
            return listener
        except OSError as error:
            listener.close()
            if port is not None:
                raise ValueError(
                    f"port {port} cannot be used ({error.strerror}); give another, or leave --port out to use a free one"
                ) from error
    raise ValueError(f"no port from {PORT} to {PORT + 49} is free; give one with --port")
