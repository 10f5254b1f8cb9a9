"""The interactive page in a real browser: what is hovered, pressed and switched shows the sighting's own numbers."""

import dataclasses
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from regard.colours import blue, hexadecimal
from regard.models import Gpt, GptConfig
from regard.sight.proof import Proof
from regard.sight.sighting import Missed, Sighting
from regard.sight.views.alignment import alignment_html
from regard.sight.views.payload import build_payload
from regard.sight.views.report import page, to_html
from regard.sight.watch import watch
from sightings import WORDS, long, translated, watched

Show = Callable[..., Any]
FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@cache
def short() -> Sighting:
    return watched()


@cache
def short_page(lang: str = "en") -> str:
    return page(build_payload(short()), lang=lang)


@cache
def far() -> Sighting:
    return long(3000, k=2, side=64)


@cache
def far_page() -> str:
    return page(build_payload(far(), exact_bytes=0), lang="en")


def state(view: Any) -> dict[str, Any]:
    view.evaluate(FRAME)
    return view.evaluate("({...document.querySelector('.regard').regard.state})")  # type: ignore[no-any-return]


def until(view: Any, condition: str) -> None:
    """Wait for a condition; the page's own policy forbids playwright's way, which evaluates text inside the page."""
    for _ in range(200):
        if view.evaluate(f"Boolean({condition})"):
            return
        view.wait_for_timeout(25)
    pytest.fail(f"never true: {condition}")


def becomes(view: Any, /, **wanted: Any) -> None:
    """Wait until the page's state holds these values."""
    for _ in range(200):
        result = state(view)
        if {name: result[name] for name in wanted} == wanted:
            return
        view.wait_for_timeout(25)
    pytest.fail(f"the state never held {wanted}; at last it was {result}")


def shows(view: Any, selector: str, wanted: str | list[str], *, within: bool = False) -> None:
    """Wait until an element (or, for a list, all of them) says this; `within`: among other things."""
    for _ in range(200):
        result = view.locator(selector).all_inner_texts()
        if result == wanted if isinstance(wanted, list) else len(result) == 1 and (wanted in result[0] if within else wanted == result[0]):
            return
        view.wait_for_timeout(25)
    pytest.fail(f"{selector} never said {wanted!r}; at last it said {result!r}")


def value(text: str) -> float:
    """A number as the page writes it: 0.123, −4, 1.2·10⁻⁷."""
    digits = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
    mantissa, _, exponent = text.translate(digits).partition("·10")
    return float(mantissa) * 10.0 ** int(exponent or 0)


PIXEL = """([q, k]) => {
  const view = document.querySelector('.regard').regard.view, p = view.plot, canvas = document.querySelector('.rv-canvas');
  const [x, y] = view.state.form === 'row' ? [k, q] : [q, k], ratio = canvas.width / parseFloat(canvas.style.width);
  const left = p.margin.left + (x - p.box.x0 + 0.5) * p.cellWidth, top = p.margin.top + (y - p.box.y0 + 0.15) * p.cellHeight;
  return [...canvas.getContext('2d').getImageData(Math.round(left * ratio), Math.round(top * ratio), 1, 1).data].slice(0, 3);
}"""
CELL = """([q, k]) => {
  const p = document.querySelector('.regard').regard.view.plot;
  return [p.margin.left + (k - p.box.x0 + 0.5) * p.cellWidth, p.margin.top + (q - p.box.y0 + 0.5) * p.cellHeight];
}"""


def pixel(view: Any, query: int, key: int) -> str:
    """The colour of a cell of the pattern, a little off the number that may stand in its middle."""
    view.evaluate(FRAME)
    r, g, b = view.evaluate(PIXEL, [query, key])
    return hexadecimal((r, g, b))


def move_to_cell(view: Any, query: int, key: int) -> None:
    box = view.locator(".rv-canvas").bounding_box()
    x, y = view.evaluate(CELL, [query, key])
    view.mouse.move(box["x"] + x, box["y"] + y)


def change(view: Any, /, **changes: Any) -> None:
    view.evaluate("(changes) => document.querySelector('.regard').regard.set(changes)", changes)
    view.evaluate(FRAME)


