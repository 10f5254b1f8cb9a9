"""One headless chromium for all browser tests, a fresh profile for each page, and nothing in it may fail silently."""

from __future__ import annotations

import http.cookiejar
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

READY = ".regard[data-ready]"
TOKENS: dict[str, str] = {}  # address of a running studio → its token
COOKIES = http.cookiejar.CookieJar()  # of the running studios; urllib.request.urlopen sends them, and `visit` gives them to the browser
CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)


@pytest.fixture(scope="session", autouse=True)
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the studio and its worker keep the runs of the page Train."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_RUNS", str(folder))
        yield folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium here; install one (Debian: apt install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; pip install playwright")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield launched
        launched.close()


def _port(address: str) -> str:
    return address.strip("/").rpartition(":")[2]


def _bad(message: Any) -> bool:
    """Errors and warnings, but for the advice chromium gives to a test that reads pixels back."""
    return message.type in ("error", "warning") and "willReadFrequently" not in message.text


@contextmanager
def _serving(folders: dict[str, Path]) -> Iterator[str]:
    """The address of a running studio over these models."""
    pytest.importorskip("fastapi", reason="the studio needs fastapi and uvicorn: pip install 'regard[studio]'")
    import threading
    import time

    from regard.studio.app import create
    from regard.studio.serving import listen, server_for

    app = create(folders, threads=1)
    server = server_for(app)
    taken = listen(None)
    running = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    running.start()
    while not server.started:
        assert running.is_alive(), "the studio did not start"
        time.sleep(0.02)
    address = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    TOKENS[address] = app.state.access.token
    urllib.request.install_opener(urllib.request.build_opener(urllib.request.HTTPCookieProcessor(COOKIES)))
    urllib.request.urlopen(f"{address}?token={app.state.access.token}", timeout=600).close()
    for page in ("translate", "look", "write"):  # a busy machine may take a while to start the worker and open the models
        urllib.request.urlopen(f"{address}api/first/{page}", timeout=600).close()
    yield address
    server.should_exit = True
    running.join(timeout=20)


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A studio over small real models and the shipped Shakespeare."""
    from regard.zoo.catalog import find
    from studio_models import build

    with _serving({**build(tmp_path_factory.mktemp("models")), "shakespeare": find("shakespeare").path}) as address:
        yield address


@pytest.fixture(scope="session")
def chinese_studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A studio over packed translators, one that attends and one that does not, and a third whose weights were changed after packing."""
    from studio_models import changed, chinese

    folder = tmp_path_factory.mktemp("chinese")
    models = chinese(folder)
    with _serving({**models, "zh-en-changed": changed(models["zh-en-transformer"], folder / "changed")}) as address:
        yield address


@pytest.fixture(scope="session")
def german_studio() -> Iterator[str]:
    """A studio over the shipped German translator."""
    from regard.zoo.catalog import find

    with _serving({"de-en-transformer": find("de-en-transformer").path}) as address:
        yield address


@pytest.fixture
def empty_studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A studio without any model, also without those that other tests trained."""
    monkeypatch.setenv("REGARD_RUNS", str(tmp_path / "runs"))
    with _serving({}) as address:
        yield address


@pytest.fixture(scope="session")
def studio_tokens() -> dict[str, str]:
    """The token of every running studio, by address; `visit` needs none of them, since it gives the browser the cookie."""
    return TOKENS


@pytest.fixture(scope="session")
def wait() -> Any:
    """playwright's expectations, patient enough for a slow machine."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; pip install playwright")
    sync_api.expect.set_options(timeout=60_000)
    return sync_api.expect


@pytest.fixture(scope="session")
def axe() -> Callable[[Any], None]:
    """Assert that axe-core finds nothing serious on a page."""
    module = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python to check the pages with axe-core"
    )

    labelled = "[...document.querySelectorAll('button')].every((b) => b.textContent.trim() || b.ariaLabel || b.title)"

    def check(page: Any) -> None:
        for _ in range(50):  # a view that is being drawn gets its texts last; axe tells what stays without
            if page.evaluate(labelled):
                break
            page.wait_for_timeout(100)
        violations = module.Axe().run(page).response["violations"]
        serious = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
        assert [f"{v['id']} ({v['impact']}): {[n['target'] for n in v['nodes']][:4]}" for v in serious] == []

    return check


@pytest.fixture
def visit(browser: Any, studio: str) -> Iterator[Callable[..., Any]]:
    """Open a page of the studio. At the end: no error was logged (but those a test expects), and no request left this machine."""
    opened: list[tuple[Any, list[str], list[str]]] = []

    def open_page(
        fragment: str = "",
        *,
        at: str = studio,
        lang: str = "en",
        width: int = 1360,
        height: int = 900,
        refusals: bool = False,
        **context: Any,
    ) -> Any:
        tab = browser.new_context(viewport={"width": width, "height": height}, locale="zh-CN" if lang == "zh" else "en-US", **context)
        tab.set_default_timeout(60_000)
        tab.add_cookies([{"name": cookie.name, "value": cookie.value, "url": at} for cookie in COOKIES if cookie.name.endswith(_port(at))])
        page = tab.new_page()
        errors: list[str] = []
        requests: list[str] = []
        page.on("console", lambda m: errors.append(m.text) if _bad(m) and not (refusals and "Failed to load resource" in m.text) else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        opened.append((tab, errors, requests))
        page.goto(at + fragment)
        page.wait_for_selector("#page[data-ready]")
        return page

    yield open_page
    for tab, errors, requests in opened:
        tab.close()
        assert errors == []
        assert [url for url in requests if not url.startswith(("http://127.0.0.1:", "data:", "blob:"))] == []


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a page from disk. At the end: no error was logged, and no request left the file."""
    opened: list[tuple[Any, list[str], list[str]]] = []

    def open_page(text: str, *, fragment: str = "", width: int = 1360, height: int = 900, ready: str = READY, **context: Any) -> Any:
        path = tmp_path / f"page{len(opened)}.html"
        path.write_text(text, encoding="utf-8")
        tab = browser.new_context(viewport={"width": width, "height": height}, **context)
        page = tab.new_page()
        errors: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if _bad(message) else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"dialog: {dialog.message}") or dialog.dismiss())  # type: ignore[func-returns-value]
        page.on("request", lambda request: requests.append(request.url))
        opened.append((tab, errors, requests))
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector(ready)
        return page

    yield open_page
    for tab, errors, requests in opened:
        tab.close()
        assert errors == []
        assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
