"""What rooms have in common: numbers that are numbers, the ways a request can be refused, and waiting for a heavy job."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ..jobs import Jobs

Number = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
JobName = Annotated[
    str, Query(max_length=64, pattern="^[A-Za-z0-9-]*$", description="a name of your own, to ask after the job or cancel it")
]


class Asked(BaseModel):
    """A request: unknown fields are mistakes, and "1" is not 1."""

    model_config = ConfigDict(extra="forbid", strict=True)


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


async def wait_for(request: Request, task: str, arguments: dict[str, Any], *, seconds: float, job: str = "") -> Response:
    """Run a task in the worker and give its JSON as it is; a client that leaves takes its job along."""
    job = job or f"{id(request):x}"
    jobs: Jobs = request.app.state.jobs
    found = await until(request, jobs.run(task, arguments, seconds=seconds, name=job), job)
    return Response(found, media_type="application/json")


async def until(request: Request, work: Coroutine[Any, Any, bytes], job: str) -> bytes:
    """Wait for a job's answer; cancel the job if the client leaves."""
    jobs: Jobs = request.app.state.jobs
    running = asyncio.create_task(work)
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            with contextlib.suppress(Exception):
                jobs.cancel(job)
        return await running
    finally:
        leaving.cancel()


async def _gone(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.2)