def test_first_paint_shows_the_clearest_head_and_its_word(show: Show) -> None:
    view = show(short_page())
    becomes(view, entry=1, head=0)  # labelled previous token, 0.91
    shows(view, ".rv-card h2", "Layer 1 · Head 0")
    assert "previous token 0.91" in re.sub(r"\s+", " ", view.locator(".rv-chips").inner_text())
    assert view.locator(".rv-text .rv-now").count() == 1
    assert view.locator(".rv-proof").inner_text().startswith("✓ proof")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_weight_has_the_library_s_colour_in_both_themes_and_forms(show: Show, scheme: str) -> None:
    view = show(short_page(), color_scheme=scheme, fragment="#layer=0&head=2&view=pattern")
    weights = short().head(0, 2).tile()
    change(view, q=None)
    for form in ("row", "column"):
        change(view, form=form)
        for query, key in ((3, 0), (6, 4), (10, 9)):
            place = round(255 * float(weights[query, key])) / 255
            assert pixel(view, query, key) == hexadecimal(blue(place, dark=scheme == "dark"))
    assert view.locator(".regard").get_attribute("data-theme") == scheme


def test_hovering_a_word_shows_its_row_everywhere_with_the_numbers(show: Show) -> None:
    view = show(short_page(), fragment="#layer=0&head=1")
    view.locator(".rv-text [data-i='5']").hover()
    becomes(view, q=5)
    assert view.locator(".rv-text .rv-now").inner_text().strip("·") == "a"
    weights = short().head(0, 1).tile()[5]
    best = int(weights.argmax())
    first = view.locator(".rv-list li").first
    assert first.locator(".rv-num").inner_text() == f"{float(weights[best]):.3f}"
    assert first.locator("small").inner_text() == str(best)
    view.keyboard.press("4")
    shows(view, ".rv-wordrow >> nth=1 >> .rv-now", "a")
    until(view, f"document.querySelectorAll(\".rv-links path[stroke-opacity='1']\").length === {int((weights >= 0.005).sum())}")


def test_a_cell_tells_its_exact_weight_and_the_mask(show: Show) -> None:
    view = show(short_page(), fragment="#layer=1&head=3")
    move_to_cell(view, 7, 2)
    becomes(view, q=7, k=2)
    weight = float(short().head(1, 3).tile()[7, 2])
    assert value(view.locator(".rv-said b").inner_text()) == pytest.approx(weight, rel=0.06, abs=6e-5)
    move_to_cell(view, 2, 7)
    view.evaluate(FRAME)
    shows(view, ".rv-said", "masked", within=True)


def test_a_cell_tells_the_score_behind_its_weight(show: Show) -> None:
    view = show(short_page(), fragment="#layer=1&head=3")
    kept = short().head(1, 3).seen.kept
    assert kept is not None
    scores = kept.spec.query[0, 3].double() @ kept.spec.key[0, 3].double().T / kept.spec.query.shape[-1] ** 0.5
    for query, key in ((7, 2), (9, 8)):
        move_to_cell(view, query, key)
        becomes(view, q=query, k=key)
        shows(view, ".rv-score", f"score {float(scores[query, key]):.2f} →".replace("-", "−"), within=True)


def test_click_pins_and_escape_releases(show: Show) -> None:
    view = show(short_page())
    view.locator(".rv-text [data-i='4']").click()
    becomes(view, pinned=True)
    view.locator(".rv-text [data-i='8']").hover()
    becomes(view, q=4, k=8)
    shows(view, ".rv-said", "pinned", within=True)
    view.keyboard.press("Escape")
    becomes(view, pinned=False)


def test_keys_walk_tokens_heads_layers_views_and_scales(show: Show) -> None:
    view = show(short_page(), fragment="#layer=0&head=0&q=3")
    view.keyboard.press("ArrowRight")
    becomes(view, q=4)
    view.keyboard.press("ArrowDown")
    becomes(view, k=0)
    view.keyboard.press("]")
    becomes(view, head=1)
    view.keyboard.press("[")
    view.keyboard.press("[")
    becomes(view, head=3)
    view.keyboard.press("}")
    becomes(view, entry=1)
    shows(view, ".rv-card h2", "Layer 1 · Head 3")
    for key, name in zip("1234", ("pattern", "words", "stacked", "lines"), strict=True):
        view.keyboard.press(key)
        becomes(view, picture=name)
        until(view, f"document.querySelector('.rv-tab[aria-selected=true]').dataset.view === '{name}'")
    view.keyboard.press("s")
    becomes(view, scale="log")
    shows(view, ".rv-legend", "≤", within=True)
    view.keyboard.press("?")
    until(view, "document.querySelectorAll('dialog[open] dt').length > 8")
    view.keyboard.press("Escape")
    until(view, "!document.querySelector('dialog[open]')")


