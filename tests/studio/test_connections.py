"""Connections that send nothing, or too slowly, keep nobody out. A real server on a real port."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from regard.studio import connections
from regard.studio.app import create
from regard.studio.serving import listen, server_for


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[int, str]]:
    """The port and the token of a studio without models."""
    app = create({}, threads=1)
    running, listener = server_for(app), listen(None)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not running.started:
        assert thread.is_alive()
        time.sleep(0.02)
    yield listener.getsockname()[1], app.state.access.token
    running.should_exit = True
    thread.join(timeout=30)


def answered(server: tuple[int, str]) -> int:
    port, token = server
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/api/models", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def opened(port: int, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(data)
    return connection


def closed(connection: socket.socket) -> bool:
    """Whether the server ends the connection within the socket's timeout."""
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\nHost: 127"], ids=["idle", "half a head"])
def test_two_hundred_waiting_connections_keep_nobody_out(server: tuple[int, str], data: bytes) -> None:
    held = [opened(server[0], data) for _ in range(200)]
    try:
        assert [answered(server) for _ in range(20)] == [200] * 20
        assert closed(held[0])  # the oldest gave way
    finally:
        for connection in held:
            connection.close()


def test_a_head_that_does_not_come_in_time_ends_the_connection(server: tuple[int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    idle, slow = opened(server[0]), opened(server[0], b"GET / HTTP/1.1\r\n")
    for i in range(40):  # a byte now and then does not buy more time
        try:
            slow.sendall(b"X-%d: y\r\n" % i)
        except OSError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the slow connection is still open")
    assert closed(idle)


def test_a_connection_can_be_used_again_and_is_closed_when_it_is_not(server: tuple[int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "KEEP_SECONDS", 0.3)
    request = f"GET /api/models HTTP/1.1\r\nHost: 127.0.0.1:{server[0]}\r\nAuthorization: Bearer {server[1]}\r\n\r\n".encode()
    connection = opened(server[0])
    reader: Any = connection.makefile("rb")
    for _ in range(3):
        connection.sendall(request)
        assert reader.readline().startswith(b"HTTP/1.1 200")
        length = 0
        while (line := reader.readline()) != b"\r\n":
            length = int(line.split()[1]) if line.lower().startswith(b"content-length") else length
        reader.read(length)
        time.sleep(0.1)
    assert reader.read() == b""  # the server closed it


def test_a_request_without_the_token_cannot_hold_a_connection(server: tuple[int, str]) -> None:
    """It is answered before its body is read, and closed."""
    head = f"POST /api/steps HTTP/1.1\r\nHost: 127.0.0.1:{server[0]}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    connection = opened(server[0], head.encode())
    assert connection.makefile("rb").read().startswith(b"HTTP/1.1 403")
