"""The web side of the pages' endpoints: their routes, the ways a request can be refused, and waiting for a job."""

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
    str, Query(max_length=64, pattern="^[A-Za-z0-9-]*$", description="a name of your own, to ask after the job or cancel it")
]


class Refused(BaseModel):
    """Every refusal: a code, what happened and what to do, and the numbers in it."""

    code: str
    message: str
    values: dict[str, Any] = {}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI of the ways a request can be refused; these few are possible everywhere."""
    told = {
        403: "not from this machine's own page",
        404: "no such model, job or sighting",
        405: "no such method",
        408: "the body came too slowly",
        409: "the job was cancelled",
        413: "too large, or it would need more memory than there is",
        415: "not JSON",
        422: "the request makes no sense",
        500: "the job failed; the server goes on",
        503: "too many jobs are waiting: Retry-After says when to come back",
        504: "it took too long",
    }
    return {status: {"model": Refused, "description": told[status]} for status in (403, 405, 408, 413, 415, 422, *statuses)}


HEAVY = refusals(404, 409, 500, 503, 504)


def page_router(page: Page) -> APIRouter:
    """The routes of a page: /api/<page><path> for each of its endpoints."""
    router = APIRouter(prefix=f"/api/{page.name}", tags=[page.name])
    for one in page.endpoints:
        address, method, responses = f"{page.name}{one.path}", "POST", HEAVY
        if isinstance(one, WorkerEndpoint):
            answer = _by_worker(address, one)
        elif isinstance(one, ProgramEndpoint):
            answer = _by_program(address, one)
        else:
            answer, method, responses = _by_server(one), "GET" if one.body is None else "POST", refusals()
        router.add_api_route(
            one.path,
            answer,
            methods=[method],
            name=one.name,
            summary=one.summary,
            description=one.about,
            response_model=dict[str, Any],
            responses=responses,
        )
    return router


def _by_server(endpoint: Endpoint) -> Callable[..., Any]:
    if endpoint.body is None:
        return lambda: endpoint.run()

    def answer(body: Any) -> dict[str, Any]:
        return endpoint.run(body)

    answer.__annotations__["body"] = endpoint.body  # what FastAPI checks the JSON against
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
        kept: dict[str, bytes] = request.app.state.program_outputs
        if again or task not in kept:
            kept[task] = await _wait(request, _jobs(request).aside(command, seconds=endpoint.seconds, name=job), job)
        return Response(kept[task], media_type="application/json")

    return answer


def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


async def _wait(request: Request, work: Coroutine[Any, Any, bytes], job: str) -> bytes:
    """Wait for a job's answer; cancel the job if the client leaves."""
    running = asyncio.create_task(work)
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            with contextlib.suppress(Exception):
                _jobs(request).cancel(job)
        return await running
    finally:
        leaving.cancel()


async def _gone(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.2)
