"""A sighting as an interactive HTML page: a single file without network access, and in a notebook the same page in an iframe.

The page consists of `static/*.js` and `static/view.css` as they are; only the colour tables are generated here, from `regard.colours`.
"""

from __future__ import annotations

import html as markup
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.colours import HEADS, RGB, blue, contrast, hexadecimal, ink, red
from regard.files import write_text

from .payload import build_payload

if TYPE_CHECKING:
    from ..sighting import Sighting

_SCRIPTS = ("speech.js", "data.js", "pattern.js", "words.js", "lines.js", "heads.js", "save.js", "frame.js", "view.js")
# The page may run its own script and show images it generates; no network request is allowed.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def write_html(sighting: Sighting, path: str | Path, *, batch: int = 0, title: str | None = None, lang: str | None = None) -> Path:
    """Write the page to a file, atomically."""
    return write_text(path, page(build_payload(sighting, batch=batch, title=title), lang=lang))


def to_html(sighting: Sighting, *, batch: int = 0, height: int = 820, theme: str | None = None) -> str:
    """Return the page in an iframe for a notebook's `_repr_html_`, isolated from the notebook's style and script."""
    if not len(sighting):
        return f"<pre>{markup.escape(repr(sighting))}</pre>"
    document = page(build_payload(sighting, batch=batch), theme=theme)
    return (
        f'<iframe srcdoc="{markup.escape(document, quote=True)}" title="attention" sandbox="allow-scripts allow-downloads allow-modals" '
        f'style="width:100%;height:{int(height)}px;border:0" loading="lazy"></iframe>'
    )


def page(payload: dict[str, Any], *, lang: str | None = None, theme: str | None = None, **options: Any) -> str:
    """Return an HTML page that draws a payload. Other options are passed on to the JavaScript component (`alignment=True` …)."""
    settings = {name: value for name, value in (("lang", lang), ("theme", theme)) if value is not None}
    component_options = embedded({"fragment": True, **settings, **options})
    light, dark = hexadecimal(blue(0, dark=False)), hexadecimal(blue(0, dark=True))
    name = payload.get("title") or payload.get("model") or "attention"
    return f"""<!doctype html>
<html lang="{"zh-CN" if lang == "zh" else "en"}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="regard">
<title>{markup.escape(str(name))} · regard</title>
<link rel="icon" href="data:,">
<style>html,body{{margin:0;background:{light}}}@media(prefers-color-scheme:dark){{html,body{{background:{dark}}}}}
{component_css()}</style>
</head>
<body>
<main id="view"></main>
<noscript>This page draws attention with JavaScript; allow JavaScript to see it.</noscript>
<script type="application/json" id="payload">{embedded(payload)}</script>
<script>{component_js()}
regardView(document.getElementById("view"), JSON.parse(document.getElementById("payload").textContent), {component_options});
</script>
</body>
</html>
"""


def embedded(value: Any) -> str:
    """Return JSON that is safe inside a script element: no text in it can end the element or begin a comment.

    >>> embedded("</script><!--")
    '"\\\\u003c/script\\\\u003e\\\\u003c!--"'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@cache
def component_js() -> str:
    """Return the JavaScript component as one script that defines only `regardView`."""
    body = "\n".join(_static(name) for name in _SCRIPTS)
    return f'(function () {{\n"use strict";\nconst RAMP = {json.dumps(_ramp())};\n{body}\nwindow.regardView = regardView;\n}})();'


@cache
def component_css() -> str:
    """Return the component's style sheet, with the colours of `regard.colours`."""
    return _variables() + _static("view.css")


def _static(name: str) -> str:
    return (Path(__file__).parent / "static" / name).read_text(encoding="utf-8")


def _ramp() -> dict[str, Any]:
    """Return the 256 colours of the weight ramp per theme as one hexadecimal string, and the text colour on each (1: white, 0: black)."""
    ramp: dict[str, Any] = {"heads": [hexadecimal(colour) for colour in HEADS]}
    for name, dark in (("light", False), ("dark", True)):
        steps = [blue(i / 255, dark=dark) for i in range(256)]
        ramp[name] = "".join(hexadecimal(colour)[1:] for colour in steps)
        ramp[name + "Ink"] = "".join("1" if ink(colour) == (255, 255, 255) else "0" for colour in steps)
    return ramp


def _variables() -> str:
    """Return the CSS colour variables of both themes; greys are chosen by their contrast with the page."""
    rules = []
    for selector, dark in ((".regard", False), ('.regard[data-theme="dark"]', True)):
        page_colour = blue(0, dark=dark)
        colours: dict[str, RGB] = {
            "page": page_colour,
            "ink": (236, 237, 240) if dark else (24, 26, 31),
            "quiet": _grey(page_colour, 5.2),
            "faint": _grey(page_colour, 1.6),
            "edge": _grey(page_colour, 3.1),
            "hatch": _grey(page_colour, 1.45),
            "masked": _grey(page_colour, 1.12),
            "wash": _grey(page_colour, 1.09),
            "red": red(dark=dark),
            "fill": blue(0.75, dark=dark),
        }
        body = "".join(f"--{name}:{hexadecimal(colour)};" for name, colour in colours.items())
        rules.append(f"{selector}{{{body}}}")
    return "\n".join(rules) + "\n"


def _grey(page_colour: RGB, least_contrast: float) -> RGB:
    """Return the grey nearest to the page colour with at least this contrast to it."""
    levels = range(page_colour[0], -1, -1) if page_colour[0] > 127 else range(page_colour[0], 256)
    return next(((g, g, g) for g in levels if contrast((g, g, g), page_colour) >= least_contrast), (127, 127, 127))
