"""The files the browser may load: those of web/ and studio/static/, and the JavaScript of each page. Nothing else has an address.

An address is a file's path in the package after /static/, so that a relative import means the same in the browser and in the source:
/static/web/dom.js, /static/studio/static/main.js, /static/studio/pages/look/page.js.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from ..web import GENERATED, bundle, module_paths, source
from .pages import pages

_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_EARLY = "studio/static/early.js"  # runs before the first paint: a classic script


def served_file(path: str) -> tuple[str, str] | None:
    """Return the text and the media type of what is at /static/<path>, None if nothing is.

    >>> served_file("web/dom.js")[1], served_file("../app.py"), served_file("studio/pages/look/__init__.py")
    ('text/javascript', None, None)
    """
    if path not in _served_paths():
        return None
    text = bundle(path, "early") if path == _EARLY else source(path)
    return text, _media_type(path)


def index_html() -> str:
    """The studio's HTML, with {{known}} where the server puts what it knows.

    It names the modules that are needed before anything can be shown, so that the browser need not find them import by import: those of
    the shell as links, those of each page in a table, from which early.js takes the page of the address.
    """
    html, (shell, pages_modules) = source("studio/static/index.html"), _modules()
    links = "\n    ".join(f'<link rel="modulepreload" href="/static/{path}" />' for path in shell)
    return html.replace("{{preload}}", links).replace("{{modules}}", json.dumps(pages_modules, separators=(",", ":")))


@cache
def _modules() -> tuple[list[str], dict[str, list[str]]]:
    """The modules of the shell with all texts, and those that each page adds, the first page first."""
    texts = [f"studio/pages/{page.name}/texts.js" for page in pages()]
    shell = [*module_paths("studio/static/main.js"), *texts]
    return shell, {page.name: [path for path in module_paths(f"studio/pages/{page.name}/page.js") if path not in shell] for page in pages()}


@cache
def _served_paths() -> frozenset[str]:
    """Every path that may be sent: one that is not listed cannot lead anywhere."""
    package = files("regard")
    folders = ["web", "web/view", "studio/static"]
    for page in pages():
        folder = f"studio/pages/{page.name}"
        parts = package.joinpath(*folder.split("/")).iterdir()
        folders += [folder, *(f"{folder}/{part.name}" for part in parts if part.is_dir())]  # a larger page has folders of its own
    listed = {f"{folder}/{file.name}" for folder in folders for file in package.joinpath(*folder.split("/")).iterdir()}
    return frozenset(path for path in listed | set(GENERATED) if _media_type(path))


def _media_type(path: str) -> str:
    return _MEDIA_TYPES.get(path.rpartition(".")[2], "")
