"""The FastAPI application: pages, guard, worker and static files."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from ..web import script_json
from . import job_routes
from .access import Access
from .guard import Guard
from .initial_results import InitialResults, computed_results
from .jobs import Jobs
from .library import Library
from .pages import pages
from .pages.train.trainings import TRAININGS
from .request_error import RequestError
from .requests import error_responses, page_router
from .static_files import index_html, served_file


def create(folders: dict[str, Path], *, threads: int = 0, max_waiting: int = 16) -> FastAPI:
    """Build the application for the models in these folders; only who has the token of `app.state.access` may use it."""
    library, access = Library(folders), Access()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        import torch

        torch.set_num_threads(1)  # the server's own work is small; the cores are for the worker
        jobs = Jobs({name: str(path) for name, path in folders.items()}, threads=threads, max_waiting=max_waiting)
        await jobs.start()
        computing = asyncio.create_task(asyncio.to_thread(computed_results))
        app.state.jobs, app.state.initial_results = jobs, InitialResults(library)
        making = asyncio.create_task(app.state.initial_results.make(jobs))
        try:
            yield
        finally:
            making.cancel()
            await computing
            with contextlib.suppress(asyncio.CancelledError):
                await making
            await asyncio.to_thread(TRAININGS.close)
            await jobs.close()

    from .. import __version__

    app = FastAPI(
        title="regard studio",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        description="The API behind the pages of the studio. Programs on this machine can use it too: POST JSON, read JSON.",
    )
    app.state.library, app.state.program_outputs, app.state.access = library, {}, access
    app.add_middleware(Guard, access=access)
    app.add_exception_handler(RequestError, _request_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    for page in pages():
        app.include_router(page_router(page))
    app.include_router(job_routes.router)
    _shell_routes(app)
    return app


def _shell_routes(app: FastAPI) -> None:
    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def index(request: Request) -> str:
        """The shell, with the initial results that are ready."""
        initial: InitialResults = request.app.state.initial_results
        data = {
            "pages": [page.name for page in pages()],
            "models": _models(request.app.state.library),
            "initial": {**initial.ready, **computed_results()},
        }
        return index_html().replace("{{known}}", script_json(data))

    @app.get("/static/{path:path}", include_in_schema=False)
    async def static(path: str) -> Response:  # small files: a thread for each would take longer than reading them
        file = served_file(path)
        if file is None:
            raise HTTPException(404)
        text, media_type = file
        return Response(text, media_type=media_type)

    @app.get("/api/models", tags=["models"], summary="The models of the studio", responses=error_responses())
    def models(request: Request) -> dict[str, Any]:
        return {"models": _models(request.app.state.library)}

    @app.get("/api/first/{page}", tags=["models"], summary="What a page shows first", responses=error_responses())
    async def first(request: Request, page: str = PathParameter(pattern=f"^({'|'.join(InitialResults.names)})$")) -> dict[str, Any]:
        initial: InitialResults = request.app.state.initial_results
        return await initial.of(page)

    @app.get("/api/health", tags=["models"], summary="State of the server", responses=error_responses())
    def health(request: Request) -> dict[str, Any]:
        from .memory import free_bytes

        jobs: Jobs = request.app.state.jobs
        return {"waiting": jobs.waiting, "restarts": jobs.restarts, "free_bytes": free_bytes()}


def _models(library: Library) -> list[dict[str, Any]]:
    return [
        {name: getattr(m, name) for name in ("name", "kind", "about", "attention", "source", "reads", "lengths", "bleu", "limit", "writes")}
        for m in library.with_runs()
    ]


def _request_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)
    return JSONResponse(error.to_json(), status_code=error.status, headers=error.headers)


def _validation_error(request: Request, error: Exception) -> JSONResponse:
    """The first three wrong fields and what is wrong with them, in one sentence."""
    assert isinstance(error, RequestValidationError)
    messages = []
    for detail in error.errors()[:3]:
        field = ".".join(str(part) for part in detail["loc"] if part not in ("body", "query", "path"))
        message = detail["msg"].removeprefix("Value error, ")
        messages.append(f"{field}: {message}" if field else message)
    body = {"code": "invalid", "message": "; ".join(messages), "values": {}}
    return JSONResponse(json.loads(json.dumps(body, ensure_ascii=True)), status_code=422)


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:  # a body that is not text
        return JSONResponse(RequestError("invalid", "the body cannot be read as JSON; send JSON in UTF-8").to_json(), status_code=422)
    codes = {404: "nothing", 405: "method"}
    body = {"code": codes.get(error.status_code, "failed"), "message": f"{request.method} {request.url.path}: {error.detail}", "values": {}}
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)
