"""Routes for the state of a job and for cancelling it. A job that has ended is not an error, since it may end at any moment."""

from __future__ import annotations

import contextlib
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel

from .request_error import RequestError
from .requests import error_responses

router = APIRouter(prefix="/api/jobs", tags=["jobs"], responses=error_responses())
Name = Annotated[str, Path(max_length=64, pattern="^[A-Za-z0-9-]+$")]


class JobStatus(BaseModel):
    state: Literal["waiting", "running", "absent"]
    before: int
    share: float


@router.get("/{job}", summary="State of a job")
def job_status(job: Name, request: Request) -> JobStatus:
    try:
        state, before, share = request.app.state.jobs.state(job)
    except RequestError:
        return JobStatus(state="absent", before=0, share=0.0)
    return JobStatus(state=state, before=before, share=round(share, 4))


@router.delete("/{job}", summary="Cancel a job", status_code=204)
async def cancel(job: Name, request: Request) -> None:
    with contextlib.suppress(RequestError):
        request.app.state.jobs.cancel(job)
