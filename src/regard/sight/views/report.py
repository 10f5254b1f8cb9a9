"""A sighting as one interactive page: a single file, no network, opens from disk; in a notebook the same page in a frame.

The page is `static/*.js` and `static/view.css` put together as they are; only the colour table is made here, from `regard.colours`.
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
# The page may run its own script and show pictures it made itself; it can reach nothing else.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def write_html(sighting: Sighting, path: str | Path, *, batch: int = 0, title: str | None = None, lang: str | None = None) -> Path:
    """Write the page; whole or not at all."""
    return write_text(path, page(build_payload(sighting, batch=batch, title=title), lang=lang))


def to_html(sighting: Sighting, *, batch: int = 0, height: int = 820, theme: str | None = None) -> str:
    """The page in a frame, for a notebook's `_repr_html_`: its style and script cannot touch the notebook's own."""
    if not len(sighting):
        return f"<pre>{markup.escape(repr(sighting))}</pre>"
    inside = page(build_payload(sighting, batch=batch), theme=theme)
    return (
        f'<iframe srcdoc="{markup.escape(inside, quote=True)}" title="attention" sandbox="allow-scripts allow-downloads allow-modals" '
        f'style="width:100%;height:{int(height)}px;border:0" loading="lazy"></iframe>'
    )


def page(payload: dict[str, Any], *, lang: str | None = None, theme: str | None = None, **options: Any) -> str:
    """A whole HTML page that draws a payload. options go to the component as they are (`alignment=True` …)."""
    chosen = {name: value for name, value in (("lang", lang), ("theme", theme)) if value is not None}
    given = embedded({"fragment": True, **chosen, **options})
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
<noscript>This page draws attention with JavaScript; allow it to see the picture.</noscript>
<script type="application/json" id="payload">{embedded(payload)}</script>
<script>{component_js()}
regardView(document.getElementById("view"), JSON.parse(document.getElementById("payload").textContent), {given});
</script>
</body>
</html>
"""


def embedded(value: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element or begin a comment.

    >>> embedded("</script><!--")
    '"\\\\u003c/script\\\\u003e\\\\u003c!--"'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@cache
def component_js() -> str:
    """The component as one script that defines `regardView` and nothing else."""
    body = "\n".join(_static(name) for name in _SCRIPTS)
    return f'(function () {{\n"use strict";\nconst RAMP = {json.dumps(_ramp())};\n{body}\nwindow.regardView = regardView;\n}})();'


@cache
def component_css() -> str:
    """The component's style, with the colours of `regard.colours`."""
    return _variables() + _static("view.css")


def _static(name: str) -> str:
    return (Path(__file__).parent / "static" / name).read_text(encoding="utf-8")


def _ramp() -> dict[str, Any]:
    """256 steps of the weight ramp for each theme as one string of hexadecimal digits, and which ink reads on each (1 is white)."""
    made: dict[str, Any] = {"heads": [hexadecimal(colour) for colour in HEADS]}
    for name, dark in (("light", False), ("dark", True)):
        steps = [blue(i / 255, dark=dark) for i in range(256)]
        made[name] = "".join(hexadecimal(colour)[1:] for colour in steps)
        made[name + "Ink"] = "".join("1" if ink(colour) == (255, 255, 255) else "0" for colour in steps)
    return made


def _variables() -> str:
    """The colours that stand for something, for both themes; greys are chosen to read at 4.5:1 on their page."""
    rules = []
    for selector, dark in ((".regard", False), ('.regard[data-theme="dark"]', True)):
        page_colour = blue(0, dark=dark)
        chosen: dict[str, RGB] = {
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
        body = "".join(f"--{name}:{hexadecimal(colour)};" for name, colour in chosen.items())
        rules.append(f"{selector}{{{body}}}")
    return "\n".join(rules) + "\n"


def _grey(page_colour: RGB, wanted: float) -> RGB:
    """The grey nearest to the page that stands out from it by at least this contrast."""
    levels = range(page_colour[0], -1, -1) if page_colour[0] > 127 else range(page_colour[0], 256)
    return next(((g, g, g) for g in levels if contrast((g, g, g), page_colour) >= wanted), (127, 127, 127))
