"""Look: what the heads of a model do with a text, live. The work is done in the worker (tasks/looking.py, tasks/meanings.py)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field, model_validator

from .answers import HEAVY, Asked, JobName, wait_for

router = APIRouter(prefix="/api/look", tags=["look"], responses=HEAVY)
MOST_CHARACTERS = 600_000
Name = Annotated[str, Field(max_length=120)]
Text = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Place = Annotated[int, Field(ge=0, le=10**7)]


class Change(Asked):
    """One thing done to a head (or, without one, to a whole layer)."""

    layer: Annotated[int, Field(ge=0, le=1000)]
    head: Annotated[int, Field(ge=0, le=1000)] | None = None
    what: Literal["mute", "temperature", "window", "forget"]
    value: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _fits(self) -> Change:
        least = {"temperature": 1e-3, "forget": 1.0}.get(self.what, 0.0)
        if self.value < least:
            raise ValueError(f"value of {self.what} is {self.value:g}; expected at least {least:g}")
        return self


class Reading(Asked):
    """A model of the list, a text, and changes under which it is read."""

    model: Name
    text: Text
    changes: Annotated[list[Change], Field(max_length=64)] = Field(default_factory=list)


class Asking(Reading):
    """… and the position whose next token is asked for (the last by default)."""

    query: Place | None = None


class Tile(Asked):
    """A rectangle of one head's pattern."""

    sight: Annotated[str, Field(max_length=20)]
    layer: Annotated[int, Field(ge=0, le=1000)]
    call: Annotated[int, Field(ge=0, le=100_000)] = 0
    head: Annotated[int, Field(ge=0, le=1000)]
    rows: Annotated[list[Place], Field(min_length=2, max_length=2)]
    cols: Annotated[list[Place], Field(min_length=2, max_length=2)]

    @model_validator(mode="after")
    def _fits(self) -> Tile:
        rows, cols = self.rows[1] - self.rows[0], self.cols[1] - self.cols[0]
        if rows < 1 or cols < 1 or rows * cols > 1 << 18:
            raise ValueError(f"the rectangle is {rows} × {cols}; expected at least 1 × 1 and at most 262,144 cells")
        return self


class Meanings(Asked):
    """One word in several sentences."""

    model: Name
    word: Annotated[str, Field(min_length=1, max_length=40)]
    sentences: Annotated[list[Annotated[str, Field(min_length=1, max_length=400)]], Field(min_length=2, max_length=6)]


@router.post("", summary="Look at a text", response_model=dict[str, Any])
async def look(asked: Reading, request: Request, job: JobName = "") -> Response:
    """The sighting as the page draws it: every head, its labels, its proof; up to 100,000 tokens."""
    return await wait_for(request, "look", asked.model_dump(), seconds=900, job=job)


@router.post("/tile", summary="Exact weights of a rectangle", response_model=dict[str, Any])
async def tile(asked: Tile, request: Request) -> Response:
    return await wait_for(request, "tile", asked.model_dump(), seconds=60)


@router.post("/what-if", summary="What a change does to the output", response_model=dict[str, Any])
async def what_if(asked: Asking, request: Request, job: JobName = "") -> Response:
    """The next token's candidates before and after, and how far the output moves token by token."""
    return await wait_for(request, "what_if", asked.model_dump(), seconds=300, job=job)


@router.post("/meanings", summary="One word in several sentences", response_model=dict[str, Any])
async def meanings(asked: Meanings, request: Request, job: JobName = "") -> Response:
    """The word's vector after every layer, in a plane, and the cosines between the sentences."""
    return await wait_for(request, "meanings", asked.model_dump(), seconds=120, job=job)
