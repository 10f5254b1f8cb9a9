"""A sighting as an interactive HTML page: a single file without network access, and in a notebook the same page in an iframe.

The page is the attention view of `regard.web`, its modules bundled into one script.
"""

from __future__ import annotations

import html
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.colours import blue, hexadecimal
from regard.files import write_text
from regard.web import bundle, script_json, source

from .payload import build_payload

if TYPE_CHECKING:
    from ..sighting import Sighting

# The page may run its own script and show images it generates; no network request is allowed.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def write_html(sighting: Sighting, path: str | Path, *, batch: int = 0, title: str | None = None, lang: str | None = None) -> Path:
    """Write the page to a file, atomically."""
    return write_text(path, page(build_payload(sighting, batch=batch, title=title), lang=lang))


def write_reports(sighting: Sighting, path: Path) -> list[Path]:
    """Write a page for every batch item: the first to `path`, item i to a file beside it whose name ends in "-i"."""
    items = max((seen.shape[0] for seen in sighting), default=1)
    if any(seen.shape[0] != items for seen in sighting):  # windows of an image are batch items of some layers only
        items = min(seen.shape[0] for seen in sighting)
    paths = [path, *(path.with_name(f"{path.stem}-{i}{path.suffix}") for i in range(1, items))]
    return [write_html(sighting, place, batch=i) for i, place in enumerate(paths)]


def to_html(sighting: Sighting, *, batch: int = 0, height: int = 820, theme: str | None = None) -> str:
    """Return the page in an iframe for a notebook's `_repr_html_`, isolated from the notebook's style and script."""
    if not len(sighting):
        return f"<pre>{html.escape(repr(sighting))}</pre>"
    return frame(page(build_payload(sighting, batch=batch), theme=theme), height=height)


def frame(document: str, *, height: int) -> str:
    """Return a page in an iframe, isolated from the style and script of the notebook that shows it."""
    return (
        f'<iframe srcdoc="{html.escape(document, quote=True)}" title="attention" sandbox="allow-scripts allow-downloads allow-modals" '
        f'style="width:100%;height:{int(height)}px;border:0" loading="lazy"></iframe>'
    )


def page(payload: dict[str, Any], *, lang: str | None = None, theme: str | None = None, **options: Any) -> str:
    """Return an HTML page that draws a payload. Other options are passed on to the view (`alignment=True` …)."""
    preferences = {name: value for name, value in (("lang", lang), ("theme", theme)) if value is not None}
    view_options = script_json({"fragment": True, **preferences, **options})
    light, dark = hexadecimal(blue(0, dark=False)), hexadecimal(blue(0, dark=True))
    title = payload.get("title") or payload.get("model") or "attention"
    return f"""<!doctype html>
<html lang="{"zh-CN" if lang == "zh" else "en"}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="regard">
<title>{html.escape(str(title))} · regard</title>
<link rel="icon" href="data:,">
<style>html,body{{margin:0;background:{light}}}@media(prefers-color-scheme:dark){{html,body{{background:{dark}}}}}
{view_css()}</style>
</head>
<body>
<main id="view"></main>
<noscript>This page draws attention with JavaScript; allow JavaScript to see it.</noscript>
<script type="application/json" id="payload">{script_json(payload)}</script>
<script>{view_js()}
regard.attentionView(document.getElementById("view"), JSON.parse(document.getElementById("payload").textContent), {view_options});
</script>
</body>
</html>
"""


@cache
def view_js() -> str:
    """Return the attention view as one script that defines `regard.attentionView`."""
    return bundle("web/view/attention_view.js", "regard")


@cache
def view_css() -> str:
    """Return the style sheet of the attention view, with the colours of `regard.colours`."""
    return source("web/palette.css") + source("web/view/view.css")
