"""Translate: a text by one translator or several, with alignments and alternatives (tasks/translating.py)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from .answers import HEAVY, Asked, JobName, wait_for

router = APIRouter(prefix="/api/translate", tags=["translate"], responses=HEAVY)


class Translation(Asked):
    """Translators of the list and a text; `width` prefixes are kept while searching, and as many translations given."""

    models: Annotated[list[Annotated[str, Field(max_length=120)]], Field(min_length=1, max_length=4)]
    text: Annotated[str, Field(min_length=1, max_length=1000)]
    width: Annotated[int, Field(ge=1, le=8)] = 4
    hard: bool = False


@router.post("", summary="Translate a text", response_model=dict[str, Any])
async def translate(asked: Translation, request: Request, job: JobName = "") -> Response:
    """Each model's translations, best first, with which source words every target word was read from."""
    return await wait_for(request, "translate", asked.model_dump(), seconds=60, job=job)
