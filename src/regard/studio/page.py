"""The classes of a page: its name, the position of its tab, its endpoints, and its initial results.

A page is a folder of `pages/` that defines one `PAGE`. Nothing here imports the web server, so the worker can import every page without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from .library import Library

Number = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]


class RequestBody(BaseModel):
    """The JSON body of a request. Unknown fields are errors, and types are strict: "1" is not 1."""

    model_config = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True)
class Endpoint:
    """An endpoint answered by the server process, for quick work: `run(body)` for a POST, or `run()` for a GET without a body.

    The docstring of `run` describes the request in /api/openapi.json.
    """

    path: str  # after /api/<page>: "" or "/fit"
    run: Callable[..., dict[str, Any]]
    summary: str
    body: type[RequestBody] | None = None

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def about(self) -> str | None:
        return inspect.getdoc(self.run)


@dataclass(frozen=True)
class WorkerEndpoint:
    """An endpoint answered by the worker process, one request at a time: `run(state, **fields of the body)`."""

    path: str
    run: Callable[..., dict[str, Any]]
    summary: str
    body: type[RequestBody]
    seconds: float  # how long the work may take

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def about(self) -> str | None:
        return inspect.getdoc(self.run)


@dataclass(frozen=True)
class ProgramEndpoint:
    """An endpoint that returns the JSON printed by `regard <arguments>`. The program runs when no job waits, and its output is cached."""

    path: str
    arguments: tuple[str, ...]
    summary: str
    about: str
    seconds: float

    @property
    def name(self) -> str:
        return self.path.strip("/")


@dataclass(frozen=True)
class Page:
    """One page of the studio.

    Its initial results are either computed by the server (`initial_results`) or by the worker: `initial_request` returns the fields of a
    request to the page's `WorkerEndpoint` with path "", or None if no available model can answer one.
    """

    name: str  # of its folder and in URLs: #look, /api/look
    order: int  # of its tab
    endpoints: tuple[Endpoint | WorkerEndpoint | ProgramEndpoint, ...] = ()
    initial_request: Callable[[Library], dict[str, Any] | None] | None = None
    initial_results: Callable[[], Any] | None = None

    def worker_tasks(self) -> dict[str, Callable[..., dict[str, Any]]]:
        """The functions the worker runs for this page, by the path of the request after /api/: look, look/tile …"""
        return {f"{self.name}{one.path}": one.run for one in self.endpoints if isinstance(one, WorkerEndpoint)}
