"""Start the studio: find the models, listen on 127.0.0.1, and open the browser once the first result is ready."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

PORT = 8500


def serve(
    models: Iterable[Path] = (), *, port: int | None = None, open_page: bool = True, report: Callable[[str], Any] = print, page: str = ""
) -> None:
    """Serve until Ctrl-C. port None: 8500, or the next free one. `report` gets the line with the address; `page` is its end, as #train."""
    from .app import create
    from .library import find_models

    listener = listen(port)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/?token="
    app = create(find_models(models))
    access, server = app.state.access, server_for(app)

    async def run() -> None:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not (server.started or serving.done()):
            await asyncio.sleep(0.02)
        if server.started:
            report(f"the studio is at {address}{access.token}{page}  (stop with Ctrl-C)")
            if hint := ssh_hint(listener.getsockname()[1], os.environ):
                report(hint)
            elif open_page:
                initial = app.state.initial_results
                first_result = asyncio.create_task(initial.of(initial.names[0]))
                await asyncio.wait({first_result, serving}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.to_thread(webbrowser.open, address + access.one_time_token() + page)
        await serving

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        sys.stderr.write("\n")


def ssh_hint(port: int, environment: Mapping[str, str]) -> str | None:
    """Return how to reach the studio from the machine the user sits at, if this one is used over SSH without a display.

    >>> print(ssh_hint(8500, {"SSH_CONNECTION": "10.0.0.2 50022 10.0.0.9 22", "USER": "ada"}))
    you are connected over SSH; on your own machine run
        ssh -N -L 8500:127.0.0.1:8500 ada@10.0.0.9
    and open the address above there
    """
    connection = environment.get("SSH_CONNECTION", "").split()
    if len(connection) != 4 or any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")):
        return None
    _, _, host, ssh_port = connection
    user = environment.get("USER") or environment.get("LOGNAME")
    option = "" if ssh_port == "22" else f" -p {ssh_port}"
    command = f"ssh -N -L {port}:127.0.0.1:{port}{option} {f'{user}@' if user else ''}{host}"
    return f"you are connected over SSH; on your own machine run\n    {command}\nand open the address above there"


def server_for(app: FastAPI) -> uvicorn.Server:
    """The server of an application, with the limits of `connections`. It keeps no log of addresses."""
    import uvicorn

    from .connections import KEEP_SECONDS, MAX_CONNECTIONS, Connection

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_level="warning",
            access_log=False,
            timeout_keep_alive=int(KEEP_SECONDS),
            timeout_graceful_shutdown=5,
            limit_concurrency=MAX_CONNECTIONS,
            server_header=False,
        )
    )


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
