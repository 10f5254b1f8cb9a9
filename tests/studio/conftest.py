"""One running studio for all tests: small real models, a real worker, no browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the studio needs fastapi and uvicorn: pip install 'regard[studio]'")


@pytest.fixture(scope="session", autouse=True)
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the studio and its worker keep the runs of the page Train."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_RUNS", str(folder))
        yield folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from studio_models import build

    return build(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Packed translators for a small made-up Chinese, with cards."""
    from studio_models import chinese

    return chinese(tmp_path_factory.mktemp("chinese"))


@pytest.fixture
def state(chinese: dict[str, Path]) -> Iterator[Any]:
    """The state of a worker with the Chinese translators, in the test process."""
    import threading

    import torch

    from regard.studio.library import Library
    from regard.studio.worker import Progress
    from regard.studio.worker_state import WorkerState

    with torch.no_grad():
        yield WorkerState(Library(chinese), Progress(lambda data: None, threading.Event()))


@pytest.fixture(scope="session")
def studio(folders: dict[str, Path]) -> Iterator[Any]:
    """A client of a running studio, with the headers of its own page."""
    from starlette.testclient import TestClient

    from regard.studio.app import create
    from regard.zoo.catalog import find

    app = create({**folders, "shakespeare": find("shakespeare").path}, threads=1)
    with TestClient(app, base_url="http://127.0.0.1:8500") as client:
        assert client.get(f"/?token={app.state.access.token}").url.path == "/"  # the cookie is set from here on
        assert client.get("/api/first/look").json()["refused"] is None
        yield client
