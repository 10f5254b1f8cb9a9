"""One studio for all tests of its answers: real small models, the real worker, no browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the studio needs fastapi and uvicorn: pip install 'regard[studio]'")


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from studio_models import build

    return build(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Packed translators of a toy Chinese, with cards."""
    from studio_models import chinese

    return chinese(tmp_path_factory.mktemp("chinese"))


@pytest.fixture
def bench(chinese: dict[str, Path]) -> Iterator[Any]:
    """A worker's bench over them, without the process."""
    import threading

    import torch

    from regard.studio.bench import Bench
    from regard.studio.library import Library
    from regard.studio.worker import Progress

    with torch.no_grad():
        yield Bench(Library(chinese), Progress(lambda data: None, threading.Event()))


@pytest.fixture(scope="session")
def studio(folders: dict[str, Path]) -> Iterator[Any]:
    """A client of a running studio, as its own page would be."""
    from starlette.testclient import TestClient

    from regard.studio.app import create
    from regard.zoo.catalog import find

    app = create({**folders, "shakespeare": find("shakespeare").path}, threads=1)
    with TestClient(app, base_url="http://127.0.0.1:8500") as client:
        assert client.get("/api/first/look").json()["refused"] is None
        yield client