def test_the_head_grid_answers_to_pointer_and_keyboard(show: Show) -> None:
    view = show(short_page(), fragment="#layer=0&head=0")
    view.locator(".rv-grid").focus()
    view.keyboard.press("ArrowDown")
    view.keyboard.press("ArrowRight")
    becomes(view, entry=1, head=1)
    view.locator(".rv-grid").click(position={"x": 40, "y": 40})
    becomes(view, entry=0, head=0)
    view.locator(".rv-pick select").nth(1).select_option("2")
    becomes(view, head=2)


def test_stacked_words_have_one_red_word_a_row(show: Show) -> None:
    view = show(short_page(), fragment="#view=stacked&layer=0&head=1")
    rows = view.locator(".rv-stacked [role=option]")
    assert rows.count() == len(WORDS)
    reds = view.locator(".rv-stacked .rv-now").all_inner_texts()
    assert [text.strip("·") for text in reds] == ["s", *(word[1:] for word in WORDS[1:])]
    weight = float(short().head(0, 1).tile()[6].max())
    darkest = view.locator(".rv-stacked [data-q='6'] .rv-token").evaluate_all("nodes => nodes.map(n => n.style.backgroundColor)")
    r, g, b = blue(round(255 * weight) / 255, dark=False)
    own = int(short().head(0, 1).tile()[6].argmax()) == 6
    assert own or f"rgb({r}, {g}, {b})" in darkest


def test_zoom_shows_fewer_cells_and_the_tile_in_python(show: Show) -> None:
    view = show(short_page(), fragment="#layer=0&head=1&q=5&pin=1")
    shows(view, ".rv-python code", "figures.pattern(seen, layer=0, head=1)", within=True)
    view.keyboard.press("+")
    view.evaluate(FRAME)
    until(view, f"document.querySelector('.regard').regard.view.plot.box.width < {len(WORDS)}")
    view.keyboard.press("ArrowRight")
    view.evaluate(FRAME)
    made = re.fullmatch(
        r"seen\.head\(0, 1\)\.tile\(rows=slice\((\d+), (\d+)\), cols=slice\((\d+), (\d+)\)\)", view.locator(".rv-python code").inner_text()
    )
    assert made is not None
    q0, q1, *_ = map(int, made.groups())
    assert q0 <= state(view)["q"] < q1
    view.keyboard.press("0")
    view.evaluate(FRAME)
    until(view, f"document.querySelector('.regard').regard.view.plot.box.width === {len(WORDS)}")


def test_the_labels_beside_a_zoomed_pattern_select_no_hidden_cell(show: Show) -> None:
    view = show(short_page(), fragment="#layer=0&head=1&q=9&k=9")
    for _ in range(2):
        view.keyboard.press("+")
        view.evaluate(FRAME)
    until(view, "document.querySelector('.regard').regard.view.plot.box.x0 > 2")
    box, margin = view.locator(".rv-canvas").bounding_box(), "document.querySelector('.regard').regard.view.plot.margin"
    top = view.evaluate(f"{margin}.top")
    view.mouse.move(box["x"] + view.evaluate(f"{margin}.left") - 5, box["y"] + top + 30)
    view.evaluate(FRAME)
    assert (state(view)["q"], state(view)["k"]) == (9, 9)
    view.mouse.move(box["x"] + view.evaluate(f"{margin}.left") + 5, box["y"] + top + 30)
    view.evaluate(FRAME)
    assert state(view)["k"] != 9  # a visible cell is selected


