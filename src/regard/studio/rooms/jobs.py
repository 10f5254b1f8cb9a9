"""Jobs: how a heavy job stands, and cancelling it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel

from .answers import refusals

router = APIRouter(prefix="/api/jobs", tags=["jobs"], responses=refusals(404))
Name = Annotated[str, Path(max_length=64, pattern="^[A-Za-z0-9-]+$")]


class Standing(BaseModel):
    state: Literal["waiting", "running"]
    before: int
    share: float


@router.get("/{job}", summary="How a job stands")
def standing(job: Name, request: Request) -> Standing:
    state, before, share = request.app.state.jobs.state(job)
    return Standing(state=state, before=before, share=round(share, 4))


@router.delete("/{job}", summary="Cancel a job", status_code=204)
async def cancel(job: Name, request: Request) -> None:
    request.app.state.jobs.cancel(job)
