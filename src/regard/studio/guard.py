"""Checks on every request: it must come from this machine's own page, from someone with the token, and be neither too large nor too slow.

A page of another site cannot read our responses (no CORS), but it could send a POST, or reach the server under a host name of its own that
resolves to 127.0.0.1 (DNS rebinding). So the Host must be a loopback name, and API requests must come from our own origin. Other users of
the machine can reach the port too, so every request, also for a file, needs the cookie or the token (`access`).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .access import Access, page_without_token
from .request_error import RequestError

LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)  # the whole Host header
ONCE = frozenset({"host", "origin", "content-type", "content-length", "authorization", "sec-fetch-site"})  # two would be read differently
MAX_BYTES = 2_000_000  # of a request; enough for 100,000 tokens of text or 2,000 points
MAX_BODY_SECONDS = 20.0  # seconds a request's body may take to arrive
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-cache",
}


class Guard:
    """ASGI middleware: checks Host, Origin, the token and the size of the body, and adds security headers to every response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # websockets are not supported

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                extra = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in present]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        try:
            headers = read_headers(scope["headers"])
            check_host(headers)
            page = scope["method"] in ("GET", "HEAD") and scope["path"] == "/"
            if page and (cookie := self.access.exchange(scope.get("query_string", b""), headers)):
                await _send(303, b"", send_with_headers, (b"location", b"/"), (b"set-cookie", cookie.encode()))
                return
            if not self.access.allows(headers):
                if page:
                    await _send(403, page_without_token(headers), send_with_headers, (b"content-type", b"text/html; charset=utf-8"))
                    return
                raise RequestError("token", "this request has no token; open the address that the studio printed when it started")
            check(scope["method"], scope["path"], headers)
            body = await _read_body(receive, int(headers.get("content-length") or 0)) if scope["method"] not in ("GET", "HEAD") else b""
        except RequestError as error:
            await _send_error(error, send_with_headers)
            return
        await self.app(scope, _replay(body, receive), send_with_headers)


def check(method: str, path: str, headers: dict[str, str]) -> None:
    """Raise RequestError for a request that does not come from this machine's own page, is not JSON, or is too large.

    >>> check("POST", "/api/steps", {"host": "127.0.0.1:8500", "origin": "http://evil.example"})
    Traceback (most recent call last):
    ...
    regard.studio.request_error.RequestError: the request comes from http://evil.example; only the studio's own page may send requests
    """
    check_host(headers)
    host = headers["host"]
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
    other_origin = origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower())
    cross_site = site not in ("same-origin", "none") and not (site == "same-site" and not other_origin)
    if (path.startswith("/api") and (cross_site or other_origin)) or (other_origin and method not in ("GET", "HEAD")):
        raise RequestError(
            "origin",
            f"the request comes from {origin or 'another site'}; only the studio's own page may send requests",
            origin=origin or "",
        )
    if method in ("POST", "PUT", "PATCH"):
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestError("kind", f"the Content-Type is {kind or 'missing'}; send application/json", kind=kind)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 20 or int(length) > MAX_BYTES:
            raise RequestError("large", f"the request is larger than {MAX_BYTES:,} bytes; shorten it", most=MAX_BYTES)


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers by lower-case name. Raise RequestError for a second Host, Origin, …: another reader might believe the other one."""
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in joined and name in ONCE:
            raise RequestError("host" if name == "host" else "origin", f"the request has two headers {name}; expected one")
        joined[name] = f"{joined[name]}; {value}" if name in joined else value
    return joined


def check_host(headers: Mapping[str, str]) -> None:
    """Raise RequestError for a Host that is not a loopback name."""
    host = headers.get("host", "")
    if not LOOPBACK.fullmatch(host):
        raise RequestError("host", f"the Host of the request is {host or 'missing'}; open the studio as 127.0.0.1 or localhost", host=host)


async def _read_body(receive: Receive, expected: int) -> bytes:
    """Read the body: at most MAX_BYTES, within MAX_BODY_SECONDS."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(MAX_BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestError("slow", "the connection was closed before the body was complete", seconds=MAX_BODY_SECONDS)
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MAX_BYTES:
                    raise RequestError("large", f"the request is larger than {MAX_BYTES:,} bytes; shorten it", most=MAX_BYTES)
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise RequestError(
            "slow", f"{size:,} of {expected:,} bytes arrived in {MAX_BODY_SECONDS:g} s; send it again", seconds=MAX_BODY_SECONDS
        ) from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive function that first returns the body already read, then the messages of the server (such as a disconnect)."""
    sent = False

    async def receive_again() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receive_again


async def _send_error(error: RequestError, send: Send) -> None:
    body = json.dumps(error.to_json(), ensure_ascii=True).encode()
    await _send(error.status, body, send, (b"content-type", b"application/json"), (b"connection", b"close"))


async def _send(status: int, body: bytes, send: Send, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
