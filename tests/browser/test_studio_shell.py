"""The studio's shell in a real browser: every room in both languages and themes, the address, keys, phones, and axe."""

from collections.abc import Callable
from typing import Any

import pytest

Visit = Callable[..., Any]
ROOMS = {
    "translate": ("Translate", "翻译"),
    "look": ("Look", "透视"),
    "steps": ("Steps", "步骤"),
    "regression": ("Regression", "回归"),
    "cost": ("Cost", "开销"),
}
SERIOUS = ("serious", "critical")


@pytest.mark.parametrize(("lang", "scheme"), [("en", "light"), ("zh", "dark"), ("en", "dark"), ("zh", "light")])
@pytest.mark.parametrize("room", ROOMS)
def test_every_room_begins_full(visit: Visit, wait: Any, room: str, lang: str, scheme: str) -> None:
    page = visit(f"#{room}", lang=lang, color_scheme=scheme)
    name = ROOMS[room][lang == "zh"]
    wait(page.locator(".st-tab[aria-current]")).to_have_text(name)
    wait(page.locator("html")).to_have_attribute("data-theme", scheme)
    wait(page.locator("html")).to_have_attribute("lang", "zh-CN" if lang == "zh" else "en")
    wait(page.locator("#room h1").first).to_be_visible()
    wait(page).to_have_title(f"{name} · regard")
    shown = {"translate": "[data-result]", "look": ".rv-canvas", "steps": ".st-matrix", "regression": ".st-heat", "cost": "[data-total]"}[
        room
    ]
    wait(page.locator(shown).first).to_be_visible()
    text = page.locator("#room").inner_text()
    assert "undefined" not in text
    assert "NaN" not in text
    assert ("中" in name or any("一" <= c <= "鿿" for c in text)) == (lang == "zh") or room in ("look", "steps")
    if (lang, scheme) in (("en", "light"), ("zh", "dark")):
        axe(page)


def axe(page: Any) -> None:
    module = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python to check the pages with axe-core"
    )
    found = module.Axe().run(page).response["violations"]
    told = [f"{v['id']} ({v['impact']}): {[n['target'] for n in v['nodes']][:4]}" for v in found if v["impact"] in SERIOUS]
    assert told == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_phone_scrolls_one_way_only(visit: Visit, room: str) -> None:
    page = visit(f"#{room}", width=390, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".st-tab").count() == 5


def test_language_and_theme_are_remembered_and_the_work_is_kept(visit: Visit, wait: Any) -> None:
    page = visit("#regression?width=5&kernel=box")
    wait(page.locator(".st-slide output").first).to_have_text("w = 5")
    page.locator(".st-lang").click()
    wait(page.locator("#room h1")).to_have_text("注意力就是回归")
    wait(page.locator(".st-slide output").first).to_have_text("w = 5")
    page.locator(".st-theme").click()
    wait(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    wait(page.locator("#room h1")).to_have_text("注意力就是回归")
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
    page.keyboard.press("Alt+3")
    wait(page.locator(".st-tab[aria-current]")).to_have_text("Steps")
    page.wait_for_selector("#room[data-ready]")
    page.locator("#room").focus()
    page.keyboard.press("?")
    wait(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    wait(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("t")
    wait(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("l")
    wait(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.keyboard.press("Tab")
    page.locator(".st-skip").focus()
    page.keyboard.press("Enter")
    wait(page.locator("#room")).to_be_focused()


SHAPE = """async () => {
  const [{ EN }, { ZH }] = await Promise.all([import('/static/speech_en.js'), import('/static/speech_zh.js')]);
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


def test_both_languages_say_everything(visit: Visit) -> None:
    assert visit("#regression").evaluate(SHAPE) == []
