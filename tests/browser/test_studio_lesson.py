"""Front page, lesson, Write and Train in a real browser: three clicks to something understood, keys, motion, printing, phones."""

import re
from collections.abc import Callable
from typing import Any

import pytest

Visit = Callable[..., Any]


def test_three_clicks_from_the_front_page(visit: Visit, wait: Any) -> None:
    page = visit("")
    wait(page.locator("[data-door]")).to_have_count(3)
    wait(page.locator("[data-told]")).to_contain_text("fluffy 0.47")
    page.locator(".st-try .st-word").nth(4).click()
    wait(page.locator("[data-told]")).to_contain_text("“roamed” attends to")
    page.locator('[data-door="learn"]').click()
    page.locator('[aria-label^="5:"]').click()
    page.get_by_role("slider", name="Temperature").press("Home")
    wait(page.locator("[data-weights]")).to_contain_text("0.5")
    page.locator('[data-option="1"]').click()
    wait(page.locator(".st-verdict")).to_contain_text("✓")
    page.locator(".st-brand").click()
    wait(page.locator(".st-recent a").first).to_contain_text("Lesson")


@pytest.mark.parametrize(("lang", "scheme"), [("en", "dark"), ("zh", "light")])
def test_the_lesson_by_keys_alone(visit: Visit, wait: Any, axe: Any, lang: str, scheme: str) -> None:
    page = visit("#learn?screen=1", lang=lang, color_scheme=scheme, width=390, height=800, reduced_motion="reduce")
    for screen in range(1, 9):
        wait(page.locator(".st-lesson h2")).to_contain_text(f"{screen}  ")
        wait(page).to_have_url(re.compile(f"screen={screen}"))
        wait(page.locator("[data-trial] > *").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        text = page.locator("#page").inner_text()
        assert "undefined" not in text
        wait(page.locator(".st-say")).to_have_count(1)  # one sentence, one question, notes for the teacher
        wait(page.locator(".st-question")).to_have_count(1)
        assert page.locator("[data-option]").count() >= 2
        page.locator("[data-option]").first.focus()
        page.keyboard.press("Enter")
        wait(page.locator(".st-verdict")).to_contain_text(re.compile("[✓✗]"))
        page.locator(".st-notes summary").focus()
        page.keyboard.press("Enter")
        wait(page.locator(".st-notes p")).to_be_visible()
        page.locator("#page").focus()
        if screen < 8:
            page.keyboard.press("ArrowRight")
    assert page.evaluate("getComputedStyle(document.querySelector('.st-lesson')).animationName") == "none"
    page.keyboard.press("ArrowLeft")
    wait(page.locator(".st-step[aria-current]")).to_have_text("7")
    axe(page)


def test_a_screen_says_what_it_computes_before_it_is_done(visit: Visit, wait: Any, chinese_studio: str) -> None:
    page = visit("#learn?screen=1", at=chinese_studio, width=390, height=800)
    wait(page.locator("[data-result]").first).to_be_visible()
    page.route("**/api/**", lambda route: None)  # an answer that does not come
    page.locator('[data-go="next"]').click()
    wait(page.locator("[data-trial] [lang='zh-CN']")).to_be_visible()
    wait(page.locator("[data-working]")).to_be_visible()
    back, forward = (page.locator(f'[data-go="{which}"]').bounding_box() for which in ("back", "next"))
    assert abs(back["y"] - forward["y"]) < 12  # one row of buttons on a phone


def test_the_screens_compute(visit: Visit, wait: Any) -> None:
    page = visit("#learn?screen=4", width=390, height=800)
    wait(page.locator("[data-score]")).to_have_text("4")
    cell, room = (page.locator(one).bounding_box() for one in ("[data-score]", "[data-trial]"))
    assert cell["x"] + cell["width"] <= room["x"] + room["width"]  # the score is in sight on a phone
    page.goto(page.url.replace("screen=4", "screen=6"))
    wait(page.locator("[data-moved]")).to_contain_text("soft = 0.47, blue = 0.47")
    page.get_by_label("keep “fluffy”").uncheck()
    wait(page.locator("[data-moved]")).to_contain_text("soft = 0.01, blue = 0.9")
    page.goto(page.url.replace("screen=6", "screen=8"))
    page.get_by_role("link", name="How is this number computed?").click()
    wait(page.locator("[data-product]")).to_contain_text("q·k =")
    wait(page.locator("[data-softmax]")).to_be_visible()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_presenter_mode_and_the_worksheet(visit: Visit, wait: Any, lang: str) -> None:
    page = visit("#learn?screen=3", lang=lang)
    page.locator("#page").focus()
    page.keyboard.press("p")
    wait(page.locator(".st-top")).to_be_hidden()
    page.keyboard.press("Escape")
    wait(page.locator(".st-top")).to_be_visible()
    page.goto(page.url.split("#")[0] + "#learn?worksheet=1")
    wait(page.locator(".st-sheet > li")).to_have_count(8)
    page.emulate_media(media="print")
    assert page.locator(".st-sheet > li").first.bounding_box()["x"] >= 24  # room for the numbers of the questions
    wait(page.locator(".st-top")).to_be_hidden()
    wait(page.locator(".st-teacher").first).to_be_hidden()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_writing(visit: Visit, wait: Any, axe: Any, lang: str) -> None:
    page = visit("#write?model=shakespeare&text=ROMEO:", lang=lang)
    wait(page.locator("[data-why] [data-sum]")).to_contain_text("✓")
    tokens, next_token, stream = (page.locator(one).bounding_box() for one in ("[data-tokens]", "[data-next]", ".st-stream"))
    assert tokens["y"] < stream["y"] < next_token["y"] + next_token["height"]  # prediction and layers side by side, no empty column
    assert next_token["x"] < stream["x"]
    before = page.locator("[data-tokens] .st-token").count()
    page.locator("[data-one]").click()
    wait(page.locator("[data-tokens] .st-token")).to_have_count(before + 1)
    page.locator("[data-on]").click()
    wait(page.locator("[data-tokens] .st-token").nth(before + 2)).to_be_visible()
    page.locator("[data-stop]").click()
    wait(page.locator("[data-one]")).to_be_enabled()
    likely = page.locator("[data-next] [data-token]").first.get_attribute("data-token")
    wait(page.locator("[data-cell]")).to_contain_text(likely)  # the cell shown is still that of the last token
    wait(page.locator(".st-lens tr").first.locator("td").last).to_have_attribute("aria-selected", "true")
    drawn = page.locator("[data-next]").text_content()
    page.locator("[data-why] .st-chip").first.click()
    wait(page.locator("[data-muted] .st-chip")).to_have_count(1)
    wait(page.locator("[data-next]")).not_to_have_text(drawn)
    assert "muted=" in page.url
    page.locator(".st-lens td[tabindex='0']").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    wait(page.locator("[data-cell] h3").first).to_be_visible()
    axe(page)


def test_a_training_is_watched(visit: Visit, wait: Any, axe: Any) -> None:
    page = visit("#train", width=390, height=800)
    page.locator('[data-v="transformer"]').click()
    wait(page.locator("[data-break]")).to_contain_text("positions")
    page.locator('[data-v="bahdanau"]').click()
    page.get_by_role("slider", name="Steps").press("Home")  # 50 steps
    wait(page.locator("[data-plan]")).to_have_text("recurrent with attention · additive: 50 steps on 2,960 pairs; 40 more are held out.")
    page.locator("[data-start]").click()
    wait(page.locator("[data-state]")).to_contain_text("finished", timeout=240_000)
    wait(page.locator("[data-watch] .st-chart")).to_be_visible()
    wait(page.locator("[data-model]")).to_have_text("recurrent with attention · additive")
    page.locator('[data-v="transformer"]').click()  # the controls are of the next run
    page.locator('[data-v="none"]').last.click()
    wait(page.locator("[data-break]")).to_contain_text("Predict it")
    wait(page.locator("[data-model]")).to_have_text("recurrent with attention · additive")
    wait(page.locator("[data-got]")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    axe(page)
    first = page.locator("[data-watch] b").first.inner_text()
    page.locator('[data-v="fixed"]').click()
    page.locator("[data-start]").click()
    wait(page.locator("[data-watch] b").first).not_to_have_text(first)
    wait(page.locator("[data-state]")).to_contain_text("finished", timeout=240_000)
    wait(page.locator("[data-watch] [data-why]")).to_contain_text("Without attention everything passes through one vector")
    wait(page.locator("[data-runs] tbody tr")).to_have_count(3)  # the head and both runs
    assert "null" not in page.locator("#page").inner_text()
    axe(page)
    page.locator("[data-runs] button", has_text=first).click()  # back to the run with attention
    wait(page.locator("[data-watch] b").first).to_have_text(first)
    wait(page.locator("[data-watch] [data-why]")).to_have_count(0)
    wait(page.locator("[data-got]")).to_be_visible()
    run = page.locator("[data-watch] b").first.inner_text()
    page.locator(".st-tab", has_text="Translate").click()  # what was shown there before does not stand in the way
    wait(page.locator("[data-result]").first).to_be_visible()
    page.locator(".st-tab", has_text="Train").click()
    page.get_by_role("link", name="Open this model on the page Translate").click()
    wait(page.locator("[data-result]").first).to_be_visible()
    wait(page.locator("code", has_text="regard translate")).to_contain_text(f"--model {run} ")
    assert re.fullmatch("[a-h]( [a-h])*", page.locator("textarea").first.input_value())  # a held-out sentence of the task
