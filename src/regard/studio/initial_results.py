"""What each page shows before the first request: real results, computed with the available models when the server starts."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import cache
from typing import Any, ClassVar

from .jobs import Jobs
from .library import Library
from .pages import pages
from .request_error import RequestError

_computing = threading.Lock()  # the first visitor waits for what the server has begun, and does not begin it again


def computed_results() -> dict[str, Any]:
    """The initial results of the pages that need no model, by page; computed once."""
    with _computing:
        return _computed_results()


@cache
def _computed_results() -> dict[str, Any]:
    return {page.name: page.initial_results() for page in pages() if page.initial_results is not None}


class InitialResults:
    """The initial results of the pages that need a model; a request for one that is not ready yet waits for it."""

    names: ClassVar = tuple(page.name for page in pages() if page.initial_request is not None)

    def __init__(self, library: Library) -> None:
        self.library = library
        self.ready: dict[str, dict[str, Any]] = {}
        self._done = {name: asyncio.Event() for name in self.names}

    async def make(self, jobs: Jobs) -> None:
        """Compute the results, page by page; for a model that fails the error is kept instead."""
        for page in pages():
            if page.initial_request is None:
                continue
            request = page.initial_request(self.library)
            result: dict[str, Any] = {"asked": request, "answer": None, "refused": None}
            if request is not None:
                try:
                    result["answer"] = json.loads(await jobs.run(page.name, request, seconds=300, name=f"first-{page.name}"))
                except RequestError as error:
                    result["refused"] = error.to_json()
            self.ready[page.name] = result
            self._done[page.name].set()

    async def of(self, name: str) -> dict[str, Any]:
        """The response of /api/first/<page>: the request, and its answer or error."""
        await self._done[name].wait()
        return self.ready[name]
