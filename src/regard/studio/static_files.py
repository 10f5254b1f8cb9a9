"""The files served to the browser: those of static/, and the JavaScript of each page as pages/<page>/<file>. Nothing else is served."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from ..sight.views.report import component_css, component_js
from . import palette
from .pages import pages

MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
GENERATED = {"regard-view.js": component_js, "regard-view.css": component_css, "palette.js": palette.script}


def served_file(name: str) -> tuple[str, str] | None:
    """The text and the media type of /static/<name>; None if there is no such file.

    >>> served_file("main.js")[1], served_file("../app.py"), served_file("pages/look/__init__.py")
    ('text/javascript', None, None)
    """
    if name in GENERATED:
        return GENERATED[name](), _media_type(name)
    file = _files().get(name)
    return None if file is None else (file.read_text(encoding="utf-8"), _media_type(name))


def read_text(name: str) -> str:
    """The text of a file of static/."""
    return files(__package__).joinpath("static", name).read_text(encoding="utf-8")


@cache
def _files() -> dict[str, Traversable]:
    """Every file that is served, by its path after /static/. A name is looked up here and never used as a path."""
    root = files(__package__)
    folders = {"": root.joinpath("static")} | {f"pages/{page.name}/": root.joinpath("pages", page.name) for page in pages()}
    return {f"{prefix}{file.name}": file for prefix, folder in folders.items() for file in folder.iterdir() if _media_type(file.name)}


def _media_type(name: str) -> str:
    return MEDIA_TYPES.get(name.rpartition(".")[2], "")
