"""What each page shows before anything was asked: real results, made by the models at hand when the server starts."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any, ClassVar

from .jobs import Jobs
from .library import Library
from .pages import pages
from .refusal import Refusal


@cache
def computed_results() -> dict[str, Any]:
    """The initial results of the pages that need no model, by page."""
    return {page.name: page.initial_results() for page in pages() if page.initial_results is not None}


class InitialResults:
    """The initial results of the pages that need a model, in the order of the pages; a browser that comes too early waits for them."""

    names: ClassVar = tuple(page.name for page in pages() if page.initial_request is not None)

    def __init__(self, library: Library) -> None:
        self.library = library
        self.ready: dict[str, dict[str, Any]] = {}
        self._done = {name: asyncio.Event() for name in self.names}

    async def make(self, jobs: Jobs) -> None:
        """One page after the other; a model that fails leaves its page with the reason instead of a result."""
        for page in pages():
            if page.initial_request is None:
                continue
            request = page.initial_request(self.library)
            made: dict[str, Any] = {"asked": request, "answer": None, "refused": None}
            if request is not None:
                try:
                    made["answer"] = json.loads(await jobs.run(page.name, request, seconds=300, name=f"first-{page.name}"))
                except Refusal as refusal:
                    made["refused"] = refusal.plain()
            self.ready[page.name] = made
            self._done[page.name].set()

    async def of(self, name: str) -> dict[str, Any]:
        """What /api/first/<page> answers: the request, and its answer or why it was refused."""
        await self._done[name].wait()
        return self.ready[name]
