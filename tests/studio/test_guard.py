"""The checks of every request (Host, Origin, size, type) and the headers of every response."""

import asyncio
from typing import Any

import pytest

from regard.studio import guard
from regard.studio.access import Access
from regard.studio.guard import MAX_BYTES, Guard, check, read_headers
from regard.studio.request_error import RequestError

OWN_HEADERS = {"host": "127.0.0.1:8500", "content-type": "application/json"}


@pytest.mark.parametrize("host", ["127.0.0.1:8500", "localhost:8500", "localhost", "[::1]:8500", "LOCALHOST:1"])
def test_loopback_names_are_allowed(host: str) -> None:
    check("GET", "/", {"host": host})


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "127.0.0.1.evil.example:8500",
        "localhost.evil.example",
        "127.0.0.1@evil.example",
        "0.0.0.0",
        "[::1",
        "127.0.0.1\\evil.example",
        "evil.example\\@127.0.0.1",
        "127.0.0.1:8500/evil.example",
        "127.0.0.1:",
        "127.0.0.1 evil.example",
        "127.0.0.1,evil.example",
        "::1",
    ],
)
def test_other_host_names_are_refused(host: str) -> None:
    with pytest.raises(RequestError) as error:
        check("GET", "/", {"host": host})
    assert error.value.code == "host"
    assert error.value.status == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8500", "file://"])
def test_posts_of_other_origins_are_refused(origin: str) -> None:
    with pytest.raises(RequestError, match="own page"):
        check("POST", "/api/steps", {**OWN_HEADERS, "origin": origin})
    with pytest.raises(RequestError, match="own page"):
        check("DELETE", "/api/jobs/x", {**OWN_HEADERS, "origin": origin})


def test_our_own_origin_and_programs_without_one_may_post() -> None:
    check("POST", "/api/steps", {**OWN_HEADERS, "origin": "http://127.0.0.1:8500", "sec-fetch-site": "same-origin"})
    check("POST", "/api/steps", OWN_HEADERS)


@pytest.mark.parametrize("name", ["Host", "Origin", "origin", "Content-Length", "Authorization"])
def test_a_header_that_is_there_twice_is_refused(name: str) -> None:
    own = [(key.encode(), value.encode()) for key, value in OWN_HEADERS.items()]
    assert read_headers(own) == OWN_HEADERS
    with pytest.raises(RequestError, match="two headers"):
        read_headers([*own, (name.encode(), b"http://127.0.0.1:8500"), (name.lower().encode(), b"http://evil.example")])


def test_cross_site_reads_of_the_api_are_refused_even_without_an_origin() -> None:
    with pytest.raises(RequestError):
        check("GET", "/api/models", {**OWN_HEADERS, "sec-fetch-site": "cross-site"})
    check("GET", "/", {**OWN_HEADERS, "sec-fetch-site": "cross-site"})  # a link to the page itself is harmless


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_forms_other_sites_could_send_are_refused(kind: str) -> None:
    with pytest.raises(RequestError) as error:
        check("POST", "/api/steps", {**OWN_HEADERS, "content-type": kind})
    assert error.value.status == 415


@pytest.mark.parametrize("length", [str(MAX_BYTES + 1), "-1", "many"])
def test_a_large_body_is_refused_before_it_is_read(length: str) -> None:
    with pytest.raises(RequestError) as error:
        check("POST", "/api/steps", {**OWN_HEADERS, "content-length": length})
    assert error.value.status == 413


def _through(chunks: list[bytes], *, stall: bool = False) -> tuple[int, list[bytes]]:
    """The status for a body sent in chunks, and the bodies that reached the application."""
    received: list[bytes] = []
    sent: list[dict[str, Any]] = []
    waiting = list(chunks)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        received.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> dict[str, Any]:
        if not waiting and stall:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting) or stall}

    async def send(message: Any) -> None:
        sent.append(message)

    access = Access()
    headers = [(name.encode(), value.encode()) for name, value in {**OWN_HEADERS, "authorization": f"Bearer {access.token}"}.items()]
    asyncio.run(Guard(app, access)({"type": "http", "method": "POST", "path": "/api/steps", "headers": headers}, receive, send))
    return sent[0]["status"], received


def test_a_body_in_pieces_arrives_whole() -> None:
    assert _through([b"ab", b"cd"]) == (200, [b"abcd"])


def test_a_body_larger_than_its_content_length_is_refused() -> None:
    piece = b"x" * 500_000
    assert _through([piece] * 5) == (413, [])


def test_a_body_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_BODY_SECONDS", 0.05)
    assert _through([b"a"], stall=True) == (408, [])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[" * 10**5,
        b'{"config": ' * 10**5,
        b'{"config": {"model_type": "gpt2", "n_layer": NaN}}',
        b'{"config": {"model_type": "gpt2", "n_layer": 1' + b"0" * 5000 + b"}}",
        b'{"preset": "\\ud800", "model": "\\ud800"}',
        b'{"preset": "\\u0000", "model": "\\u0000", "text": "\\u0000"}',
        b"\xff\xfe{}",
        b'{"preset": "gpt2"',
    ],
    ids=lambda body: repr(body[:30]),
)
def test_a_body_that_is_no_request_is_the_client_s_error(studio: Any, body: bytes) -> None:
    for path in ("/api/cost/plan", "/api/look", "/api/steps"):
        answer = studio.post(path, content=body, headers={"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500, (path, answer.text)
        assert answer.headers["content-type"] == "application/json"
        assert set(guard.HEADERS) <= set(answer.headers)


def test_every_response_has_the_security_headers(studio: Any) -> None:
    for answer in (
        studio.get("/"),
        studio.get("/static/studio/static/main.js"),
        studio.get("/static/studio/pages/look/page.js"),
        studio.get("/api/models"),
        studio.get("/nothing"),
        studio.post("/api/steps", json={}),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http:" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "name",
    [
        "../app.py",
        "..%2fapp.py",
        "%2e%2e/app.py",
        "main.js",
        "web/bundle.py",
        "web/nothing.js",
        "studio/app.py",
        "studio/static/index.html",
        "....//app.py",
        "C:%5cx.js",
        "studio/pages/look/__init__.py",
        "studio/pages/look/..%2f..%2fstatic/main.js",
        "studio/pages/look/..%2f..%2fapp.py",
        "studio/pages/nothing/page.js",
        "studio/pages/look",
        "/etc/passwd.js",
        "%00",
        "studio/static/main.js%00",
        "a" * 5000,
        "a/" * 3000 + "main.js",
        "%ff%fe.js",
    ],
)
def test_only_the_page_s_own_files_are_served(studio: Any, name: str) -> None:
    answer = studio.get(f"/static/{name}")
    assert answer.status_code == 404
    assert set(guard.HEADERS) <= set(answer.headers)
