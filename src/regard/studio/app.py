"""The application: rooms, guard, worker and page put together."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from ..sight.views.report import component_css, component_js, embedded
from . import palette
from .first import MOLE, First
from .guard import Guard
from .jobs import Jobs
from .library import Library
from .refusal import Refusal
from .rooms import cost, look, regression, steps, translate
from .rooms import jobs as job_room
from .rooms.answers import refusals

KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MADE = {"regard-view.js": component_js, "regard-view.css": component_css, "palette.js": palette.script}


def create(folders: dict[str, Path], *, threads: int = 0, most_waiting: int = 16) -> FastAPI:
    """The studio over the models in these folders."""
    library = Library(folders)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        import torch

        torch.set_num_threads(1)  # the server's own work is small; the worker has the machine
        jobs = Jobs({name: str(path) for name, path in folders.items()}, threads=threads, most_waiting=most_waiting)
        await jobs.start()
        warm = asyncio.create_task(asyncio.to_thread(_light))
        app.state.jobs, app.state.first = jobs, First(library)
        making = asyncio.create_task(app.state.first.make(jobs))
        try:
            yield
        finally:
            making.cancel()
            await warm
            with contextlib.suppress(asyncio.CancelledError):
                await making
            await jobs.close()

    from .. import __version__

    app = FastAPI(
        title="regard studio",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        description="Attention on a page. Everything the page can do, a program on this machine can do: POST JSON, read JSON.",
    )
    app.state.library, app.state.kept = library, {}
    app.add_middleware(Guard)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    for room in (translate, look, steps, regression, cost, job_room):
        app.include_router(room.router)
    _pages(app)
    return app


def _pages(app: FastAPI) -> None:
    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page(request: Request) -> str:
        """The shell, with the first results in it if they are there."""
        first: First = request.app.state.first
        known = {"models": _models(request.app.state.library), "first": {**first.ready, **_light()}, "mole": MOLE}
        return _static("index.html").replace("{{known}}", embedded(known))

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        kind = KINDS.get(Path(name).suffix)
        if kind is None or "/" in name or "\\" in name:
            raise HTTPException(404)
        try:
            text = MADE[name]() if name in MADE else _static(name)
        except FileNotFoundError:
            raise HTTPException(404) from None
        return Response(text, media_type=kind)

    @app.get("/api/models", tags=["models"], summary="The models of the studio", responses=refusals())
    def models(request: Request) -> dict[str, Any]:
        return {"models": _models(request.app.state.library)}

    @app.get("/api/first/{room}", tags=["models"], summary="What a room shows first", responses=refusals())
    async def first(room: Annotated[Literal["translate", "look"], InPath()], request: Request) -> dict[str, Any]:
        found: dict[str, Any] = await request.app.state.first.of(room)
        return found

    @app.get("/api/health", tags=["models"], summary="How the server stands", responses=refusals())
    def health(request: Request) -> dict[str, Any]:
        from .memory import free_bytes

        jobs: Jobs = request.app.state.jobs
        return {"waiting": jobs.waiting, "restarts": jobs.restarts, "free_bytes": free_bytes()}


@cache
def _light() -> dict[str, Any]:
    """The first results of the rooms the server answers itself."""
    known = {"fit": regression.fit(regression.Fit()), "learn": regression.learn(regression.Points())}
    return {"cost": cost.plan(cost.Workload()), "presets": cost.presets()["presets"], "regression": known}


def _models(library: Library) -> list[dict[str, Any]]:
    return [
        {name: getattr(m, name) for name in ("name", "kind", "about", "attention", "source", "reads", "lengths", "bleu")}
        for m in library.models.values()
    ]


def _static(name: str) -> str:
    return files("regard.studio").joinpath("static", name).read_text(encoding="utf-8")


def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    return JSONResponse(error.plain(), status_code=error.status, headers=error.headers)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Say which field is wrong and why, in one sentence."""
    assert isinstance(error, RequestValidationError)
    told = []
    for one in error.errors()[:3]:
        where = ".".join(str(part) for part in one["loc"] if part not in ("body", "query", "path"))
        told.append(f"{where}: {one['msg'].removeprefix('Value error, ')}" if where else one["msg"].removeprefix("Value error, "))
    body = {"code": "invalid", "message": "; ".join(told), "values": {}}
    return JSONResponse(json.loads(json.dumps(body, ensure_ascii=True)), status_code=422)


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:  # a body that is not even text
        return JSONResponse(Refusal("invalid", "the body cannot be read as JSON; send JSON in UTF-8").plain(), status_code=422)
    codes = {404: "nothing", 405: "method"}
    body = {"code": codes.get(error.status_code, "failed"), "message": f"{request.method} {request.url.path}: {error.detail}", "values": {}}
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)
