"""The files the browser may have: those of static/, and the JavaScript of each page as pages/<page>/<file>. Nothing else has an address."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from ..sight.views.report import component_css, component_js
from . import palette
from .pages import pages

KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
GENERATED = {"regard-view.js": component_js, "regard-view.css": component_css, "palette.js": palette.script}


def served_file(name: str) -> tuple[str, str] | None:
    """The text and the media type of what is at /static/<name>; None if nothing is.

    >>> served_file("main.js")[1], served_file("../app.py"), served_file("pages/look/__init__.py")
    ('text/javascript', None, None)
    """
    if name in GENERATED:
        return GENERATED[name](), _kind(name)
    file = _files().get(name)
    return None if file is None else (file.read_text(encoding="utf-8"), _kind(name))


def read_text(name: str) -> str:
    """A file of static/ that is filled in before it is sent."""
    return files(__package__).joinpath("static", name).read_text(encoding="utf-8")


@cache
def _files() -> dict[str, Traversable]:
    """Every file that may be sent, by its address after /static/: a name that is not listed cannot lead anywhere."""
    root = files(__package__)
    folders = {"": root.joinpath("static")} | {f"pages/{page.name}/": root.joinpath("pages", page.name) for page in pages()}
    return {f"{prefix}{file.name}": file for prefix, folder in folders.items() for file in folder.iterdir() if _kind(file.name)}


def _kind(name: str) -> str:
    return KINDS.get(name.rpartition(".")[2], "")