def test_the_address_holds_the_view(show: Show) -> None:
    view = show(short_page())
    change(view, entry=0, head=3, picture="stacked", scale="rank", form="column", lang="zh")
    view.evaluate("document.querySelector('.regard').regard.pin(7, 2)")
    until(view, "location.hash.includes('pin=1')")
    fragment = view.evaluate("location.hash")
    again = show(short_page(), fragment=fragment)
    kept = state(again)
    assert {name: kept[name] for name in ("entry", "head", "picture", "scale", "form", "lang", "q", "k", "pinned")} == {
        "entry": 0, "head": 3, "picture": "stacked", "scale": "rank", "form": "column", "lang": "zh", "q": 7, "k": 2, "pinned": True
    }  # fmt: skip


@pytest.mark.parametrize("fragment", ["#layer=99&head=77&q=1e9&view=nope&scale=x&form=y&lang=xx", "#head=-1&q=&k=abc", "#%%%"])
def test_a_broken_address_does_no_harm(show: Show, fragment: str) -> None:
    now = state(show(short_page(), fragment=fragment))
    assert now["picture"] == "pattern"
    assert 0 <= now["head"] < 4
    assert now["scale"] == "linear"


def test_chinese_and_dark_at_a_press(show: Show) -> None:
    view = show(short_page())
    view.get_by_role("button", name="中文").click()
    view.evaluate(FRAME)
    until(view, "document.querySelector('.regard').lang === 'zh-CN'")
    shows(view, ".rv-tab", ["注意力图", "文本", "逐行", "连线"])
    shows(view, ".rv-chips", "前一词元", within=True)
    view.keyboard.press("t")
    view.evaluate(FRAME)
    until(view, "document.querySelector('.regard').dataset.theme === 'dark'")


def test_search_finds_words_across_tokens(show: Show) -> None:
    view = show(short_page())
    view.keyboard.press("/")
    view.keyboard.type("A CRIMINAL")
    becomes(view, q=5, pinned=True)
    view.locator(".rv-search").fill("the")
    shows(view, ".rv-found", "1 of 2")
    view.keyboard.press("Enter")
    becomes(view, q=8)
    view.locator(".rv-search").fill("nobody")
    shows(view, ".rv-found", "not found")


def test_saved_files_hold_the_view(show: Show) -> None:
    view = show(short_page(), fragment="#layer=0&head=1&q=6")
    for name in ("pattern", "words", "stacked", "lines"):
        change(view, picture=name)
        saved = {}
        for kind in ("svg", "png", "json"):
            with view.expect_download() as waiting:
                view.locator(".rv-save summary").click()
                view.locator(f".rv-save [data-kind={kind}]").click()
            assert waiting.value.suggested_filename == f"attention-0-1-{name}.{kind}"
            saved[kind] = waiting.value.path().read_bytes()
        drawn = saved["svg"].decode()
        assert "criminal</text>" in drawn
        assert "Layer 0 · Head 1" in drawn
        assert saved["png"][:8] == b"\x89PNG\r\n\x1a\n"
        told = json.loads(saved["json"])
        weights = short().head(0, 1).tile()
        for query, row in enumerate(told["rows"]):
            for key, weight in row:
                assert weight == pytest.approx(float(weights[query, key]), rel=1e-4, abs=1e-9)


def test_hostile_tokens_stay_text(show: Show) -> None:
    tokens = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "&lt;b&gt;", "</title>", "ok"]
    seen = watched(tokens)
    seen.model = "<b>model</b>"
    for name in ("pattern", "words", "stacked", "lines"):
        view = show(page(build_payload(seen), lang="en"), fragment=f"#view={name}&q=4")
        assert view.locator(".regard img, .regard script, .regard b b").count() == 0
        shows(view, ".rv-title", "<b>model</b>")
        if name != "pattern":
            shows(view, ".rv-panel", "&lt;b&gt;", within=True)


