"""Translate and the words of Look over packed Chinese translators in a real browser: full, one alone, one changed, none at all."""

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

Visit = Callable[..., Any]
LOVE = urllib.parse.quote("我爱中国。")


def ask(address: str, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def known(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(address + "api/models", timeout=300) as answer:
        return {model["name"]: model for model in json.load(answer)["models"]}


def test_the_page_begins_with_attention_and_the_baseline_side_by_side(visit: Visit, wait: Any, chinese_studio: str) -> None:
    page = visit("#translate", at=chinese_studio)
    wait(page.locator("textarea")).to_have_value("我爱中国。")
    wanted = {
        one["model"]: one["candidates"][0]
        for one in ask(chinese_studio, "api/translate", {"models": ["zh-en-transformer", "zh-en-fixed"], "text": "我爱中国。"})[
            "translations"
        ]
    }
    wait(page.locator("[data-result]")).to_have_text(wanted["zh-en-transformer"]["text"])
    for name, candidate in wanted.items():
        wait(page.locator(f'[data-other="{name}"] .st-said')).to_have_text(candidate["text"] or "…")
    wait(page.locator(".rv-wordrow").first).to_contain_text("我")
    wait(page.locator(".rv-canvas").first).to_be_visible()
    page.locator('[data-other="zh-en-fixed"]').click()
    wait(page.locator("[data-result]")).to_have_text(wanted["zh-en-fixed"]["text"] or "…")
    wait(page.locator("#page")).to_contain_text("there is no alignment to see")
    page.wait_for_url(re.compile("main=zh-en-fixed"))


def test_scores_by_length_are_the_cards(visit: Visit, wait: Any, chinese_studio: str) -> None:
    page = visit("#translate", at=chinese_studio, lang="zh")
    models = known(chinese_studio)
    chart = page.locator("[data-lengths]")
    for name in ("zh-en-transformer", "zh-en-fixed"):
        rows = models[name]["lengths"]["toy test"]
        cells = chart.locator("tr", has_text=name).locator("td")
        wait(cells).to_have_text([f"{row['bleu']:.1f}" for row in rows])
    wait(chart.locator("svg.st-chart .ch-series path")).to_have_count(3)  # one curve a card
    wait(chart.locator("svg.st-chart .ch-dashed path")).to_have_count(1)  # the one without attention


def test_hard_attention_is_shown_beside_soft(visit: Visit, wait: Any, chinese_studio: str) -> None:
    page = visit("#translate", at=chinese_studio)
    wait(page.locator("[data-result]")).to_be_visible()
    soft = ask(chinese_studio, "api/translate", {"models": ["zh-en-transformer"], "text": "我爱中国。"})
    page.locator('[data-v="hard"]').click()
    wait(page.locator("[data-soft]")).to_have_text(f"with soft attention: {soft['translations'][0]['candidates'][0]['text']}")
    page.locator('[data-v="soft"]').click()
    wait(page.locator("[data-soft]")).to_have_count(0)


@pytest.mark.parametrize(("lang", "told"), [("en", "do not match its card"), ("zh", "与模型卡片的记录不一致")])
def test_changed_weights_are_told_where_they_were_asked_for(visit: Visit, wait: Any, chinese_studio: str, lang: str, told: str) -> None:
    page = visit(f"#translate?text={LOVE}&models=zh-en-transformer,zh-en-changed", at=chinese_studio, lang=lang)
    wait(page.locator("[data-result]")).to_be_visible()
    wait(page.locator('[data-other="zh-en-changed"]')).to_contain_text(told)
    wait(page.locator('[data-other="zh-en-changed"]')).to_contain_text("sha256")
    alone = visit(f"#translate?text={LOVE}&models=zh-en-changed", at=chinese_studio, lang=lang, refusals=True)
    wait(alone.locator(".st-ask .st-problem")).to_contain_text(told)
    wait(alone.locator("[data-result]")).to_have_count(0)
    alone.locator(".st-chip", has_text="zh-en-transformer").click()
    wait(alone.locator("[data-result]")).to_be_visible()
    look = visit(f"#look?text={LOVE}&model=zh-en-changed", at=chinese_studio, lang=lang, refusals=True)
    wait(look.locator(".st-ask .st-problem[role=alert]")).to_contain_text(told)


def test_a_long_text_is_read_in_parts(visit: Visit, wait: Any, chinese_studio: str) -> None:
    page = visit("#translate", at=chinese_studio)
    page.locator("textarea").fill("我爱中国。他买苹果和书。" * 10)
    page.locator("textarea").press("Enter")
    parts = page.get_by_role("group", name="Translated in 20 parts:")
    wait(parts.get_by_role("button")).to_have_count(20)
    wait(page.locator(".rv-wordrow").first).to_contain_text("国")
    parts.get_by_role("button").nth(1).click()
    wait(page.locator(".rv-wordrow").first).to_contain_text("苹")


def test_what_cannot_be_read_is_said(visit: Visit, wait: Any, chinese_studio: str) -> None:
    page = visit("#translate", at=chinese_studio)
    page.locator("textarea").fill("我爱狗。")
    wait(page.locator("[data-note]")).to_have_text("Characters unknown to the model: 狗")
    page.locator("textarea").fill("Guten Tag")
    wait(page.locator("[data-note]")).to_contain_text(
        "Most characters of this text are unknown to zh-en-transformer (it translates from Chinese)"
    )


def test_a_page_without_models_says_what_to_do(empty_studio: str, visit: Visit, wait: Any) -> None:
    page = visit("#translate", at=empty_studio)
    wait(page.locator("#page")).to_contain_text("No translator is available")
    wait(page.locator("#page pre")).to_contain_text("regard studio --model")
    page.locator(".st-lang").click()
    wait(page.locator("#page")).to_contain_text("这里没有翻译模型")
    page.goto(empty_studio + "#look")
    wait(page.locator("#page")).to_contain_text("这里没有带注意力的模型")


def test_senses_are_compared_with_the_same_sense_on_a_translator(visit: Visit, wait: Any, chinese_studio: str) -> None:
    page = visit(f"#look?text={LOVE}&model=zh-en-transformer", at=chinese_studio)
    card = page.locator(".st-card").last
    card.scroll_into_view_if_needed()
    card.get_by_role("button", name="打", exact=True).click()
    wait(card.locator("select")).to_have_value("zh-en-transformer")
    card.locator("textarea").fill("我打车。\n他打车。\n\n我打人。\n他打人。")
    card.locator("textarea").blur()
    sentences = ["我打车。", "他打车。", "我打人。", "他打人。"]
    body = {"model": "zh-en-transformer", "word": "打", "sentences": sentences, "senses": [0, 0, 1, 1]}
    wanted = ask(chinese_studio, "api/look/meanings", body)
    within, between, chance = (wanted["control"]["layers"][-1][name] for name in ("within", "between", "chance"))
    told = card.locator("[data-control]")
    wait(told).to_contain_text(f"within a sense {round(within, 3):g} (2 pairs), between senses {round(between, 3):g} (4 pairs)")
    wait(told).to_have_attribute("data-control", "apart" if chance <= 0.05 and within > between else "not")
    wait(card.locator(".st-chart .ch-series")).to_have_count(2)  # within and between, not pair by pair
    circles = card.locator(".st-plane path.st-ring + g circle")
    wait(circles).to_have_count(len(wanted["layers"]))
    card.locator("input[type=range]").fill("0")
    wait(circles).to_have_count(1)
    wait(told).to_contain_text("Before the first layer")
    card.locator("[data-walk]").click()
    wait(circles).to_have_count(len(wanted["layers"]))
    card.locator("textarea").fill("我打车。\n他打人。")
    card.locator("textarea").blur()
    wait(card.locator("[data-apart]")).to_contain_text("cos(1, 2)")
    wait(told).to_contain_text("say nothing about meaning")
    card.get_by_role("button", name="mole", exact=True).click()
    wait(card.locator("[data-needs]")).to_contain_text("regard models add minilm")
    wait(card.locator(".st-plane")).to_have_count(0)
