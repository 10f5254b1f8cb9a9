"""The text of a web file by its path in the package, such as "web/dom.js" or "studio/pages/look/page.js"."""

from __future__ import annotations

from importlib.resources import files

from .palette import palette_css, palette_js

GENERATED = {"web/palette.js": palette_js, "web/palette.css": palette_css}


def source(path: str) -> str:
    """Return the text of a file of the package, or of one that Python makes.

    >>> source("web/palette.js")[:22]
    'export const PALETTE ='
    """
    if path in GENERATED:
        return GENERATED[path]()
    return files("regard").joinpath(*path.split("/")).read_text(encoding="utf-8")
