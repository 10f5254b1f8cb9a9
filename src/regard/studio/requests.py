"""The routes of the pages' endpoints, their error responses, and waiting for a job."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from .jobs import Jobs
from .page import Endpoint, Page, ProgramEndpoint, WorkerEndpoint

JobName = Annotated[
    str, Query(max_length=64, pattern="^[A-Za-z0-9-]*$", description="a name of your choice, to get the state of the job or cancel it")
]


class ErrorResponse(BaseModel):
    """The body of every error: a code, a message that says what happened and what to do, and the values in it."""

    code: str
    message: str
    values: dict[str, Any] = {}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of the error responses: these statuses and those every endpoint has."""
    descriptions = {
        403: "the request does not come from the studio's own page, or has no token",
        404: "no such model, job or sighting",
        405: "method not allowed",
        408: "the body arrived too slowly",
        409: "the job was cancelled",
        413: "the request is too large, or needs more memory than is free",
        415: "the body is not JSON",
        422: "the request is invalid",
        500: "the job failed; the server keeps running",
        503: "too many jobs are waiting; try again after Retry-After seconds",
        504: "the job exceeded its time limit",
    }
    return {status: {"model": ErrorResponse, "description": descriptions[status]} for status in (403, 405, 408, 413, 415, 422, *statuses)}


WORKER_ERRORS = error_responses(404, 409, 500, 503, 504)


def page_router(page: Page) -> APIRouter:
    """The routes of a page: /api/<page><path> for each of its endpoints."""
    router = APIRouter(prefix=f"/api/{page.name}", tags=[page.name])
    for endpoint in page.endpoints:
        address, method, responses = f"{page.name}{endpoint.path}", "POST", WORKER_ERRORS
        if isinstance(endpoint, WorkerEndpoint):
            answer = _by_worker(address, endpoint)
        elif isinstance(endpoint, ProgramEndpoint):
            answer = _by_program(address, endpoint)
        else:
            answer, method, responses = _by_server(endpoint), "GET" if endpoint.body is None else "POST", error_responses()
        router.add_api_route(
            endpoint.path,
            answer,
            methods=[method],
            name=endpoint.name,
            summary=endpoint.summary,
            description=endpoint.about,
            response_model=dict[str, Any],
            responses=responses,
        )
    return router


def _by_server(endpoint: Endpoint) -> Callable[..., Any]:
    if endpoint.body is None:
        return lambda: endpoint.run()

    def answer(body: Any) -> dict[str, Any]:
        return endpoint.run(body)

    answer.__annotations__["body"] = endpoint.body  # FastAPI validates the JSON with it
    return answer


def _by_worker(task: str, endpoint: WorkerEndpoint) -> Callable[..., Any]:
    async def answer(body: Any, request: Request, job: JobName = "") -> Response:
        job = job or f"{id(request):x}"
        work = _jobs(request).run(task, body.model_dump(), seconds=endpoint.seconds, name=job)
        return Response(await _wait(request, work, job), media_type="application/json")

    answer.__annotations__["body"] = endpoint.body
    return answer


def _by_program(task: str, endpoint: ProgramEndpoint) -> Callable[..., Any]:
    command = [sys.executable, "-m", "regard", *endpoint.arguments]

    async def answer(request: Request, job: JobName = "", again: bool = False) -> Response:
        outputs: dict[str, bytes] = request.app.state.program_outputs
        if again or task not in outputs:
            outputs[task] = await _wait(request, _jobs(request).run_when_idle(command, seconds=endpoint.seconds, name=job), job)
        return Response(outputs[task], media_type="application/json")

    return answer


def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


async def _wait(request: Request, work: Coroutine[Any, Any, bytes], job: str) -> bytes:
    """Wait for the result of a job; cancel the job if the client disconnects."""
    running = asyncio.create_task(work)
    disconnected = asyncio.create_task(_wait_disconnect(request))
    try:
        await asyncio.wait({running, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            with contextlib.suppress(Exception):
                _jobs(request).cancel(job)
        return await running
    finally:
        disconnected.cancel()


async def _wait_disconnect(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.2)
