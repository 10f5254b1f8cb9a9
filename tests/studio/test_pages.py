"""Pages are found by listing their package; a folder is all a page needs."""

import inspect
import json
import posixpath
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.studio import pages as package
from regard.studio.page import Page, WorkerEndpoint
from regard.studio.pages import pages, worker_task

FOLDER = Path(package.__file__).parent


def test_every_folder_is_a_page_with_its_files() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert {page.name for page in pages()} == folders
    for name in folders:
        assert (FOLDER / name / "page.js").is_file()
        assert (FOLDER / name / "texts.js").is_file()


def test_tabs_have_an_order() -> None:
    orders = [page.order for page in pages()]
    assert orders == sorted(set(orders))
    assert [page.name for page in pages()][:4] == ["home", "learn", "look", "translate"]


def test_the_browser_is_told_the_pages_and_can_load_them(studio: Any) -> None:
    names = [page.name for page in pages()]
    listed = ", ".join(f'"{name}"' for name in names)
    assert f'"pages": [{listed}]' in studio.get("/").text.replace('","', '", "').replace('":[', '": [')
    for name in names:
        for file in ("page.js", "texts.js"):
            answer = studio.get(f"/static/studio/pages/{name}/{file}")
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/javascript")


def test_the_page_names_the_modules_it_needs_before_they_are_imported(studio: Any) -> None:
    html = studio.get("/").text
    assert "{{" not in html
    table = json.loads(re.search(r'id="modules">(.*?)</script>', html, re.DOTALL)[1])
    linked = re.findall(r'rel="modulepreload" href="/static/([^"]+)"', html)
    assert list(table) == [page.name for page in pages()]
    for name, paths in table.items():
        known = {*linked, *paths}
        assert f"studio/pages/{name}/page.js" in paths
        for path in known:
            text = studio.get(f"/static/{path}").text
            for imported in re.findall(r'^(?:import|\}) .*from "(\.[^"]+)";$', text, re.MULTILINE):
                assert posixpath.normpath(posixpath.join(posixpath.dirname(path), imported)) in known, (name, path, imported)


def test_a_worker_task_takes_the_fields_of_its_request() -> None:
    for page in pages():
        for one in page.endpoints:
            if isinstance(one, WorkerEndpoint):
                parameters = inspect.signature(one.run).parameters
                assert next(iter(parameters)) == "state"
                takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
                assert takes_all or set(one.body.model_fields) <= set(parameters), one.run
                assert worker_task(f"{page.name}{one.path}") is one.run


def test_initial_requests_are_valid_requests_of_the_worker() -> None:
    for page in pages():
        if page.initial_request is not None:
            assert page.name in page.worker_tasks()


def test_the_worker_needs_no_web_server() -> None:
    program = """
import sys
import regard.studio.worker
from regard.studio.worker_state import WorkerState
from regard.studio.pages import worker_task
worker_task("translate"), worker_task("look/what-if")
print([name for name in ("fastapi", "starlette", "uvicorn", "regard.studio.pages.steps") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(("text", "message"), [("", "PAGE = None"), ("from ...page import Page\nPAGE = Page('other', 1)", "other")])
def test_a_folder_that_is_not_a_page_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "__init__.py").write_text(text)
    monkeypatch.setattr(package, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "regard.studio.pages.odd", raising=False)
    with pytest.raises(TypeError, match=f"pages/odd/__init__.py defines .*{message}.*; expected PAGE = Page"):
        pages.__wrapped__()


def test_a_new_folder_is_found_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, order in (("later", 2), ("sooner", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"from ...page import Page\nPAGE = Page({name!r}, {order})")
        monkeypatch.delitem(sys.modules, f"regard.studio.pages.{name}", raising=False)
    monkeypatch.setattr(package, "__path__", [str(tmp_path)])
    assert pages.__wrapped__() == (Page("sooner", 1), Page("later", 2))


def test_initial_results_are_computed_once_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading
    import time
    from types import SimpleNamespace

    from regard.studio import initial_results

    computed: list[int] = []

    def slowly() -> dict[str, int]:
        computed.append(1)
        time.sleep(0.2)
        return {"answer": 42}

    monkeypatch.setattr(initial_results, "pages", lambda: [SimpleNamespace(name="slow", initial_results=slowly)])
    initial_results._computed_results.cache_clear()
    told: list[object] = []
    threads = [threading.Thread(target=lambda: told.append(initial_results.computed_results())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    initial_results._computed_results.cache_clear()
    assert told == [{"slow": {"answer": 42}}] * 3
    assert len(computed) == 1
