"""The HTML page: one file, no network access, safe with any text, the library's colours."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from regard.colours import HEADS, blue, contrast, hexadecimal, ink, signed
from regard.files import write_text
from regard.sight.sighting import Missed, Sighting
from regard.sight.views.alignment import alignment_html
from regard.sight.views.payload import build_payload
from regard.sight.views.report import page, to_html, view_css, view_js, write_html
from sightings import WORDS, watched

HOSTILE = ["</script><script>alert(1)</script>", "<!--", "<img src=x onerror=alert(2)>", '"&\u2028', "$x$"]


class Scripts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "script":
            self._inside = True
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[-1] += data


def parsed(text: str) -> Scripts:
    scripts = Scripts()
    scripts.feed(text)
    return scripts


def test_tokens_are_escaped() -> None:
    seen = watched(HOSTILE)
    seen.model = "</title><script>alert(3)</script>"
    payload = build_payload(seen)
    scripts = parsed(page(payload))
    assert len(scripts.found) == 2
    assert "img" not in scripts.tags
    assert json.loads(scripts.found[0]) == payload
    assert json.loads(scripts.found[0])["texts"][0]["pieces"] == [*HOSTILE[:3], '"&‹2028›', "$x$"]


def test_the_page_makes_no_request() -> None:
    text = page(build_payload(watched()))
    outside = [u for u in re.findall(r"(?:https?:)?//[a-z][\w.-]+\.[a-z]{2,}", text) if "www.w3.org" not in u]
    assert outside == []
    assert "default-src 'none'" in text
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket|importScripts|import)\s*\(", view_js())


def test_a_page_of_few_tokens_is_small(tmp_path: Path) -> None:
    path = write_html(watched(WORDS[:8], layers=6, heads=12), tmp_path / "deep" / "report.html")
    assert path.stat().st_size < 300_000
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_the_page_has_the_colours_of_the_library() -> None:
    script = re.search(r"const PALETTE = (\{.*\});", view_js())
    assert script is not None
    palette = json.loads(script.group(1))
    assert palette["heads"] == [hexadecimal(colour) for colour in HEADS]
    for name, dark in (("light", False), ("dark", True)):
        theme = palette[name]
        for i in range(256):
            for ramp, colour in (("weight", blue(i / 255, dark=dark)), ("difference", signed(2 * i / 255 - 1, dark=dark))):
                assert "#" + theme[ramp][6 * i : 6 * i + 6] == hexadecimal(colour)
                assert ink(colour) == ((255, 255, 255) if theme[ramp + "Ink"][i] == "1" else (0, 0, 0))


@pytest.mark.parametrize("rule", [0, 1])
def test_colours_have_enough_contrast(rule: int) -> None:
    block = view_css().splitlines()[rule]
    colours = {name: tuple(int(value[i : i + 2], 16) for i in (0, 2, 4)) for name, value in re.findall(r"--(\w+):#(\w{6});", block)}
    for name, least in {"ink": 12.0, "quiet": 4.5, "red": 4.5, "edge": 3.0, "fill": 3.0}.items():
        assert contrast(colours[name], colours["page"]) >= least, name  # type: ignore[arg-type]
    assert contrast(colours["quiet"], colours["wash"]) >= 4.5  # type: ignore[arg-type]


def test_a_notebook_gets_the_same_page_in_a_frame_of_its_own() -> None:
    seen = watched()
    frame = to_html(seen)
    document = re.search(r'srcdoc="([^"]*)"', frame)
    assert document is not None
    assert html.unescape(document.group(1)) == page(build_payload(seen))
    assert 'sandbox="allow-scripts' in frame
    assert seen._repr_html_() == frame


def test_an_empty_sighting_is_an_error(tmp_path: Path) -> None:
    empty = Sighting("<model>", missed=(Missed("layers.0", (1, 1, 4, 4), "call attend"),))
    assert "<iframe" not in to_html(empty)
    assert "<model>" not in to_html(empty)
    with pytest.raises(ValueError, match=r"the sighting is empty.*layers\.0: call attend"):
        write_html(empty, tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_page(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    write_text(target, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(target, "\ud800")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_alignment_says_its_words_and_its_language() -> None:
    text = alignment_html(torch.eye(2), ["I", "</script>"], ["我", "爱"], title="我爱", lang="zh", theme="dark")
    scripts = parsed(text)
    assert len(scripts.found) == 2
    assert [t["pieces"] for t in json.loads(scripts.found[0])["texts"]] == [["我", "爱"], ["I", "</script>"]]
    assert '<html lang="zh-CN">' in text
    assert '"alignment":true' in text
