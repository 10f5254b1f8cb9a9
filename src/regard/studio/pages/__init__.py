"""The pages of the studio, one folder each, found by listing this package. No other file lists them.

A folder has `__init__.py` with the page's `PAGE`, `page.js` that draws it, and `texts.js` with its texts in every language; larger pages
have more files.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from ..page import Page


@cache
def pages() -> tuple[Page, ...]:
    """Every page, in the order of their tabs.

    >>> pages()[0].name
    'home'
    """
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    return tuple(sorted(map(_page, names), key=lambda page: (page.order, page.name)))


def worker_task(address: str) -> Callable[..., dict[str, Any]]:
    """The function the worker runs for a request to /api/<address>. Only the page it belongs to is imported.

    >>> worker_task("look/what-if").__name__
    'what_if'
    """
    return _page(address.partition("/")[0]).worker_tasks()[address]


def _page(name: str) -> Page:
    page = getattr(import_module(f"{__name__}.{name}"), "PAGE", None)
    if not isinstance(page, Page) or page.name != name:
        raise TypeError(f"regard/studio/pages/{name}/__init__.py defines PAGE = {page!r}; expected PAGE = Page(name={name!r}, …)")
    return page
