"""The studio's shell in a real browser: every page in both languages and themes, the address, keys, phones, texts, and axe."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard

Visit = Callable[..., Any]
ROOT = Path(regard.__file__).parent
PAGES = sorted(file.parent.name for file in ROOT.glob("studio/pages/*/page.js"))
TEXTS = sorted(f"/static/{file.relative_to(ROOT).as_posix()}" for file in ROOT.rglob("texts.js"))  # the pages', the shell's, the report's
TABS = {
    "home": ("Begin", "开始"),
    "learn": ("Learn", "学习"),
    "translate": ("Translate", "翻译"),
    "look": ("Inspect", "查看注意力"),
    "steps": ("Step by step", "逐步计算"),
    "write": ("Write", "续写"),
    "regression": ("Regression", "回归"),
    "cost": ("Cost", "开销"),
}
SHOWN = {
    "home": ".st-word",
    "learn": "[data-trial]",
    "write": "[data-next]",
    "translate": "[data-result]",
    "look": ".rv-canvas",
    "steps": ".st-matrix",
    "regression": ".st-heat",
    "cost": "[data-total]",
    "train": "[data-untrained]",
}


@pytest.mark.parametrize(("lang", "scheme"), [("en", "light"), ("zh", "dark"), ("en", "dark"), ("zh", "light")])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_begins_full(visit: Visit, wait: Any, axe: Any, name: str, lang: str, scheme: str) -> None:
    page = visit(f"#{name}", lang=lang, color_scheme=scheme)
    tab = page.locator(".st-tab[aria-current]").inner_text()
    assert name not in TABS or tab == TABS[name][lang == "zh"]
    wait(page.locator("html")).to_have_attribute("data-theme", scheme)
    wait(page.locator("html")).to_have_attribute("lang", "zh-CN" if lang == "zh" else "en")
    wait(page.locator("#page h1").first).to_be_visible()
    wait(page).to_have_title(f"{tab} · regard")
    wait(page.locator(SHOWN.get(name, "#page h1")).first).to_be_visible()
    text = page.locator("#page").inner_text()
    assert "undefined" not in text
    assert "[object" not in text
    assert "NaN" not in text
    assert "null" not in text
    assert ("中" in tab or any("一" <= c <= "鿿" for c in text)) == (lang == "zh") or name in ("look", "steps", "learn")
    if (lang, scheme) in (("en", "light"), ("zh", "dark")):
        axe(page)


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_scrolls_one_way_only(visit: Visit, name: str) -> None:
    page = visit(f"#{name}", width=390, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".st-tab").count() == len(PAGES)
    tab = page.locator(".st-tab[aria-current]").bounding_box()
    assert 0 <= tab["x"] <= tab["x"] + tab["width"] <= 390  # the strip of tabs is scrolled to the page that is open


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_all_tabs_are_in_sight_from_a_tablet_up(visit: Visit, lang: str) -> None:
    page = visit("#regression", lang=lang, width=1440)
    for width in (1440, 1200, 1141, 1140, 1024, 1001, 1000, 768):
        page.set_viewport_size({"width": width, "height": 800})
        last = page.locator(".st-tab").last.bounding_box()
        assert page.locator(".st-tabs").evaluate("node => node.scrollWidth - node.clientWidth") <= 0, width
        assert last["x"] + last["width"] <= width


def test_language_and_theme_are_remembered_and_the_work_is_kept(visit: Visit, wait: Any) -> None:
    page = visit("#regression?width=5&kernel=box")
    wait(page.locator(".st-slide output").first).to_have_text("w = 5")
    page.locator(".st-lang").click()
    wait(page.locator("#page h1")).to_have_text("从核回归看注意力")
    wait(page.locator(".st-slide output").first).to_have_text("w = 5")
    page.locator(".st-theme").click()
    wait(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    wait(page.locator("#page h1")).to_have_text("从核回归看注意力")
    wait(page.locator("html")).to_have_attribute("data-theme", "dark")
    wait(page.locator('[data-v="box"]')).to_have_attribute("aria-pressed", "true")


def test_the_address_holds_the_view(visit: Visit, wait: Any) -> None:
    page = visit("#steps")
    page.locator('[data-v="argmax"]').click()
    page.locator('[data-v="column"]').click()
    wait(page.locator('[data-matrix="weights"] small')).to_have_text("each column sums to 1")
    other = visit(page.url.partition("/#")[2] and "#" + page.url.partition("#")[2])
    wait(other.locator('[data-v="argmax"]')).to_have_attribute("aria-pressed", "true")
    wait(other.locator('[data-matrix="weights"] small')).to_have_text("each column sums to 1")


def test_keys(visit: Visit, wait: Any) -> None:
    page = visit("#regression")
    page.keyboard.press("Alt+5")
    wait(page.locator(".st-tab[aria-current]")).to_have_text("Step by step")
    page.wait_for_selector("#page[data-ready]")
    page.locator("#page").focus()
    page.keyboard.press("?")
    wait(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    wait(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("t")
    wait(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.locator(".st-tab", has_text="Cost").focus()
    page.keyboard.press("Enter")
    wait(page.locator(".st-tab[aria-current]")).to_have_text("Cost")
    wait(page.locator(".st-tab[aria-current]")).to_be_focused()  # where Tab goes on from
    page.locator("#page").focus()
    page.keyboard.press("l")
    wait(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.keyboard.press("Tab")
    page.locator(".st-skip").focus()
    page.keyboard.press("Enter")
    wait(page.locator("#page")).to_be_focused()


SHAPE = """async (file) => {
  const { EN, ZH } = await import(file);
  const wrong = [];
  const walk = (a, b, path) => {
    const kinds = [a, b].map((x) => Array.isArray(x) ? 'list' : typeof x);
    if (kinds[0] !== kinds[1]) wrong.push(`${path}: ${kinds}`);
    else if (kinds[0] === 'function') { if (a.length !== b.length) wrong.push(`${path}: ${a.length} and ${b.length} arguments`); }
    else if (kinds[0] === 'string') { if (!a.trim() !== !b.trim()) wrong.push(`${path} is empty`); }
    else if (a && kinds[0] !== 'number') for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
      if (key in a && key in b) walk(a[key], b[key], `${path}.${key}`); else wrong.push(`${path}.${key} is missing`);
    }
  };
  walk(EN, ZH, '');
  return wrong;
}"""


@pytest.mark.parametrize("file", TEXTS)
def test_both_languages_say_everything(visit: Visit, file: str) -> None:
    assert visit("#regression").evaluate(SHAPE, file) == []


# Text of the page itself, without what models read and write, code and formulas.
PROSE = """() => {
  const typed = "code, pre, kbd, textarea, select, option, math, svg, table, [lang], ";
  const own = typed + ".st-said, .st-chip, .st-token, .rv-token, .st-alts, .rv-chips";
  const walker = document.createTreeWalker(document.querySelector("#page"), NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) if (!walker.currentNode.parentElement.closest(own)) texts.push(walker.currentNode.textContent);
  return texts;
}"""


@pytest.mark.parametrize("name", PAGES)
def test_a_chinese_page_has_no_english_sentence(visit: Visit, wait: Any, name: str) -> None:
    page = visit(f"#{name}", lang="zh")
    wait(page.locator(SHOWN.get(name, "#page h1")).first).to_be_visible()
    english = [text for text in page.evaluate(PROSE) if re.search(r"[A-Za-z]{2,} [a-z]{2,} [a-z]{2,}", text)]
    assert english == []


def test_motion_takes_at_most_400_milliseconds() -> None:
    css = (ROOT / "studio/static/studio.css").read_text() + (ROOT / "web/view/view.css").read_text()
    rules = re.findall(r"(?:transition|animation)(?:-duration)?:([^;]*);", css)
    times = [float(number) * (1 if unit == "ms" else 1000) for rule in rules for number, unit in re.findall(r"([\d.]+)(ms|s)\b", rule)]
    assert times
    assert max(times) <= 400


@pytest.mark.parametrize("name", PAGES)
def test_at_200_percent_nothing_is_cut(visit: Visit, wait: Any, name: str) -> None:
    """A window of 1,280 × 900 zoomed to 200 % is 640 × 450 CSS pixels wide."""
    page = visit(f"#{name}", width=640, height=450, device_scale_factor=2, lang="zh")
    wait(page.locator(SHOWN.get(name, "#page h1")).first).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth") <= 640
    for sheet in page.locator("#page .rv-pop > summary").all():
        sheet.click()
    cut = page.evaluate(
        """() => [...document.querySelectorAll("#page *")]
          .filter((node) => !node.closest(".st-scroll, .rv-strip, .rv-stage, svg, math, pre, table, .st-skip"))
          .map((node) => [node, node.getBoundingClientRect()])
          .filter(([, { width, left, right }]) => width && (right > innerWidth + 1 || left < -1))
          .map(([node]) => node.outerHTML.slice(0, 90))"""
    )
    assert cut == []


@pytest.mark.parametrize("name", ["look", "steps", "write", "translate"])
def test_a_dark_page_is_printed_light_and_whole(visit: Visit, wait: Any, name: str) -> None:
    page = visit(f"#{name}", color_scheme="dark")
    shown = page.locator(SHOWN[name]).first
    wait(shown).to_be_visible()
    page.emulate_media(media="print", color_scheme="dark")
    wait(page.locator("html")).to_have_attribute("data-theme", "light")
    wait(shown).to_be_visible()
    wait(page.locator(".st-top")).to_be_hidden()
    if name == "look":
        wait(page.locator(".rv-frame").first).to_be_visible()
        assert page.locator(".regard[id^=rv]").first.get_attribute("data-theme") == "light"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.emulate_media(media="screen", color_scheme="dark")
    wait(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("localStorage.getItem('regard.theme')") is None  # nothing was chosen


@pytest.mark.parametrize("name", PAGES)
def test_every_page_at_every_width_in_both_languages_and_themes(visit: Visit, wait: Any, axe: Any, name: str) -> None:
    page = visit(f"#{name}", width=390, height=900, color_scheme="light")
    for width, switch in ((390, None), (768, ".st-lang"), (1024, ".st-theme"), (1440, ".st-lang")):  # en, zh, zh dark, en dark
        page.set_viewport_size({"width": width, "height": 900})
        if switch is not None:
            page.locator(switch).click()
        wait(page.locator(SHOWN.get(name, "#page h1")).first).to_be_attached()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        axe(page)
