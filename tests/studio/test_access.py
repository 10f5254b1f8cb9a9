"""The token: without it the studio answers nobody; it is exchanged once for a cookie, and never shown again."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.studio.access import Access

HOST = "127.0.0.1:8500"


@pytest.fixture
def anyone(studio: Any) -> Iterator[Any]:
    """A client of the running studio that knows nothing: another user of the machine."""
    return TestClient(studio.app, base_url=f"http://{HOST}", follow_redirects=False)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/?token="),
        ("GET", "/?token=guess"),
        ("GET", "/static/studio/static/main.js"),
        ("GET", "/static/nothing.js"),
        ("GET", "/api/models"),
        ("GET", "/api/openapi.json"),
        ("GET", "/api/models?token=TOKEN"),  # the token opens the page and nothing else
        ("GET", "/nothing"),
        ("POST", "/api/steps"),
        ("DELETE", "/api/jobs/x"),
        ("OPTIONS", "/api/steps"),
    ],
)
def test_without_the_token_nobody_is_answered(studio: Any, anyone: Any, method: str, path: str) -> None:
    answer = anyone.request(method, path.replace("TOKEN", studio.app.state.access.token))
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert studio.app.state.access.token not in answer.text


@pytest.mark.parametrize("cookie", ["", "regard-studio-8500=", "regard-studio-8500=guess", "regard-studio-8501=RIGHT", "x=RIGHT", "é"])
def test_other_cookies_are_worth_nothing(studio: Any, anyone: Any, cookie: str) -> None:
    right = studio.cookies["regard-studio-8500"]
    headers = {"Cookie": cookie.replace("RIGHT", right).encode("latin-1")}
    assert anyone.get("/api/models", headers=headers).status_code == 403
    assert anyone.get("/api/models", headers={"Cookie": f"é=1; regard-studio-8500={right}".encode("latin-1")}).status_code == 200


def test_the_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_cannot_use(studio: Any, anyone: Any) -> None:
    token = studio.app.state.access.token
    answer = anyone.get(f"/?token={token}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert token not in cookie
    assert token not in str(answer.headers) + answer.text
    assert anyone.get("/").status_code == 200  # the client has kept the cookie
    assert token not in anyone.get("/").text


def test_programs_send_the_token_as_a_header(studio: Any, anyone: Any) -> None:
    token = studio.app.state.access.token
    assert anyone.get("/api/models", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    for wrong in ("", "Bearer", f"Basic {token}", f"Bearer {token}x", f"Bearer {token[:-1]}"):
        assert anyone.get("/api/models", headers={"Authorization": wrong}).status_code == 403


def test_a_one_time_token_opens_the_page_once() -> None:
    access, headers = Access(), {"host": HOST}
    once = access.one_time_token()
    assert access.exchange(f"token={once}".encode(), headers)
    assert access.exchange(f"token={once}".encode(), headers) is None
    assert access.exchange(f"token={access.token}".encode(), headers)
    assert access.exchange(b"token=" + b"x" * 100_000, headers) is None
    assert access.exchange(b"&".join([b"a=1"] * 3000), headers) is None


def test_a_link_from_another_site_loads_the_page_a_second_time(anyone: Any) -> None:
    """The browser keeps a strict cookie back when a link of another site is followed, and sends it when the page loads itself."""
    assert 'http-equiv="refresh"' in anyone.get("/", headers={"Sec-Fetch-Site": "cross-site"}).text
    assert 'http-equiv="refresh"' not in anyone.get("/", headers={"Sec-Fetch-Site": "same-origin"}).text
    assert 'http-equiv="refresh"' not in anyone.get("/").text
