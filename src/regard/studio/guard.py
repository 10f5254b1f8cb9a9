"""The door of the studio: only this machine's own page may ask, and no request may be larger or slower than it needs to be.

A page on another site cannot read our answers (no CORS), but it could post to us, or reach us under a name of its own that it points at
127.0.0.1 (DNS rebinding). So the Host must be a loopback name, and whatever changes or computes must come from our own origin.
"""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .refusal import Refusal

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
MOST_BYTES = 2_000_000  # of a request: 100,000 tokens of text, or 2,000 points
SLOWEST = 20.0  # seconds a request's body may take to arrive
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
    """ASGI middleware: checks Host and Origin, counts the body's bytes, and puts the strict headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # there are no websockets here

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                extra = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in own]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        try:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            check(scope["method"], scope["path"], headers)
            whole = await _body(receive, int(headers.get("content-length") or 0)) if scope["method"] not in ("GET", "HEAD") else b""
        except Refusal as refusal:
            await _refuse(refusal, guarded)
            return
        await self.app(scope, _replay(whole, receive), guarded)


def check(method: str, path: str, headers: dict[str, str]) -> None:
    """Refuse a request that is not ours.

    >>> check("POST", "/api/steps", {"host": "127.0.0.1:8500", "origin": "http://evil.example"})
    Traceback (most recent call last):
    ...
    regard.studio.refusal.Refusal: this came from http://evil.example; the studio answers its own page only
    """
    host = headers.get("host", "")
    if _name(f"//{host}") not in LOOPBACK:
        raise Refusal("host", f"this was asked of {host or 'no host'}; the studio answers as 127.0.0.1 or localhost only", host=host)
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
    strange = origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower())
    foreign = site not in ("same-origin", "none") and not (site == "same-site" and not strange)
    if (path.startswith("/api") and (foreign or strange)) or (strange and method not in ("GET", "HEAD")):
        raise Refusal("origin", f"this came from {origin or 'another site'}; the studio answers its own page only", origin=origin or "")
    if method in ("POST", "PUT", "PATCH"):
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal("kind", f"the body is {kind or 'of no type'}; send application/json", kind=kind)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            raise Refusal("large", f"the request is larger than {MOST_BYTES:,} bytes; shorten it", most=MOST_BYTES)


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


async def _body(receive: Receive, expected: int) -> bytes:
    """The whole body, read before anything starts: never more than MOST_BYTES, never slower than SLOWEST."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(SLOWEST):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal("slow", "the request ended before its body did", seconds=SLOWEST)
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MOST_BYTES:
                    raise Refusal("large", f"the request is larger than {MOST_BYTES:,} bytes; shorten it", most=MOST_BYTES)
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Refusal("slow", f"{size:,} of {expected:,} bytes came within {SLOWEST:g} s; send it again", seconds=SLOWEST) from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then whatever the server has to say (that the client left)."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


async def _refuse(refusal: Refusal, send: Send) -> None:
    body = json.dumps(refusal.plain(), ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
