"""Jobs: how a heavy job stands, and cancelling it. A job that ended is not an error: who asks may come a moment late."""

from __future__ import annotations

import contextlib
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel

from .refusal import Refusal
from .requests import refusals

router = APIRouter(prefix="/api/jobs", tags=["jobs"], responses=refusals())
Name = Annotated[str, Path(max_length=64, pattern="^[A-Za-z0-9-]+$")]


class JobStatus(BaseModel):
    state: Literal["waiting", "running", "absent"]
    before: int
    share: float


@router.get("/{job}", summary="How a job stands")
def job_status(job: Name, request: Request) -> JobStatus:
    try:
        state, before, share = request.app.state.jobs.state(job)
    except Refusal:
        return JobStatus(state="absent", before=0, share=0.0)
    return JobStatus(state=state, before=before, share=round(share, 4))


@router.delete("/{job}", summary="Cancel a job", status_code=204)
async def cancel(job: Name, request: Request) -> None:
    with contextlib.suppress(Refusal):
        request.app.state.jobs.cancel(job)
