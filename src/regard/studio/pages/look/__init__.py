"""The Inspect page: the attention of a model's heads on a text (inspection.py), and one word in several sentences (meanings.py)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ...library import Library
from ...page import Page, RequestBody, WorkerEndpoint
from .inspection import look, tile, what_if
from .meanings import meanings

MAX_CHARACTERS = 600_000
Name = Annotated[str, Field(max_length=120)]
Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
Position = Annotated[int, Field(ge=0, le=10**7)]
# The initial texts: for a model of plays, and for one of English prose.
PLAY = "ROMEO:\nBut, soft! what light through yonder window breaks?"
PROSE = "The animal didn't cross the street because it was too tired."


class Change(RequestBody):
    """A change of one head or, without `head`, of all heads of a layer."""

    layer: Annotated[int, Field(ge=0, le=1000)]
    head: Annotated[int, Field(ge=0, le=1000)] | None = None
    what: Literal["mute", "temperature", "window", "forget"]
    value: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _check(self) -> Change:
        minimum = {"temperature": 1e-3, "forget": 1.0}.get(self.what, 0.0)
        if self.value < minimum:
            raise ValueError(f"value of {self.what} is {self.value:g}; expected at least {minimum:g}")
        return self


class LookRequest(RequestBody):
    """The name of a model, a text, and changes to apply to the model."""

    model: Name
    text: Text
    changes: Annotated[list[Change], Field(max_length=64)] = Field(default_factory=list)


class WhatIfRequest(LookRequest):
    """The same, and the position whose next token is predicted (default: the last)."""

    query: Position | None = None


class TileRequest(RequestBody):
    """A rectangle of one head's weights."""

    sight: Annotated[str, Field(max_length=20)]
    layer: Annotated[int, Field(ge=0, le=1000)]
    call: Annotated[int, Field(ge=0, le=100_000)] = 0
    head: Annotated[int, Field(ge=0, le=1000)]
    rows: Annotated[list[Position], Field(min_length=2, max_length=2)]
    cols: Annotated[list[Position], Field(min_length=2, max_length=2)]

    @model_validator(mode="after")
    def _check(self) -> TileRequest:
        rows, cols = self.rows[1] - self.rows[0], self.cols[1] - self.cols[0]
        if rows < 1 or cols < 1 or rows * cols > 1 << 18:
            raise ValueError(f"the rectangle is {rows} × {cols}; expected at least 1 × 1 and at most 262,144 cells")
        return self


class MeaningsRequest(RequestBody):
    """One word in several sentences, and which sense it has in each (the same number: the same sense)."""

    model: Name
    word: Annotated[str, Field(min_length=1, max_length=40)]
    sentences: Annotated[list[Annotated[str, Field(min_length=1, max_length=400)]], Field(min_length=2, max_length=12)]
    senses: Annotated[list[Annotated[int, Field(ge=0, le=11)]], Field(max_length=12)] | None = None

    @model_validator(mode="after")
    def _check(self) -> MeaningsRequest:
        if self.senses is not None and len(self.senses) != len(self.sentences):
            raise ValueError(f"there are {len(self.senses)} senses for {len(self.sentences)} sentences; expected one for each")
        return self


def initial_request(library: Library) -> dict[str, Any] | None:
    """A text for the included language model, or for another model that reads texts."""
    names = library.names("text")
    if not names:
        return None
    name = next((n for n in ("english", "shakespeare") if n in names), names[0])
    return {"model": name, "text": PROSE if name in ("english", "minilm") else PLAY, "changes": []}


PAGE = Page(
    name="look",
    order=2,
    endpoints=(
        WorkerEndpoint("", look, "Inspect the attention on a text", LookRequest, seconds=900),
        WorkerEndpoint("/tile", tile, "Exact weights of a rectangle", TileRequest, seconds=60),
        WorkerEndpoint("/what-if", what_if, "The effect of changes on the output", WhatIfRequest, seconds=300),
        WorkerEndpoint("/meanings", meanings, "One word in several sentences", MeaningsRequest, seconds=120),
    ),
    initial_request=initial_request,
)