def test_a_long_text_keeps_the_page_light_and_the_numbers_right(show: Show) -> None:
    view = show(far_page(), fragment="#layer=1&head=1&q=1500")
    top = far()[1].readings["top"]
    assert view.locator(".rv-list small").first.inner_text() == f"{int(top.keys[0, 1, 1500, 0]):,}"
    assert float(view.locator(".rv-list .rv-num").first.inner_text()) == pytest.approx(float(top.weights[0, 1, 1500, 0]), abs=6e-4)
    for name in ("pattern", "words", "stacked", "lines"):
        change(view, picture=name)
        assert view.locator(".regard .rv-token").count() < 1500
        assert view.locator(".rv-now").count() >= 1
        assert view.locator(".regard *").count() < 6000
    change(view, picture="words")
    view.locator(".rv-search").fill("needle")
    shows(view, ".rv-found", f"1 of {len([i for i in range(3000) if i % 97 == 13])}")
    view.keyboard.press("Enter")
    becomes(view, q=110)
    assert view.locator(".rv-panel .rv-now").is_visible()


def test_a_server_may_give_exact_tiles(show: Show) -> None:
    view = show(far_page())
    weights = long(3000, k=2, side=64, keep=True).head(0, 0).tile(rows=slice(2000, 2001))[0]
    view.evaluate(
        """async (row) => {
          const payload = JSON.parse(document.getElementById('payload').textContent);
          window.asked = [];
          const place = document.getElementById('view');
          window.second = await regard.attentionView(place, payload, { lang: 'en', fetchTile: async (e, h, q, k) => {
            window.asked.push([e.layer, h, q, k]);
            const wanted = q[0] === 2000 && q[1] === 2001 && k[1] - k[0] === row.length;
            return wanted ? row : new Float32Array((q[1] - q[0]) * (k[1] - k[0])).fill(0.5);
          } });
          second.set({ entry: 0, head: 0, q: 2000 });
        }""",
        weights.tolist(),
    )
    until(view, "document.querySelectorAll('.rv-list button').length > 2")
    assert [0, 0, [2000, 2001], [0, 3000]] in view.evaluate("window.asked")
    shown = [value(text) for text in view.locator(".rv-list button .rv-num").all_inner_texts()]
    assert shown == pytest.approx(weights.topk(8).values.tolist(), abs=6e-4)
    for _ in range(7):
        view.evaluate("second.view.state.k = 2000")
        view.locator(".rv-canvas").press("+")
    until(view, "window.asked.some(([, , q]) => q[1] - q[0] > 1)")
    q0, q1 = next(q for _, _, q, _ in view.evaluate("window.asked") if q[1] - q[0] > 1)
    assert q0 <= 2000 < q1


def test_the_chosen_head_of_a_deep_model_is_in_sight(show: Show) -> None:
    view = show(page(build_payload(watched(WORDS[:3], layers=24, labels=False)), lang="en"), fragment="#layer=0&head=0")
    for _ in range(3):
        view.keyboard.press("{")
    becomes(view, entry=21)
    until(view, "document.querySelector('.rv-gridbox').scrollTop > 0")
    box, chosen = view.locator(".rv-gridbox").bounding_box(), view.locator(".rv-grid").bounding_box()
    row = chosen["y"] + chosen["height"] * 21.5 / 24
    assert box["y"] < row < box["y"] + box["height"]


def test_a_generation_is_walked_step_by_step(show: Show) -> None:
    torch.manual_seed(0)
    model = Gpt(GptConfig(vocabulary=20, d_model=16, heads=2, layers=2, context=16)).eval()
    with watch(model) as seen:
        model.generate(torch.tensor([[1, 2, 3]]), max_new=3, temperature=0)
    view = show(page(build_payload(seen), lang="en"), fragment="#layer=1&call=2&head=1")
    shows(view, ".rv-card h2", "Layer 1 · Head 1 · Step 2")
    shown = [value(text) for text in view.locator(".rv-list .rv-num").all_inner_texts()]
    assert shown == pytest.approx(seen.head(1, 1, call=2).tile()[0].sort(descending=True).values.tolist(), abs=6e-4)
    shows(view, ".rv-python code", "call=2", within=True)
    view.locator(".rv-pick select").nth(2).select_option("0")
    shows(view, ".rv-card h2", "Layer 1 · Head 1 · Step 0")


def test_two_texts_stand_apart_in_cross_attention(show: Show) -> None:
    seen = translated()
    layer = next(one.layer for one in seen if one.kind == "cross")
    view = show(page(build_payload(seen), lang="en"), fragment=f"#layer={layer}&head=1&view=words&q=1")
    keys, queries = view.locator(".rv-panel .rv-flow").all()
    assert keys.locator(".rv-token").all_inner_texts() == ["我", "爱", "中", "国"]
    assert queries.locator(".rv-now").inner_text().strip("·") == "I"
    weights = seen.head(layer, 1).tile()[1]
    first = view.locator(".rv-list .rv-num").first.inner_text()
    assert float(first) == pytest.approx(float(weights.max()), abs=6e-4)


def test_an_alignment_shows_partners_from_either_side(show: Show) -> None:
    weights = torch.tensor([[0.97, 0.01, 0.01, 0.01], [0.03, 0.93, 0.03, 0.01], [0.01, 0.02, 0.52, 0.45]])
    view = show(alignment_html(weights, ["I", "love", "China"], list("我爱中国"), title="我爱中国", lang="en"))
    assert view.locator(".rv-canvas").is_visible()
    assert view.locator(".rv-links path").count() == int((weights > 0.025).sum())
    above, below = view.locator(".rv-wordrow").all()
    below.locator(".rv-token", has_text="China").hover()
    view.evaluate(FRAME)
    shows(view, ".rv-list .rv-num >> nth=0", "0.520")
    shows(view, ".rv-list .rv-num >> nth=1", "0.450")
    above.locator(".rv-token", has_text="爱").hover()
    view.evaluate(FRAME)
    shows(view, ".rv-list .rv-num >> nth=0", "0.930")
    assert view.locator(".rv-list .rv-word").first.inner_text().startswith("love")
    view.mouse.move(2, 2)
    above.focus()
    view.keyboard.press("ArrowRight")
    view.keyboard.press("ArrowRight")
    view.evaluate(FRAME)
    shows(view, ".rv-said", "中", within=True)
    shows(view, ".rv-list .rv-num >> nth=0", "0.520")
    with view.expect_download() as waiting:
        view.locator(".rv-save summary").click()
        view.locator(".rv-save [data-kind=svg][data-which=lines]").click()
    assert "我</text>" in waiting.value.path().read_text(encoding="utf-8")


def test_a_failed_proof_and_missed_attention_are_loud(show: Show) -> None:
    seen = watched()
    seen._all[0] = dataclasses.replace(seen[0], proof=Proof(0.3, 0.2, 9, "causal()", "native", False))
    seen.missed = (Missed("encoder.7", (1, 2, 9, 9), "have it call regard.attend"),)
    view = show(page(build_payload(seen), lang="en"))
    shows(view, ".rv-proof summary", "✗ PROOF FAILS")
    assert float(view.evaluate("parseFloat(getComputedStyle(document.querySelector('.rv-proof summary')).fontSize)")) >= 16
    shows(view, ".rv-missed", "encoder.7", within=True)


@pytest.mark.parametrize("name", ["pattern", "words", "stacked", "lines"])
@pytest.mark.parametrize("text", [short_page, far_page])
def test_a_phone_scrolls_only_down(show: Show, name: str, text: Callable[[], str]) -> None:
    view = show(text(), fragment=f"#view={name}&q=5", width=390, height=844, has_touch=True)
    assert view.evaluate("document.documentElement.scrollWidth") <= 390
    view.locator(".rv-tab").first.tap()
    becomes(view, picture="pattern")


def test_a_notebook_s_frame_works(show: Show) -> None:
    view = show("<!doctype html><title>n</title>" + to_html(short(), theme="light"), ready="iframe")
    frame = view.frame_locator("iframe")
    frame.locator(".regard[data-ready]").wait_for()
    frame.locator(".rv-tab").nth(1).click()
    frame.locator(".rv-panel .rv-token").nth(len(WORDS) - 1).wait_for()
    assert frame.locator(".rv-panel .rv-token").count() == len(WORDS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["pattern", "words", "stacked", "lines"])
def test_axe_finds_nothing_serious(show: Show, name: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed; pip install axe-playwright-python")
    view = show(short_page("zh" if scheme == "dark" else "en"), fragment=f"#view={name}&q=6", color_scheme=scheme, bypass_csp=True)
    result = axe.Axe().run(view).response["violations"]
    serious = [v for v in result if v["impact"] in ("serious", "critical")]
    assert [(v["id"], v["nodes"][0]["html"][:120], v["nodes"][0]["failureSummary"]) for v in serious] == []
